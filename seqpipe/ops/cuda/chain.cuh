// Several fused operators: a pixel is read once and written once, and each intermediate result is rounded as if it were
// stored, so that the result equals that of separate operators.
//
// MOVES     whether a mapping, which never leaves the image, determines the source pixels
// The steps, `change`, and the dtype of each result are inserted below.

BODY

#if !MOVES
__device__ __forceinline__ void change(const Image& image, Real (&pixel)[CHANNELS]) {
    change(pixel, image.row);
}

#include "fours.cuh"
#else
// The source pixel that a place lies in; the mapping of whole pixels has no perspective.
__device__ __forceinline__ int moved(const Real* line, int x, int y) {
    return (int)floorf((line[0] * ((float)x + 0.5f) + line[1] * ((float)y + 0.5f) + line[2]).v);
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Real* m = image.row.matrix;
    const Address in = image.from(moved(m + 3, x, y), moved(m, x, y)), out = image.to(y, x);
    Real pixel[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
    change(pixel, image.row);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), pixel[channel]);
}

FOR_EVERY_PIXEL(make)
#endif
