// Conversion of the three planes of a frame to pixels: chroma upsampling, color matrix, rounding and layout in one pass.
//
// Equals Upsampler of chroma.py and Mixer of mix.py bit for bit: chroma is interpolated exactly and rounded half to even;
// 8-bit values are mixed with weights in 1/1024, as OpenCV's transform does, 16-bit values in float32 with fused
// multiply-add. Rows are converted one after the other, so that all intermediate values stay in the cache. Needs AVX2.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
#define WEIGHT_BITS 3 // weights of chroma samples are multiples of 1/8
#define PAD 64        // values before and after a row
#define BLOCK 32      // pixels

enum { OUT_U8, OUT_U16, OUT_F32, OUT_F16 };

typedef struct {
    int64_t shift;      // log2 of the luma samples per chroma sample
    int64_t start;      // first wanted luma sample
    int64_t samples;    // of a chroma plane
    int64_t first[4];   // of each phase: whether the first of two chroma samples is the one before (-1) or at (0) it
    int64_t weights[4]; // of each phase: weight of the second, in 1/8
} Axis;

typedef struct {
    const char *planes[3];   // chroma planes whole, luma from the first wanted sample on
    int64_t strides[3];      // bytes from row to row
    char *out;
    int64_t done;            // set where the processor can convert
    int64_t rows, columns;   // of the result
    int64_t row_stride, step, plane; // of the result, in values: between rows, pixels and channels
    int64_t deep_in, deep;   // whether planes, and mixed values, have 16 bits
    int64_t headroom;        // bits by which mixed values are shifted left
    int64_t below;           // fractional bits of interpolated rows of chroma
    Axis x, y;               // of chroma
    float matrix[3][4];
    int64_t kind;            // of the values of the result
    float scale[3];          // of OUT_F32, and of OUT_U8 from 16 bits
    float shift[3];          // of OUT_F32
    const uint16_t *half[3]; // values of OUT_F16
    char *work;              // 9 rows
    int64_t line;            // bytes of such a row: at least 4 * (columns + 2 * PAD + 16)
} Call;

// Divides by 2**bits, rounds half to even.
INLINE int32_t rounded(int32_t value, int bits) {
    return (value + (1 << (bits - 1)) - 1 + ((value >> bits) & 1)) >> bits;
}

// Interpolates a row of chroma between two rows; the result has `up` more bits.
#define BETWEEN(NAME, IN, OUT)                                                                                         \
    AVX2 static void NAME(const IN *near, const IN *far, int32_t weight, int up, OUT *restrict out, int64_t count) {         \
        if (weight == 0) {                                                                                             \
            for (int64_t i = 0; i < count; i++) out[i] = (OUT)(near[i] << up);                                         \
        } else {                                                                                                       \
            const int32_t other = (1 << WEIGHT_BITS) - weight;                                                         \
            for (int64_t i = 0; i < count; i++)                                                                        \
                out[i] = (OUT)rounded((near[i] * other + far[i] * weight) << up, WEIGHT_BITS);                         \
        }                                                                                                              \
    }

BETWEEN(between_8, uint8_t, uint8_t)
BETWEEN(between_8_16, uint8_t, uint16_t)
BETWEEN(between_16, uint16_t, uint16_t)

