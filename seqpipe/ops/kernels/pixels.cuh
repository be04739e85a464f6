// The pixels of a block of a work with tiles: any of an image, as many as a tile has.
#include "tile.cuh"

// Calls `make` with the address of the pixels of a block, and of their results.
template <class Make> __device__ __forceinline__ void for_pixels(const Image& image, Make make) {
    const unsigned width = image.item.width, pixels = width * image.item.height, step = tiles_of(image.item) * THREADS;
#pragma unroll 4
    for (unsigned pixel = blockIdx.x * THREADS + threadIdx.x; pixel < pixels; pixel += step)
        make(image.from(pixel / width, pixel % width), image.to(pixel / width, pixel % width));
}
