// Each value independently. If bytes map to bytes, each block first computes a lookup table.
__device__ __forceinline__ Real changed(Real value, int channel, const Row& row) {
    BODY
    return value;
}

#if CHANNELS && IN == 0 && OUT == 0
constexpr int TABLES = ALIKE ? 1 : CHANNELS;  // ALIKE: the statements do the same for all channels
#include "levels.cuh"

__device__ __forceinline__ void find_levels(const Image& image) {
    for (int level = threadIdx.x; level < LEVELS; level += THREADS)
#pragma unroll
        for (int table = 0; table < TABLES; table++) {
            const Real value = (float)level;
            levels[table * LEVELS + level] = stored<OUT>(image.row.acts ? changed(value, table, image.row) : value);
        }
    __syncthreads();
}

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    find_levels(image);
    change_levels(image);
}
#elif CHANNELS
__device__ __forceinline__ void change(const Image& image, Real (&pixel)[CHANNELS]) {
    if (!image.row.acts) return;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) pixel[channel] = changed(pixel[channel], channel, image.row);
}

#include "fours.cuh"
#else
__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    for (int channel = 0; channel < image.item.channels; channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, image.row.acts ? changed(value, channel, image.row) : value);
    }
}

FOR_EVERY_PIXEL(make)
#endif