// Interpolates a row of chroma samples, of which one precedes and one follows, to luma samples.
#define ALONG(NAME, IN, OUT)                                                                                           \
    INLINE OUT NAME##_one(const IN *from, int32_t weight, int below) {                                                 \
        if (weight == 0) return (OUT)(below ? rounded(from[0], below) : from[0]);                                      \
        return (OUT)rounded(from[0] * ((1 << WEIGHT_BITS) - weight) + from[1] * weight, WEIGHT_BITS + below);          \
    }                                                                                                                  \
    AVX2 static void NAME(const Axis *axis, const IN *from, int below, OUT *restrict out, int64_t count) {                  \
        const int64_t phases = (int64_t)1 << axis->shift;                                                              \
        if (phases == 2) {                                                                                             \
            const IN *even = from + axis->first[0], *odd = from + axis->first[1];                                      \
            const int32_t weight = (int32_t)axis->weights[0], other = (int32_t)axis->weights[1];                       \
            if (weight == 0 && below == 0) {                                                                           \
                for (int64_t i = 0; i < count; i++) {                                                                  \
                    out[2 * i] = (OUT)even[i];                                                                         \
                    out[2 * i + 1] = NAME##_one(odd + i, other, 0);                                                    \
                }                                                                                                      \
            } else {                                                                                                   \
                for (int64_t i = 0; i < count; i++) {                                                                  \
                    out[2 * i] = NAME##_one(even + i, weight, below);                                                  \
                    out[2 * i + 1] = NAME##_one(odd + i, other, below);                                                \
                }                                                                                                      \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                            \
            for (int64_t phase = 0; phase < phases; phase++)                                                           \
                out[i * phases + phase] =                                                                              \
                    NAME##_one(from + i + axis->first[phase], (int32_t)axis->weights[phase], below);                   \
    }

ALONG(along_8, uint8_t, uint8_t)
ALONG(along_16_8, uint16_t, uint8_t)
ALONG(along_16, uint16_t, uint16_t)

INLINE int64_t clamped(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

// Returns the chroma samples of a row of the result on the luma grid, from the first wanted luma sample on.
#define CHROMA(NAME, IN, MID, OUT, BETWEEN, ALONG)                                                                     \
    AVX2 static const OUT *NAME(const Call *c, int plane, int64_t row, char *work) {                                        \
        const int64_t luma = c->y.start + row, factor = (int64_t)1 << c->y.shift, phase = luma & (factor - 1);         \
        const int64_t near = (luma >> c->y.shift) + c->y.first[phase], last = c->y.samples - 1;                        \
        const IN *first = (const IN *)(c->planes[plane] + clamped(near, last) * c->strides[plane]);                    \
        const IN *second = (const IN *)(c->planes[plane] + clamped(near + 1, last) * c->strides[plane]);               \
        const int64_t begin = c->x.start >> c->x.shift, end = (c->x.start + c->columns - 1) >> c->x.shift;             \
        const int64_t left = clamped(begin - 1, begin), right = clamped(end + 1, c->x.samples - 1);                    \
        const int64_t count = end - begin + 1;                                                                         \
        MID *middle = (MID *)work + PAD - begin; /* middle[i] is chroma sample i */                                    \
        const int up = (int)(c->headroom + c->below);                                                                  \
        BETWEEN(first + left, second + left, (int32_t)c->y.weights[phase], up, middle + left, right - left + 1);       \
        if (c->x.shift == 0) return (const OUT *)(middle + c->x.start);                                                \
        if (begin == 0) middle[-1] = middle[0];                                                                        \
        if (end == c->x.samples - 1) middle[end + 1] = middle[end];                                                    \
        OUT *out = (OUT *)(work + (count + 2 * PAD) * (int64_t)sizeof(MID));                                           \
        ALONG(&c->x, middle + begin, (int)c->below, out, count);                                                       \
        return out + (c->x.start - (begin << c->x.shift));                                                             \
    }

CHROMA(chroma_8, uint8_t, uint8_t, uint8_t, between_8, along_8)
CHROMA(chroma_8_16, uint8_t, uint16_t, uint8_t, between_8_16, along_16_8)
CHROMA(chroma_8_deep, uint8_t, uint16_t, uint16_t, between_8_16, along_16)
CHROMA(chroma_16, uint16_t, uint16_t, uint16_t, between_16, along_16)

typedef struct {
    int32_t rows[3][4]; // weights in 1/1024, and an offset
} Fixed;

// Returns the matrix with weights in 1/1024, as OpenCV's transform uses it for 8 bits.
INLINE Fixed fixed(const Call *c) {
    Fixed result;
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 4; column++)
            result.rows[row][column] = (int32_t)lrintf(c->matrix[row][column] * 1024.0f) + (column == 3 ? 512 : 0);
    return result;
}

INLINE uint8_t product(const int32_t *m, int32_t y, int32_t u, int32_t v) {
    const int32_t sum = (m[0] * y + m[1] * u + m[2] * v + m[3]) >> 10;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

// Returns one channel of 16 pixels from (y, u) and (v, 0), as 16-bit integers.
AVX2 INLINE __m256i sixteen(const int32_t *m, __m256i yu_low, __m256i yu_high, __m256i v_low, __m256i v_high) {
    const __m256i yu = _mm256_set1_epi32((int32_t)((uint32_t)m[0] & 0xFFFF) | (int32_t)((uint32_t)m[1] << 16));
    const __m256i v = _mm256_set1_epi32(m[2] & 0xFFFF), offset = _mm256_set1_epi32(m[3]);
    const __m256i low = _mm256_add_epi32(_mm256_madd_epi16(yu_low, yu), _mm256_madd_epi16(v_low, v));
    const __m256i high = _mm256_add_epi32(_mm256_madd_epi16(yu_high, yu), _mm256_madd_epi16(v_high, v));
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, offset), 10),
                              _mm256_srai_epi32(_mm256_add_epi32(high, offset), 10));
}

