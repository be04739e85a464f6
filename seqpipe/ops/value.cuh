// Every value by itself. Of bytes that become bytes, each block first finds out what becomes of each level.
__device__ __forceinline__ Real changed(Real value, int channel, const Row& row) {
    BODY
    return value;
}

#if CHANNELS && IN == 0 && OUT == 0
#include "words.cuh"

// Where the statements do the same for all channels (ALIKE), one table is for all.
constexpr int LEVELS = 256, TABLES = ALIKE ? 1 : CHANNELS;
__shared__ unsigned char levels[TABLES * LEVELS];

__device__ __forceinline__ void find_levels(const Image& image) {
    for (int level = threadIdx.x; level < LEVELS; level += THREADS)
#pragma unroll
        for (int table = 0; table < TABLES; table++) {
            const Real value = (float)level;
            levels[table * LEVELS + level] = stored<OUT>(image.row.acts ? changed(value, table, image.row) : value);
        }
    __syncthreads();
}

__device__ __forceinline__ unsigned level_of(unsigned given, int channel) {
    return levels[channel % TABLES * LEVELS + given];
}

__device__ __forceinline__ bool together(const Image& image) { return lie_together(image, CHANNELS, CHANNELS); }

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        const unsigned given = words.words[k];
        unsigned made[4];
#pragma unroll
        for (int byte = 0; byte < 4; byte++)
            made[byte] = level_of(given >> 8 * byte & 255u, (4 * k + byte) % CHANNELS);
        words.words[k] = __byte_perm(__byte_perm(made[0], made[1], 0x40), __byte_perm(made[2], made[3], 0x40), 0x5410);
    }
    words.write(image.out, four);
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) {
        const unsigned given = __ldg((const unsigned char*)(in + (Address)(channel * image.item.in_strides[4])));
        *(unsigned char*)(out + (Address)(channel * image.item.out_strides[4])) = level_of(given, channel);
    }
}

FOR_EVERY_FOUR(find_levels, together, make_four, make)
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
