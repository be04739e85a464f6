/* The random bits of noise, as _noise.py and noise.cuh have them: Philox4x32-10 (Salmon et al., "Parallel random numbers:
   as easy as 1, 2, 3", 2011) for the counter (pixel, channel / 4, frame, 0), word channel % 4. */

#include <stdint.h>

static void block(uint32_t first, uint32_t second, uint32_t pixel, uint32_t group, uint32_t frame, uint32_t *out) {
    uint32_t a = pixel, b = group, c = frame, d = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t one = (uint64_t)a * 0xD2511F53u, other = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(other >> 32) ^ b ^ first;
        b = (uint32_t)other;
        c = (uint32_t)(one >> 32) ^ d ^ second;
        d = (uint32_t)one;
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* Those of some pixels one after the other, a word for each of their channels. */
void seqpipe_noise_bits(uint32_t first, uint32_t second, uint32_t frame, uint32_t pixel, int64_t pixels, int64_t channels,
                        uint32_t *out) {
    uint32_t words[4];
    for (int64_t place = 0; place < pixels; place++)
        for (int64_t channel = 0; channel < channels; channel++) {
            if (channel % 4 == 0)
                block(first, second, pixel + (uint32_t)place, (uint32_t)(channel / 4), frame, words);
            *out++ = words[channel % 4];
        }
}
