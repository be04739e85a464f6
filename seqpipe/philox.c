/* The random words of Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) for many
   places in one call. random.py has the same from NumPy's generator, for machines without a compiler. */

#include <stdint.h>

static uint64_t product(uint64_t a, uint64_t b, uint64_t *high) {
    unsigned __int128 whole = (unsigned __int128)a * b;
    *high = (uint64_t)(whole >> 64);
    return (uint64_t)whole;
}

static void block(uint64_t first, uint64_t second, uint64_t number, uint64_t index, uint64_t epoch, uint64_t *out) {
    uint64_t a = number, b = 0, c = index, d = epoch;
    for (int round = 0; round < 10; round++) {
        uint64_t high_a, high_c;
        uint64_t low_a = product(0xD2E7470EE14C6C93u, a, &high_a);
        uint64_t low_c = product(0xCA5A826395121157u, c, &high_c);
        a = high_c ^ b ^ first;
        c = high_a ^ d ^ second;
        b = low_c;
        d = low_a;
        first += 0x9E3779B97F4A7C15u;
        second += 0xBB67AE8584CAA73Bu;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* Four words for each of the blocks of each place, of a key of two words. As in NumPy, the first block has the number
   1. */
void seqpipe_words(uint64_t first, uint64_t second, uint64_t epoch, const uint64_t *indices, int64_t places,
                   int64_t blocks, uint64_t *out) {
    for (int64_t place = 0; place < places; place++)
        for (int64_t number = 1; number <= blocks; number++, out += 4)
            block(first, second, (uint64_t)number, indices[place], epoch, out);
}

/* The same as numbers from 0 up to 1: of the upper 53 bits. */
void seqpipe_numbers(uint64_t first, uint64_t second, uint64_t epoch, const uint64_t *indices, int64_t places,
                     int64_t blocks, double *out) {
    uint64_t words[4];
    for (int64_t place = 0; place < places; place++)
        for (int64_t number = 1; number <= blocks; number++, out += 4) {
            block(first, second, (uint64_t)number, indices[place], epoch, words);
            for (int word = 0; word < 4; word++)
                out[word] = (double)(words[word] >> 11) * 0x1p-53;
        }
}
