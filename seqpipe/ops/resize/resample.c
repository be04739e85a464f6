// Resampling of images down the columns, then along the rows; equals resampled() of geometry/resampling.py bit for bit.
//
// Every product and every sum is rounded separately (-ffp-contract=off), in the order of that function. A row of the
// result needs one row of sums, which stays in the cache.

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(PLAIN)
#define WIDE 1
#include <immintrin.h>
#endif

typedef float Four __attribute__((vector_size(16)));

#define LANES 8
#define PARTS 4
#define BLOCK (LANES * PARTS)
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    const char *in;     // pixels; those of a row are contiguous
    int64_t frame, row; // strides in bytes
    int64_t values;     // of a row
    int64_t channels;
    int64_t height, width; // of the result
    int64_t row_taps, column_taps;
    const int64_t *rows, *columns; // (size, taps): source pixels; of columns times channels
    const float *row_weights, *column_weights;
    const float *row_totals, *column_totals;
    void *out;
    float *sums; // a row of values, and padding
    float *line; // a row of the result, and padding
} Call;

// Computes a row of sums down the columns for one type of values. SKIPS: taps of weight 0 do not change integer sums.
// ADD adds LANES values, each times a weight, to a sum.
#define DOWN(NAME, IN, SKIPS, TARGET, SUM, ADD)                                                                        \
    TARGET static void NAME(const Call *c, const char *in, int64_t y) {                                                \
        const int64_t *places = c->rows + y * c->row_taps;                                                             \
        const float *weights = c->row_weights + y * c->row_taps;                                                       \
        int64_t j = 0;                                                                                                 \
        for (; j + BLOCK <= c->values; j += BLOCK) {                                                                   \
            SUM one = {0}, two = {0}, three = {0}, four = {0};                                                         \
            for (int64_t t = 0; t < c->row_taps; t++) {                                                                \
                const float w = weights[t];                                                                            \
                if (SKIPS && w == 0) continue;                                                                         \
                const IN *from = (const IN *)(in + places[t] * c->row) + j;                                            \
                ADD(one, w, from);                                                                                     \
                ADD(two, w, from + LANES);                                                                             \
                ADD(three, w, from + 2 * LANES);                                                                       \
                ADD(four, w, from + 3 * LANES);                                                                        \
            }                                                                                                          \
            memcpy(c->sums + j, &one, sizeof one);                                                                     \
            memcpy(c->sums + j + LANES, &two, sizeof two);                                                             \
            memcpy(c->sums + j + 2 * LANES, &three, sizeof three);                                                     \
            memcpy(c->sums + j + 3 * LANES, &four, sizeof four);                                                       \
        }                                                                                                              \
        for (; j < c->values; j++) {                                                                                   \
            float sum = 0;                                                                                             \
            for (int64_t t = 0; t < c->row_taps; t++) {                                                                \
                sum += weights[t] * (float)((const IN *)(in + places[t] * c->row))[j];                                 \
            }                                                                                                          \
            c->sums[j] = sum;                                                                                          \
        }                                                                                                              \
    }

// Computes a row of the result from the sums; source pixels are consecutive or, at the border, equal.
INLINE void along_of(const Call *c, int64_t y, const int64_t taps, const int64_t channels) {
    const float down = c->row_totals[y];
    const float *weights = c->column_weights;
    const int64_t *places = c->columns;
    for (int64_t x = 0; x < c->width; x++, weights += taps, places += taps) {
        const float part = 1.0f / (down * c->column_totals[x]);
        for (int64_t channel = 0; channel < channels; channel += 4) {
            const float *from = c->sums + channel;
            Four sum = {0};
#pragma GCC unroll 8
            for (int64_t t = 0; t < taps; t++) {
                Four some;
                memcpy(&some, from + places[t], sizeof some);
                sum += weights[t] * some;
            }
            sum *= part;
            // the next pixel overwrites surplus values
            memcpy(c->line + x * channels + channel, &sum, sizeof sum);
        }
    }
}

// Selects an instance with constants known at compile time, for few taps.
INLINE void along(const Call *c, int64_t y) {
    const int64_t taps = c->channels == 3 ? c->column_taps : 0;
    switch (taps) {
    case 2: along_of(c, y, 2, 3); break;
    case 3: along_of(c, y, 3, 3); break;
    case 4: along_of(c, y, 4, 3); break;
    case 5: along_of(c, y, 5, 3); break;
    case 6: along_of(c, y, 6, 3); break;
    case 0: along_of(c, y, c->column_taps, c->channels); break;
    default: along_of(c, y, taps, 3);
    }
}

// Stores a row of the result as integers, rounded half to even and saturated, so that |line| < 2**22.
#define STORE(NAME, OUT, LEAST, MOST)                                                                                  \
    INLINE void NAME(const float *line, OUT *out, int64_t first, int64_t count) {                                      \
        for (int64_t j = first; j < count; j++) {                                                                      \
            float value = line[j] > LEAST ? line[j] : LEAST;                                                           \
            value = value < MOST ? value : MOST;                                                                       \
            value = (value + 12582912.0f) - 12582912.0f;                                                               \
            out[j] = (OUT)(int32_t)value;                                                                              \
        }                                                                                                              \
    }

