// Processes each pixel independently, with all of its values.
__device__ __forceinline__ void change(Real (&pixel)[CHANNELS], const Row& row) {
    BODY
}

__device__ __forceinline__ void change(const Image& image, Real (&pixel)[CHANNELS]) {
    if (image.row.acts) change(pixel, image.row);
}

#include "fours.cuh"