// Stores 32 pixels of three channels one after the other.
AVX2 INLINE void store_pixels(const __m256i *channels, uint8_t *out) {
    __m256i parts[3];
    for (int part = 0; part < 3; part++) {
        uint8_t order[3][16];
        for (int byte = 0; byte < 16; byte++)
            for (int channel = 0; channel < 3; channel++) {
                const int value = part * 16 + byte;
                order[channel][byte] = (uint8_t)(value % 3 == channel ? value / 3 : 0x80);
            }
        parts[part] = _mm256_setzero_si256();
        for (int channel = 0; channel < 3; channel++) {
            const __m256i from = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)order[channel]));
            parts[part] = _mm256_or_si256(parts[part], _mm256_shuffle_epi8(channels[channel], from));
        }
    }
    for (int part = 0; part < 3; part++) {
        _mm_storeu_si128((void *)(out + 16 * part), _mm256_castsi256_si128(parts[part]));
        _mm_storeu_si128((void *)(out + 48 + 16 * part), _mm256_extracti128_si256(parts[part], 1));
    }
}

AVX2 static void mix_8(const Call *c, const Fixed *k, const uint8_t *y, const uint8_t *u, const uint8_t *v,
                       uint8_t *out) {
    const __m256i zero = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + BLOCK <= c->columns; i += BLOCK) {
        const __m256i luma = _mm256_loadu_si256((const void *)(y + i)), cb = _mm256_loadu_si256((const void *)(u + i)),
                      cr = _mm256_loadu_si256((const void *)(v + i));
        const __m256i yu_a = _mm256_unpacklo_epi8(luma, cb), yu_b = _mm256_unpackhi_epi8(luma, cb);
        const __m256i v_a = _mm256_unpacklo_epi8(cr, zero), v_b = _mm256_unpackhi_epi8(cr, zero);
        const __m256i yu[4] = {_mm256_unpacklo_epi8(yu_a, zero), _mm256_unpackhi_epi8(yu_a, zero),
                               _mm256_unpacklo_epi8(yu_b, zero), _mm256_unpackhi_epi8(yu_b, zero)};
        const __m256i vs[4] = {_mm256_unpacklo_epi16(v_a, zero), _mm256_unpackhi_epi16(v_a, zero),
                               _mm256_unpacklo_epi16(v_b, zero), _mm256_unpackhi_epi16(v_b, zero)};
        __m256i channels[3];
        for (int channel = 0; channel < 3; channel++) {
            const int32_t *m = k->rows[channel];
            channels[channel] = _mm256_packus_epi16(sixteen(m, yu[0], yu[1], vs[0], vs[1]),
                                                    sixteen(m, yu[2], yu[3], vs[2], vs[3]));
        }
        if (c->step == 3) {
            store_pixels(channels, out + 3 * i);
        } else {
            for (int channel = 0; channel < 3; channel++)
                _mm256_storeu_si256((void *)(out + channel * c->plane + i), channels[channel]);
        }
    }
    for (; i < c->columns; i++)
        for (int channel = 0; channel < 3; channel++)
            out[i * c->step + channel * c->plane] = product(k->rows[channel], y[i], u[i], v[i]);
}

AVX2 INLINE __m256 eight(const uint16_t *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from)));
}

// Mixes a padded row of 16 bits to one channel, less 32768 as OpenCV does, rounded half to even.
AVX2 static void mix_16(const float *m, const uint16_t *y, const uint16_t *u, const uint16_t *v, uint16_t *out,
                        int64_t count) {
    const __m256 my = _mm256_set1_ps(m[0]), mu = _mm256_set1_ps(m[1]), mv = _mm256_set1_ps(m[2]);
    const __m256 offset = _mm256_set1_ps(m[3] - 32768.0f);
    const __m256i sign = _mm256_set1_epi16(INT16_MIN);
    for (int64_t i = 0; i < count; i += 16) {
        __m256i halves[2];
        for (int64_t half = 0; half < 2; half++) {
            const int64_t at = i + 8 * half;
            const __m256 sum = _mm256_fmadd_ps(eight(u + at), mu, _mm256_fmadd_ps(eight(v + at), mv, offset));
            halves[half] = _mm256_cvtps_epi32(_mm256_fmadd_ps(eight(y + at), my, sum));
        }
        const __m256i mixed = _mm256_permute4x64_epi64(_mm256_packs_epi32(halves[0], halves[1]), 0xD8);
        _mm256_storeu_si256((void *)(out + i), _mm256_xor_si256(mixed, sign));
    }
}

