// The pixels of a block of a work with tiles: any of an image, as many as a tile has.
__device__ __forceinline__ int blocks_of(const Item& item) {
    return (item.height + TALL - 1) / TALL * ((item.width + WIDE - 1) / WIDE);
}

// Calls `make` with the address of the pixels of a block, and of their results.
template <class Make> __device__ __forceinline__ void for_pixels(const Image& image, Make make) {
    const unsigned width = image.item.width, pixels = width * image.item.height, step = blocks_of(image.item) * THREADS;
#pragma unroll 4
    for (unsigned pixel = blockIdx.x * THREADS + threadIdx.x; pixel < pixels; pixel += step)
        make(image.from(pixel / width, pixel % width), image.to(pixel / width, pixel % width));
}
