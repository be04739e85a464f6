// Bytes that become others by tables of levels, of which there are TABLES: one for each channel, or one for all. The
// threads of a block make them first.
#include "words.cuh"

constexpr int LEVELS = 256;
__shared__ unsigned char levels[TABLES * LEVELS];

__device__ __forceinline__ unsigned level_of(unsigned given, int channel) {
    return levels[channel % TABLES * LEVELS + given];
}

__device__ __forceinline__ bool together(const Image& image) { return lie_together(image, CHANNELS, CHANNELS); }

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<0, CHANNELS> words;
    words.read(image.in, four);
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        const unsigned given = words.words[k];
        unsigned made[4];
#pragma unroll
        for (int byte = 0; byte < 4; byte++) made[byte] = level_of(given >> 8 * byte & 255u, (4 * k + byte) % CHANNELS);
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
