/* Images moved by a projective map, one value interpolated for each pixel: what interpolate.py gives, to the last bit. */

#include <math.h>
#include <stdint.h>

/* What is done; Python fills it in the same order, eight bytes each. */
struct work {
    const char *from;
    float *to;
    int64_t frames, height, width, channels;  /* of what is read: float32, the values of a pixel side by side */
    int64_t frame_stride, row_stride, stride; /* of what is read, in bytes */
    int64_t rows, columns;                    /* of the result, which is whole */
    int64_t kind;                             /* 0 nearest, 1 linear, 2 cubic */
    int64_t fills;                            /* whether there is a value outside; otherwise the border is repeated */
    double fill, matrix[9];                   /* float32 numbers */
};

#define MOST 4
static const float FAR = 16777216.0f;

struct taps {
    int64_t at[MOST];
    int inside[MOST];
    float weights[MOST];
};

static inline float limited(float place) {
    place = place >= -FAR ? place : -FAR; /* as of what is no number */
    return place <= FAR ? place : FAR;
}

static inline float keys(float u) {
    const float k = -0.5f;
    if (u < 1.0f)
        return ((k + 2.0f) * u - (k + 3.0f)) * u * u + 1.0f;
    if (u < 2.0f)
        return ((k * u - 5.0f * k) * u + 8.0f * k) * u - 4.0f * k;
    return 0.0f;
}

static inline int64_t below(float place) {
    const int64_t whole = (int64_t)place;
    return whole - ((float)whole > place);
}

__attribute__((always_inline)) static inline void find_taps(float place, int64_t length, int kind, struct taps *taps) {
    int64_t first;
    int count = 1;
    if (kind == 0) {
        first = below(place);
        taps->weights[0] = 1.0f;
    } else {
        const float moved = place - 0.5f;
        first = below(moved);
        const float part = moved - (float)first;
        if (kind == 1) {
            count = 2;
            taps->weights[0] = 1.0f - part;
            taps->weights[1] = part;
        } else {
            count = 4;
            first -= 1;
            for (int k = 0; k < 4; k++)
                taps->weights[k] = keys(fabsf(part - (float)(k - 1)));
        }
    }
    for (int k = 0; k < count; k++) {
        const int64_t at = first + k;
        const int64_t within = at < 0 ? 0 : at >= length ? length - 1 : at;
        taps->at[k] = within;
        taps->inside[k] = within == at;
    }
}

__attribute__((always_inline)) static inline void make(const struct work *w, const char *image, float *to, int kind, int channels) {
    const int count = kind == 2 ? 4 : kind + 1, fills = (int)w->fills;
    const float fill = (float)w->fill;
    float m[9];
    for (int k = 0; k < 9; k++)
        m[k] = (float)w->matrix[k];
    struct taps columns = {{0}, {0}, {0}}, rows = columns;
    for (int64_t y = 0; y < w->rows; y++) {
        const float line = (float)y + 0.5f;
        for (int64_t x = 0; x < w->columns; x++, to += channels) {
            const float column = (float)x + 0.5f;
            const float divisor = m[6] * column + m[7] * line + m[8];
            float along = m[0] * column + m[1] * line + m[2], down = m[3] * column + m[4] * line + m[5];
            if (divisor != 1.0f) {
                along /= divisor;
                down /= divisor;
            }
            find_taps(limited(along), w->width, kind, &columns);
            find_taps(limited(down), w->height, kind, &rows);
            const char *top = image + rows.at[0] * w->row_stride, *bottom = image + rows.at[1] * w->row_stride;
            const int all = !fills || (columns.inside[0] && columns.inside[1] && rows.inside[0] && rows.inside[1]);
            if (kind == 1 && all) { /* the same with less to decide */
                const float *a = (const float *)(top + columns.at[0] * w->stride);
                const float *b = (const float *)(top + columns.at[1] * w->stride);
                const float *d = (const float *)(bottom + columns.at[0] * w->stride);
                const float *e = (const float *)(bottom + columns.at[1] * w->stride);
                for (int c = 0; c < channels; c++) {
                    const float upper = 0.0f + columns.weights[0] * a[c] + columns.weights[1] * b[c];
                    const float lower = 0.0f + columns.weights[0] * d[c] + columns.weights[1] * e[c];
                    to[c] = 0.0f + rows.weights[0] * upper + rows.weights[1] * lower;
                }
                continue;
            }
            for (int c = 0; c < channels; c++) {
                float total = 0.0f;
                for (int j = 0; j < count; j++) {
                    const char *row = image + rows.at[j] * w->row_stride;
                    float sum = 0.0f;
                    for (int i = 0; i < count; i++) {
                        const float *pixel = (const float *)(row + columns.at[i] * w->stride);
                        const int outside = fills && !(columns.inside[i] && rows.inside[j]);
                        sum = sum + columns.weights[i] * (outside ? fill : pixel[c]);
                    }
                    total = total + rows.weights[j] * sum;
                }
                to[c] = total;
            }
        }
    }
}

/* The kind and the channels as constants, for which loops are unrolled. */
#define KINDS(channels)                                 \
    if (w->kind == 0)                                   \
        make(w, image, to, 0, channels);                \
    else if (w->kind == 1)                              \
        make(w, image, to, 1, channels);                \
    else                                                \
        make(w, image, to, 2, channels);

void seqpipe_warp(const struct work *w) {
    for (int64_t frame = 0; frame < w->frames; frame++) {
        const char *image = w->from + frame * w->frame_stride;
        float *to = w->to + frame * w->rows * w->columns * w->channels;
        if (w->channels == 1) {
            KINDS(1)
        } else if (w->channels == 3) {
            KINDS(3)
        } else {
            KINDS((int)w->channels)
        }
    }
}