STORE(rest_uint8_t, uint8_t, 0.0f, 255.0f)
STORE(rest_uint16_t, uint16_t, 0.0f, 65535.0f)
STORE(rest_int16_t, int16_t, -32768.0f, 32767.0f)

INLINE void plain_store_uint8_t(const float *line, uint8_t *out, int64_t count) { rest_uint8_t(line, out, 0, count); }
INLINE void plain_store_uint16_t(const float *line, uint16_t *out, int64_t count) { rest_uint16_t(line, out, 0, count); }
INLINE void plain_store_int16_t(const float *line, int16_t *out, int64_t count) { rest_int16_t(line, out, 0, count); }
INLINE void plain_store_float(const float *line, float *out, int64_t count) {
    memcpy(out, line, (size_t)count * sizeof(float));
}

#define EACH(NAME, IN, OUT)                                                                                               \
    for (int64_t frame = 0; frame < frames; frame++)                                                                   \
        for (int64_t y = 0; y < c->height; y++) {                                                                      \
            NAME##_##IN(c, c->in + frame * c->frame, y);                                                                    \
            along(c, y);                                                                                               \
            NAME##_store_##OUT(c->line, (OUT *)c->out + (frame * c->height + y) * count, count);                              \
        }                                                                                                              \
    break

#define ALL(NAME, TARGET)                                                                                              \
    TARGET static void NAME(const Call *c, int64_t frames, int64_t kind) {                                             \
        const int64_t count = c->width * c->channels;                                                                  \
        switch (kind) {                                                                                                \
        case 0: EACH(NAME, uint8_t, uint8_t);                                                                         \
        case 1: EACH(NAME, uint8_t, float);                                                                           \
        case 2: EACH(NAME, uint16_t, uint16_t);                                                                       \
        case 3: EACH(NAME, uint16_t, float);                                                                          \
        case 4: EACH(NAME, int16_t, int16_t);                                                                         \
        case 5: EACH(NAME, int16_t, float);                                                                           \
        case 6: EACH(NAME, float, float);                                                                             \
        }                                                                                                              \
    }

typedef struct {
    float each[LANES];
} Lanes;

#define ADD_EACH(sum, w, from)                                                                                         \
    for (int lane = 0; lane < LANES; lane++) (sum).each[lane] += (w) * (float)(from)[lane]

DOWN(plain_uint8_t, uint8_t, 1, , Lanes, ADD_EACH)
DOWN(plain_uint16_t, uint16_t, 1, , Lanes, ADD_EACH)
DOWN(plain_int16_t, int16_t, 1, , Lanes, ADD_EACH)
DOWN(plain_float, float, 0, , Lanes, ADD_EACH)
ALL(plain, )

#if defined(WIDE)
#define AVX2 __attribute__((target("avx2")))
#define ADD_WIDE(sum, w, floats) sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(w), floats))
#define ADD_8(sum, w, from)                                                                                            \
    ADD_WIDE(sum, w, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(from)))))
#define ADD_U16(sum, w, from)                                                                                          \
    ADD_WIDE(sum, w, _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(from)))))
#define ADD_16(sum, w, from)                                                                                           \
    ADD_WIDE(sum, w, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(from)))))
#define ADD_FLOAT(sum, w, from) ADD_WIDE(sum, w, _mm256_loadu_ps(from))

DOWN(wide_uint8_t, uint8_t, 1, AVX2, __m256, ADD_8)
DOWN(wide_uint16_t, uint16_t, 1, AVX2, __m256, ADD_U16)
DOWN(wide_int16_t, int16_t, 1, AVX2, __m256, ADD_16)
DOWN(wide_float, float, 0, AVX2, __m256, ADD_FLOAT)

// eight values as 32-bit integers, rounded half to even and saturated
#define EIGHT(line, least, most)                                                                                       \
    _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(_mm256_loadu_ps(line), _mm256_set1_ps(least)), _mm256_set1_ps(most)))
#define HALVES(eight) _mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1)

AVX2 INLINE void wide_store_uint8_t(const float *line, uint8_t *out, int64_t count) {
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        const __m256i eight = EIGHT(line + j, 0.0f, 255.0f);
        const __m128i words = _mm_packs_epi32(HALVES(eight));
        _mm_storel_epi64((void *)(out + j), _mm_packus_epi16(words, words));
    }
    rest_uint8_t(line, out, j, count);
}

AVX2 INLINE void wide_store_uint16_t(const float *line, uint16_t *out, int64_t count) {
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        const __m256i eight = EIGHT(line + j, 0.0f, 65535.0f);
        _mm_storeu_si128((void *)(out + j), _mm_packus_epi32(HALVES(eight)));
    }
    rest_uint16_t(line, out, j, count);
}

AVX2 INLINE void wide_store_int16_t(const float *line, int16_t *out, int64_t count) {
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        const __m256i eight = EIGHT(line + j, -32768.0f, 32767.0f);
        _mm_storeu_si128((void *)(out + j), _mm_packs_epi32(HALVES(eight)));
    }
    rest_int16_t(line, out, j, count);
}

#define wide_store_float plain_store_float
ALL(wide, AVX2)
#endif

void seqpipe_resample(const void *call, int64_t frames, int64_t kind) {
#if defined(WIDE)
    if (__builtin_cpu_supports("avx2")) {
        wide(call, frames, kind);
        return;
    }
#endif
    plain(call, frames, kind);
}
