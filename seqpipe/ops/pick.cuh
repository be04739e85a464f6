// Values as they are, each from the source pixel that a place along each axis lies in; places as in _resample.py.
__device__ __forceinline__ long long whole(const int* halves) {
    return (long long)halves[1] << 32 | (unsigned)halves[0];
}

__device__ __forceinline__ int source_of(const Row& row, int number, int pixel, int length) {
    const long long step = whole(row.step + 2 * number), half = 1ll << 31;
    const long long centre = whole(row.begin + 2 * number) + step * pixel + (step >> 1);
    return min(max((int)((centre - whole(row.reach + 2 * number) + half) >> 32), 0), length - 1);
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const int column = source_of(image.row, 0, x, image.item.in_width);
    const int line = source_of(image.row, 1, y, image.item.in_height);
    const Address in = image.from(line, column), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++)
        *(Element*)(out + (Address)(channel * image.item.out_strides[4])) =
            *(const Element*)(in + (Address)(channel * image.item.in_strides[4]));
}

FOR_EVERY_PIXEL(make)
