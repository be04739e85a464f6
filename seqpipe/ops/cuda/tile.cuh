// A block's part of an image: TALL rows and WIDE columns, or as many as remain.
struct Tile {
    int top, left, tall, wide;
};
__device__ __forceinline__ Tile tile_of(const Item& item, int number) {
    const unsigned across = (unsigned)(item.width + WIDE - 1) / WIDE, row = (unsigned)number / across;
    const int top = row * TALL, left = (number - row * across) * WIDE;
    return {top, left, min(TALL, item.height - top), min(WIDE, item.width - left)};
}
__device__ __forceinline__ int tiles_of(const Item& item) {
    return (unsigned)(item.height + TALL - 1) / TALL * ((unsigned)(item.width + WIDE - 1) / WIDE);
}
