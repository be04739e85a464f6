// Maps values by a table for each channel of each image. First all blocks of an image compute its histogram, and the last one
// to finish replaces it by the table; then every value is looked up. tone.py documents the table.
//
// 8-bit values are counted in shared memory first, in several copies, so that the threads of a warp rarely conflict.

#include "pixels.cuh"

#if CHANNELS && IN == 0
#define BY_LEVELS 1
constexpr int TABLES = CHANNELS;
#include "levels.cuh"
#else
#define BY_LEVELS 0
constexpr int LEVELS = IN == 0 ? 256 : 65536;
#endif
constexpr int COPIES = IN == 0 ? 4 : 1, OWN = IN == 0 ? TOGETHER * LEVELS * COPIES : 1, SHARE = LEVELS / THREADS;

// Of one channel of one image: how many blocks are done, and what has been counted, which becomes the table.
struct Counted {
    unsigned blocks, unused, levels[LEVELS];
};
__device__ __forceinline__ Counted* counted(const Job& job, const Image& image, int number) {
    return (Counted*)scratch_of(job, number);
}

__device__ __forceinline__ int level_at(Address at) { return *(const typename Typed<IN>::T*)at + (IN == 2 ? 32768 : 0); }

// What has been counted becomes the table; `sums` is for a number of each thread.
__device__ void make_table(const Image& image, volatile unsigned* levels, unsigned* sums, unsigned* lowest) {
    const int first = threadIdx.x * SHARE;
    unsigned own = 0;
    for (int k = 0; k < SHARE; k++) own += levels[first + k];
    __syncthreads();
    sums[threadIdx.x] = own;
    for (int step = 1; step < THREADS; step *= 2) {
        __syncthreads();
        const unsigned before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
    }
    __syncthreads();
    unsigned up_to = sums[threadIdx.x] - own;
    for (int k = 0; k < SHARE && own && !up_to; k++)
        if (levels[first + k]) {
            *lowest = levels[first + k];
            break;
        }
    __syncthreads();
    const unsigned rest = sums[THREADS - 1] - *lowest;
    const Real factor = Real((float)(LEVELS - 1)) / Real((float)rest);
    for (int k = 0; k < SHARE; k++) {
        up_to += levels[first + k];
        const Real place = Real((float)(int)(up_to - *lowest)) * factor;
        const Real value = (rest ? Real(rintf(place.v)) : Real((float)(first + k))) + image.row.least;
        levels[first + k] = __float_as_uint(value.v);
    }
}

// Counts the levels of a block's pixels, of some channels.
__device__ __forceinline__ void count_levels(const Image& image, int channel, unsigned* own, Counted* of_image) {
#if BY_LEVELS
    const auto add = [own](int k, unsigned level) {
        atomicAdd(own + (k * LEVELS + level) * COPIES + threadIdx.x % COPIES, 1u);
    };
    for_fours(image, contiguous(image), blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS,
        [&](const Image& image, unsigned four) {
            Words<0, CHANNELS> words;
            words.read(image.in, four);
#pragma unroll
            for (int k = 0; k < FOUR * CHANNELS; k++) add(k % CHANNELS, words.words[k / 4] >> k % 4 * 8 & 255u);
        },
        [&](const Image& image, int y, int x) {
#pragma unroll
            for (int k = 0; k < CHANNELS; k++)
                add(k, level_at(image.from(y, x) + (Address)(k * image.item.in_strides[4])));
        });
#else
    for_pixels(image, [&](Address in, Address) {
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            const int level = level_at(in + (Address)((channel + k) * image.item.in_strides[4]));
            unsigned* const at = IN == 0 ? own + (k * LEVELS + level) * COPIES + threadIdx.x % COPIES
                                         : of_image[channel + k].levels + level;
            atomicAdd(at, 1u);
        }
    });
#endif
}

struct Counting {
    unsigned own[OWN], sums[THREADS], lowest;
    bool last;
};

KERNEL(4, count) {
    __shared__ Counting shared;
    unsigned* const own = shared.own;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const int channels = CHANNELS_OF(image);
    if (!image.row.acts) return;
    Counted* const of_image = counted(job, image, number);
    for (int channel = 0; channel < channels; channel += TOGETHER) {
        for (int e = threadIdx.x; e < OWN; e += THREADS) own[e] = 0;
        __syncthreads();
        count_levels(image, channel, own, of_image);
        __syncthreads();
        for (int e = threadIdx.x; IN == 0 && e < TOGETHER * LEVELS; e += THREADS) {
            unsigned sum = 0;
            for (int k = 0; k < COPIES; k++) sum += own[e * COPIES + (threadIdx.x + k) % COPIES];
            if (sum) atomicAdd(of_image[channel + e / LEVELS].levels + e % LEVELS, sum);
        }
        __syncthreads();
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(&of_image->blocks, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    for (int channel = 0; channel < channels; channel++) make_table(image, of_image[channel].levels, shared.sums, &shared.lowest);
}

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const bool acts = image.row.acts;
    const Counted* const of_image = counted(job, image, number);
#if BY_LEVELS
    for (int e = threadIdx.x; e < TABLES * LEVELS; e += THREADS)
        levels[e] = stored<OUT>(acts ? __uint_as_float(of_image[e / LEVELS].levels[e % LEVELS]) : (float)(e % LEVELS));
    __syncthreads();
    change_levels(image);
#else
    __shared__ unsigned table[IN == 0 ? TOGETHER * LEVELS : 1];
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        __syncthreads();
        for (int e = threadIdx.x; IN == 0 && e < TOGETHER * LEVELS; e += THREADS)
            table[e] = of_image[channel + e / LEVELS].levels[e % LEVELS];
        __syncthreads();
        for_pixels(image, [&](Address in, Address out) {
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const Address from = in + (Address)((channel + k) * image.item.in_strides[4]);
                const int level = level_at(from);
                const unsigned found = IN == 0 ? table[k * LEVELS + level] : of_image[channel + k].levels[level];
                store<OUT>(out + (Address)((channel + k) * image.item.out_strides[4]),
                           acts ? Real(__uint_as_float(found)) : load<IN>(from));
            }
        });
    }
#endif
}
