/* The random words of Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) for many places in one
   call: for draws those of 64 bits and ten rounds, which are NumPy's, for noise those of 32 bits and seven rounds.
   random.py and philox.py have the same for machines without a compiler. */

#include <stdint.h>

/* The four words of a counter (a, b, c, d), by products of two words that take twice the BITS. */
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

PHILOX(of_64_bits, uint64_t, unsigned __int128, 64, 10, 0xD2E7470EE14C6C93u, 0xCA5A826395121157u, 0x9E3779B97F4A7C15u,
       0xBB67AE8584CAA73Bu)
PHILOX(of_32_bits, uint32_t, uint64_t, 32, 7, 0xD2511F53u, 0xCD9E8D57u, 0x9E3779B9u, 0xBB67AE85u)

/* Four words for each of the blocks of each place. These are given as a key of two words, an epoch, and an index for each:
   every argument takes Python its time. As in NumPy, the first block has the number 1. */
void seqpipe_words(const uint64_t *at, int64_t places, int64_t blocks, uint64_t *out) {
    for (int64_t place = 0; place < places; place++)
        for (int64_t number = 1; number <= blocks; number++, out += 4)
            of_64_bits(at[0], at[1], (uint64_t)number, 0, at[3 + place], at[2], out);
}

/* A word as a number from 0 up to 1: its upper 53 bits. */
static double share(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

/* The same as numbers from 0 up to 1. */
void seqpipe_numbers(const uint64_t *at, int64_t places, int64_t blocks, double *out) {
    uint64_t words[4];
    for (int64_t place = 0; place < places; place++)
        for (int64_t number = 1; number <= blocks; number++, out += 4) {
            of_64_bits(at[0], at[1], (uint64_t)number, 0, at[3 + place], at[2], words);
            for (int word = 0; word < 4; word++)
                out[word] = share(words[word]);
        }
}

/* The words of a place one by one, and the half of one that whole numbers have left over, if there is one. */
struct words {
    const uint64_t *at;
    uint64_t index, passed, block, found[4], half;
    int halves;
};

static uint64_t word_of(struct words *from) {
    const uint64_t at = from->passed++, block = at / 4 + 1;
    if (from->block != block) {
        of_64_bits(from->at[0], from->at[1], block, 0, from->index, from->at[2], from->found);
        from->block = block;
    }
    return from->found[at % 4];
}

/* A whole number below a count of 2 to 2^32, by halves of words as Numbers.below draws it. */
static uint64_t below(uint64_t count, struct words *from) {
    uint64_t product;
    do {
        if (!from->halves)
            from->half = word_of(from);
        product = (from->halves ? from->half >> 32 : from->half & UINT32_MAX) * count;
        from->halves = !from->halves;
    } while ((product & UINT32_MAX) < (UINT64_C(1) << 32) % count);
    return product >> 32;
}

/* What each of some places draws in the same steps, which come after their count: of a step 0 a number from 0 up to 1, of
   one above that a whole number below it, and one below 0 passes as many words. */
void seqpipe_drawn(const uint64_t *at, int64_t places, const int64_t *steps, double *out) {
    for (int64_t place = 0; place < places; place++) {
        struct words from = {.at = at, .index = at[3 + place]};
        for (int64_t number = 1; number <= steps[0]; number++) {
            const int64_t step = steps[number];
            if (step < 0)
                from.passed += (uint64_t)-step;
            else if (step > 1)
                *out++ = (double)below((uint64_t)step, &from);
            else
                *out++ = step ? 0 : share(word_of(&from)); /* of one number nothing is drawn */
        }
    }
}

/* The words of 32 bits of some numbers one after the other: of a number the word number % 4 of the counter
   (number / 4, 0, frame, 0). */
void seqpipe_bits(uint32_t first, uint32_t second, uint32_t frame, int64_t number, int64_t count, uint32_t *out) {
    uint32_t words[4];
    const int64_t end = number + count;
    while (number < end)
        if (number % 4 == 0 && end - number >= 4) {
            of_32_bits(first, second, (uint32_t)(number / 4), 0, frame, 0, out);
            number += 4, out += 4;
        } else {
            of_32_bits(first, second, (uint32_t)(number / 4), 0, frame, 0, words);
            do
                *out++ = words[number % 4];
            while (++number < end && number % 4);
        }
}
