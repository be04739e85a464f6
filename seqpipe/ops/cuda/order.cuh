// Selects input frames without changing them.
#include "runs.cuh"

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x) + (Address)(image.row.shift * image.item.in_strides[1]);
    const Address out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        *(Element*)to = *(const Element*)(in + (Address)(channel * image.item.in_strides[4]));
    }
}

#if CHANNELS
struct RunSource {
    static constexpr bool by_runs = true;
    __device__ __forceinline__ explicit RunSource(const Image&) {}
};

__device__ __forceinline__ bool fetch(const Image& image, const RunSource&, int y, int x, Run& run) {
    read(image.from(y, x) + (Address)(image.row.shift * image.item.in_strides[1]), run);
    return true;
}
#endif

#include "moved.cuh"
