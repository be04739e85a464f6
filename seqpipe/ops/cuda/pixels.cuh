// Calls `make` with the addresses of each pixel of a thread and of its result; the blocks of an image take turns.
template <class Make> __device__ __forceinline__ void for_pixels(const Image& image, Make make) {
    const unsigned width = image.item.width, pixels = width * image.item.height, step = gridDim.x * THREADS;
#pragma unroll 4
    for (unsigned pixel = blockIdx.x * THREADS + threadIdx.x; pixel < pixels; pixel += step)
        make(image.from(pixel / width, pixel % width), image.to(pixel / width, pixel % width));
}