// Scales a padded row of 16 bits to 8 bits, rounded half to even.
AVX2 static void narrow(const uint16_t *from, float scale, uint8_t *out, int64_t count) {
    const __m256 factor = _mm256_set1_ps(scale);
    for (int64_t i = 0; i < count; i += 16) {
        const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(eight(from + i), factor));
        const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(eight(from + i + 8), factor));
        const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
        _mm_storeu_si128((void *)(out + i),
                         _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
}

AVX2 static void store_u8(const Call *c, uint16_t *const *rows, char *work, uint8_t *out) {
    uint8_t *bytes[3];
    for (int channel = 0; channel < 3; channel++) {
        bytes[channel] = (uint8_t *)(work + channel * c->line);
        narrow(rows[channel], c->scale[channel], bytes[channel], c->columns);
        if (c->step == 1) memcpy(out + channel * c->plane, bytes[channel], (size_t)c->columns);
    }
    if (c->step == 1) return;
    int64_t i = 0;
    for (; i + BLOCK <= c->columns; i += BLOCK) {
        __m256i channels[3];
        for (int channel = 0; channel < 3; channel++)
            channels[channel] = _mm256_loadu_si256((const void *)(bytes[channel] + i));
        store_pixels(channels, out + 3 * i);
    }
    for (; i < c->columns; i++)
        for (int channel = 0; channel < 3; channel++) out[3 * i + channel] = bytes[channel][i];
}

AVX2 static void store_f32(const Call *c, uint16_t *const *rows, float *out) {
    for (int channel = 0; channel < 3; channel++) {
        const uint16_t *from = rows[channel];
        float *restrict to = out + channel * c->plane;
        const float scale = c->scale[channel], shift = c->shift[channel];
        if (c->step == 1) {
            for (int64_t i = 0; i < c->columns; i++) to[i] = (float)from[i] * scale + shift;
        } else {
            for (int64_t i = 0; i < c->columns; i++) to[3 * i] = (float)from[i] * scale + shift;
        }
    }
}

AVX2 static void store_16(const Call *c, uint16_t *const *rows, uint16_t *out) {
    for (int channel = 0; channel < 3; channel++) {
        const uint16_t *from = rows[channel], *table = c->half[channel];
        uint16_t *restrict to = out + channel * c->plane;
        if (c->kind == OUT_F16) {
            for (int64_t i = 0; i < c->columns; i++) to[i * c->step] = table[from[i]];
        } else {
            for (int64_t i = 0; i < c->columns; i++) to[i * c->step] = from[i];
        }
    }
}

AVX2 INLINE void convert_8(const Call *c, const Fixed *k, int64_t row) {
    char *first = c->work, *second = first + c->line;
    const uint8_t *u = c->below ? chroma_8_16(c, 1, row, first) : chroma_8(c, 1, row, first);
    const uint8_t *v = c->below ? chroma_8_16(c, 2, row, second) : chroma_8(c, 2, row, second);
    const char *luma = c->planes[0] + row * c->strides[0];
    mix_8(c, k, (const uint8_t *)luma, u, v, (uint8_t *)c->out + row * c->row_stride);
}

AVX2 INLINE void convert_16(const Call *c, int64_t row) {
    char *work = c->work;
    const uint16_t *u = c->deep_in ? chroma_16(c, 1, row, work) : chroma_8_deep(c, 1, row, work);
    work += c->line;
    const uint16_t *v = c->deep_in ? chroma_16(c, 2, row, work) : chroma_8_deep(c, 2, row, work);
    work += c->line;
    const char *luma = c->planes[0] + row * c->strides[0];
    uint16_t *y = (uint16_t *)work;
    if (c->deep_in) between_16((const uint16_t *)luma, 0, 0, (int)c->headroom, y, c->columns);
    else between_8_16((const uint8_t *)luma, 0, 0, (int)c->headroom, y, c->columns);
    uint16_t *mixed[3];
    for (int channel = 0; channel < 3; channel++) {
        work += c->line;
        mixed[channel] = (uint16_t *)work;
        mix_16(c->matrix[channel], y, u, v, mixed[channel], c->columns);
    }
    const int64_t at = row * c->row_stride;
    switch (c->kind) {
    case OUT_U8: store_u8(c, mixed, work + c->line, (uint8_t *)c->out + at); break;
    case OUT_F32: store_f32(c, mixed, (float *)c->out + at); break;
    default: store_16(c, mixed, (uint16_t *)c->out + at);
    }
}

AVX2 static void convert(const Call *c) {
    const Fixed k = fixed(c);
    for (int64_t row = 0; row < c->rows; row++) {
        if (c->deep) convert_16(c, row);
        else convert_8(c, &k, row);
    }
}

void seqpipe_colors(Call *call) {
    call->done = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (call->done) convert(call);
}
