/* Noise from random bits: the functions of numbers.py and noise.py in C, bit for bit. */

#include <stdint.h>
#include <string.h>

/* A piece of the piecewise linear inverse of the normal distribution. */
typedef struct {
    float at_zero, slope;
} Line;

/* Numbers of the normal distribution: see normal(). */
void seqpipe_normals(const uint32_t *bits, int64_t count, const Line *lines, uint32_t first_line, float *out) {
    for (int64_t k = 0; k < count; k++) {
        const float place = (float)(int32_t)((bits[k] & 0xFFFFFE00u) | 0x100u);
        const float outside = place < 0.0f ? -place : place;
        uint32_t line;
        memcpy(&line, &outside, sizeof line);
        line = (line >> 17) - first_line;
        const float size = lines[line].at_zero + lines[line].slope * outside;
        out[k] = place < 0.0f ? -size : size;
    }
}

/* Alias tables of counts: see tables_of(). On entry, each table holds the number of places of each count. */
void seqpipe_tables(uint32_t *tables, int64_t levels, int64_t slots, uint32_t full) {
    for (uint32_t *own = tables; own < tables + levels * slots; own += slots) {
        int64_t begin = 0;
        while (own[begin] < full)
            begin++;
        int64_t end = begin;
        while (end < slots && own[end] >= full)
            end++;
        int64_t light = begin > 0 ? 0 : end, heavy = begin;
        uint32_t rest = own[heavy];
        for (int64_t step = 0; step < slots; step++)
            if (rest <= full) {
                const uint32_t taken = rest;
                rest = own[heavy + 1] - (full - taken);
                own[heavy] = taken << 6 | (uint32_t)(heavy + 1);
                heavy++;
            } else {
                const uint32_t taken = own[light];
                rest -= full - taken;
                own[light] = taken << 6 | (uint32_t)heavy;
                light = light + 1 == begin ? end : light + 1;
            }
    }
}

/* Counts from these tables: see counts_of(). */
void seqpipe_counts(const uint32_t *bits, const uint8_t *levels, int64_t count, const uint32_t *tables, int64_t slots,
                    float *out) {
    for (int64_t k = 0; k < count; k++) {
        const uint64_t place = (uint64_t)bits[k] * (uint64_t)slots;
        const uint32_t slot = (uint32_t)(place >> 32), entry = tables[levels[k] * slots + slot];
        out[k] = (float)((uint32_t)place < entry ? slot : entry & 63u);
    }
}

/* Replaces values, `many` for each of the bits, by salt or pepper: see SaltAndPepperNoise. */
void seqpipe_salt(const uint32_t *bits, int64_t count, int64_t many, float prob, float salted, float salt, float pepper,
                  float *values) {
    for (int64_t k = 0; k < count; k++, values += many) {
        const float place = ((float)(bits[k] >> 8) + 0.5f) * 0x1p-24f;
        if (place < prob)
            for (int64_t value = 0; value < many; value++)
                values[value] = place < salted ? salt : pepper;
    }
}
