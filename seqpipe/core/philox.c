/* The random words of Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) for several streams in
   one call: words of 64 bits and ten rounds for sampling, as NumPy's, and words of 32 bits and seven rounds for noise.
   draws.py and philox.py have the same for machines without a compiler. */

#include <stdint.h>

/* The four words of a counter (a, b, c, d), by products of two words that have TWICE the BITS. */
#define PHILOX(NAME, WORD, TWICE, BITS, ROUNDS, FACTOR, OTHER_FACTOR, STEP, OTHER_STEP)                                 \
    static void NAME(WORD key, WORD other_key, WORD a, WORD b, WORD c, WORD d, WORD *out) {                            \
        for (int round = 0; round < ROUNDS; round++) {                                                                 \
            const TWICE product = (TWICE)a * FACTOR, other = (TWICE)c * OTHER_FACTOR;                                  \
            a = (WORD)(other >> BITS) ^ b ^ key;                                                                       \
            b = (WORD)other;                                                                                           \
            c = (WORD)(product >> BITS) ^ d ^ other_key;                                                               \
            d = (WORD)product;                                                                                         \
            key += STEP;                                                                                               \
            other_key += OTHER_STEP;                                                                                   \
        }                                                                                                              \
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;                                                                \
    }

PHILOX(philox4x64, uint64_t, unsigned __int128, 64, 10, 0xD2E7470EE14C6C93u, 0xCA5A826395121157u, 0x9E3779B97F4A7C15u,
       0xBB67AE8584CAA73Bu)
PHILOX(philox4x32, uint32_t, uint64_t, 32, 7, 0xD2511F53u, 0xCD9E8D57u, 0x9E3779B9u, 0xBB67AE85u)

/* Streams are packed into one array, because each argument costs Python time: the key's two words, the epoch, and the
   index of each sample. */
enum { EPOCH = 2, INDICES = 3 };

/* The first blocks of four words of each sample's stream. As in NumPy, the first block has the number 1. */
void seqpipe_words(const uint64_t *streams, int64_t samples, int64_t blocks, uint64_t *out) {
    for (int64_t sample = 0; sample < samples; sample++)
        for (int64_t block = 1; block <= blocks; block++, out += 4)
            philox4x64(streams[0], streams[1], (uint64_t)block, 0, streams[INDICES + sample], streams[EPOCH], out);
}

/* A position in the stream of one sample. */
struct stream {
    const uint64_t *streams;
    uint64_t index, position, block, words[4];
    uint64_t word; /* the last word of which below() used the lower half */
    int has_half;  /* whether its upper half is unused */
};

static uint64_t next_word(struct stream *from) {
    const uint64_t position = from->position++, block = position / 4 + 1;
    if (from->block != block) {
        philox4x64(from->streams[0], from->streams[1], block, 0, from->index, from->streams[EPOCH], from->words);
        from->block = block;
    }
    return from->words[position % 4];
}

/* A float in [0, 1): the upper 53 bits of a word. */
static double uniform(struct stream *from) { return (double)(next_word(from) >> 11) * 0x1p-53; }

/* An integer in [0, count), for counts from 2 to 2^32, from halves of words; see BatchGenerator.integers. */
static uint64_t below(uint64_t count, struct stream *from) {
    uint64_t product;
    do {
        if (!from->has_half)
            from->word = next_word(from);
        product = (from->has_half ? from->word >> 32 : from->word & UINT32_MAX) * count;
        from->has_half = !from->has_half;
    } while ((product & UINT32_MAX) < (UINT64_C(1) << 32) % count);
    return product >> 32;
}

/* The numbers that each sample draws in the same steps (Steps in draws.py), which follow their count. */
void seqpipe_drawn(const uint64_t *streams, int64_t samples, const int64_t *steps, double *out) {
    for (int64_t sample = 0; sample < samples; sample++) {
        struct stream from = {.streams = streams, .index = streams[INDICES + sample]};
        for (int64_t number = 1; number <= steps[0]; number++) {
            const int64_t step = steps[number];
            if (step < 0)
                from.position += (uint64_t)-step;
            else if (step > 1)
                *out++ = (double)below((uint64_t)step, &from);
            else
                *out++ = step ? 0 : uniform(&from); /* the only integer below 1 consumes no word */
        }
    }
}

/* Consecutive words of 32 bits for noise: a number's word is word number % 4 of the counter (number / 4, 0, frame, 0). */
void seqpipe_bits(uint32_t key, uint32_t other_key, uint32_t frame, int64_t number, int64_t count, uint32_t *out) {
    uint32_t words[4];
    const int64_t end = number + count;
    while (number < end)
        if (number % 4 == 0 && end - number >= 4) {
            philox4x32(key, other_key, (uint32_t)(number / 4), 0, frame, 0, out);
            number += 4, out += 4;
        } else {
            philox4x32(key, other_key, (uint32_t)(number / 4), 0, frame, 0, words);
            do
                *out++ = words[number % 4];
            while (++number < end && number % 4);
        }
}
