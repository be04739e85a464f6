// Unchanged values, each of the source pixel at a position along each axis; positions as in resampling.py.
#include "taps.cuh"

__device__ __forceinline__ int source_of(const Row& row, int number, int pixel, int length) {
    return min(max(start_of(axis_of(row, number, length), pixel).place, 0), length - 1);
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
