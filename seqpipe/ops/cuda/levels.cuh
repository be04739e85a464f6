// Maps bytes by lookup tables, of which there are TABLES: one for each channel, or one for all. The threads of a block
// compute them first.
#include "words.cuh"

constexpr int LEVELS = 256;
__shared__ unsigned char levels[TABLES * LEVELS];

// Contiguous bytes, as words.
template <int WORDS> struct __align__(WORDS * WORD) Run {
    unsigned words[WORDS];
};

// Maps the bytes of a run by the tables; the first byte belongs to `channel`.
template <int WORDS> __device__ __forceinline__ Run<WORDS> map_bytes(const Run<WORDS>& given, unsigned channel) {
    const unsigned char* tables[TABLES];
#pragma unroll
    for (int k = 0; k < TABLES; k++) tables[k] = levels + (channel + k < TABLES ? channel + k : channel + k - TABLES) * LEVELS;
    Run<WORDS> made;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        unsigned bytes[WORD];
#pragma unroll
        for (int byte = 0; byte < WORD; byte++)
            bytes[byte] = tables[(k * WORD + byte) % TABLES][given.words[k] >> 8 * byte & 255u];
        made.words[k] = lowest_bytes(bytes);
    }
    return made;
}

// Changes bytes by runs; returns how many. Neighboring threads process neighboring runs, so that accesses are coalesced.
template <int WORDS>
__device__ __forceinline__ unsigned change_runs(const Image& image, unsigned first, unsigned threads, unsigned bytes) {
    constexpr int LONG = WORDS * WORD;
    const unsigned runs = bytes / LONG;
    for (unsigned run = first; run < runs; run += threads) {
        const Run<WORDS> given = ((const Run<WORDS>*)image.in)[run];
        ((Run<WORDS>*)image.out)[run] = map_bytes(given, run * LONG % TABLES);
    }
    return runs * LONG;
}

__device__ __forceinline__ bool contiguous(const Image& image) { return is_contiguous(image, CHANNELS, CHANNELS); }

__device__ __forceinline__ void change_pixel(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) {
        const unsigned given = __ldg((const unsigned char*)(in + (Address)(channel * image.item.in_strides[4])));
        *(unsigned char*)(out + (Address)(channel * image.item.out_strides[4])) = levels[channel % TABLES * LEVELS + given];
    }
}

// Changes the bytes of an image; the tables must be complete.
__device__ __forceinline__ void change_levels(const Image& image) {
    const unsigned first = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    const unsigned width = image.item.width, pixels = width * image.item.height;
    unsigned done = 0;
    if (contiguous(image))
        done = (image.in | image.out) % sizeof(Run<4>) ? change_runs<1>(image, first, threads, pixels * CHANNELS)
                                                       : change_runs<4>(image, first, threads, pixels * CHANNELS);
    for (unsigned pixel = done / CHANNELS + first; pixel < pixels; pixel += threads)
        change_pixel(image, pixel / width, pixel % width);
}
