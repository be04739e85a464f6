// Samples a volume on another grid; it sums in the same order as gather.py, so results are equal.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define ROUND 1e-9

// linear 0, nearest 1, vote 2
typedef struct {
    const int64_t *shape, *strides, *out;
    const double *matrix;
    int64_t interp, filled;
    double fill;
} Task;

static int64_t floored(double x) {
    int64_t whole = (int64_t)x;
    return whole - (whole > x);
}

static int64_t clipped(int64_t x, int64_t size) { return x < 0 ? 0 : x >= size ? size - 1 : x; }

// the two neighbors along an axis: offsets in elements, and weights, which are 0 outside if a fill value is set
static void taps(double place, int64_t size, int64_t stride, int64_t filled, int64_t *offset, double *weight) {
    if (!filled) place = place < 0 ? 0 : place > size - 1 ? size - 1 : place;
    int64_t low = floored(place + ROUND);
    double upper = place - low;
    upper = upper < 0 ? 0 : upper > 1 ? 1 : upper;
    weight[0] = 1.0 - upper;
    weight[1] = upper;
    if (filled) {
        if (low < 0 || low >= size) weight[0] = 0;
        if (low < -1 || low >= size - 1) weight[1] = 0;
    }
    offset[0] = clipped(low, size) * stride;
    offset[1] = clipped(low + 1, size) * stride;
}

// neighbors and weights of a position along an axis
typedef struct {
    int64_t offset[2], nearest;
    double weight[2];
    int64_t inside;  // whether the fill value has no weight
} Tap;

static Tap tap_at(const Task *t, int axis, double place) {
    Tap tap;
    taps(place, t->shape[axis], t->strides[axis], t->filled, tap.offset, tap.weight);
    tap.inside = tap.weight[0] + tap.weight[1] > 1.0 - ROUND;
    int64_t index = floored(place + 0.5 + ROUND);
    int outside = t->filled && (index < 0 || index >= t->shape[axis]);
    tap.nearest = outside ? INT64_MIN : clipped(index, t->shape[axis]) * t->strides[axis];
    return tap;
}

static double place_at(const Task *t, int axis, int64_t d, int64_t h, int64_t w) {
    const double *m = t->matrix + 4 * axis;
    return m[0] * d + m[1] * h + m[2] * w + m[3];
}

// the taps of all positions along each axis, if the axes of both grids are parallel; NULL otherwise
static Tap *tables(const Task *t) {
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 3; column++)
            if (row != column && t->matrix[4 * row + column] != 0) return NULL;
    Tap *made = malloc((t->out[0] + t->out[1] + t->out[2]) * sizeof(Tap)), *next = made;
    if (made == NULL) return NULL;
    for (int64_t d = 0; d < t->out[0]; d++) *next++ = tap_at(t, 0, place_at(t, 0, d, 0, 0));
    for (int64_t h = 0; h < t->out[1]; h++) *next++ = tap_at(t, 1, place_at(t, 1, 0, h, 0));
    for (int64_t w = 0; w < t->out[2]; w++) *next++ = tap_at(t, 2, place_at(t, 2, 0, 0, w));
    return made;
}

static int64_t nearest(const Tap *d, const Tap *h, const Tap *w) {
    if (d->nearest == INT64_MIN || h->nearest == INT64_MIN || w->nearest == INT64_MIN) return INT64_MIN;
    return d->nearest + h->nearest + w->nearest;
}

#define GATHER(NAME, TYPE, WHOLE, LOW, HIGH)                                                                      \
    static TYPE linear_##NAME(const Task *t, const TYPE *source, const Tap *d, const Tap *h, const Tap *w) {      \
        double total = 0, inside = 0;                                                                             \
        for (int i = 0; i < 2; i++)                                                                               \
            for (int j = 0; j < 2; j++) {                                                                         \
                const TYPE *row = source + d->offset[i] + h->offset[j];                                           \
                double outer = d->weight[i] * h->weight[j];                                                       \
                double low = outer * w->weight[0], high = outer * w->weight[1];                                   \
                total += (double)row[w->offset[0]] * low;                                                         \
                total += (double)row[w->offset[1]] * high;                                                        \
                inside += low;                                                                                    \
                inside += high;                                                                                   \
            }                                                                                                     \
        if (t->filled && t->fill != 0) total += (1.0 - inside) * t->fill;                                         \
        if (WHOLE) {                                                                                              \
            total = nearbyint(total);                                                                             \
            return total < LOW ? (TYPE)LOW : total > HIGH ? (TYPE)HIGH : (TYPE)total;                             \
        }                                                                                                         \
        return (TYPE)total;                                                                                       \
    }                                                                                                             \
    static TYPE vote_##NAME(const Task *t, const TYPE *source, const Tap *d, const Tap *h, const Tap *w) {        \
        double share[9], inside = 0, score = -1, favored = 0;                                                     \
        TYPE value[9], best;                                                                                      \
        int count = 0, same = 1;                                                                                  \
        for (int i = 0; i < 2; i++)                                                                               \
            for (int j = 0; j < 2; j++)                                                                           \
                for (int k = 0; k < 2; k++, count++) {                                                            \
                    value[count] = source[d->offset[i] + h->offset[j] + w->offset[k]];                            \
                    same &= value[count] == value[0];                                                             \
                }                                                                                                 \
        if (same && ((d->inside && h->inside && w->inside) || value[0] == (TYPE)t->fill)) return value[0];        \
        for (int i = 0; i < 8; i++) {                                                                             \
            share[i] = d->weight[i >> 2] * h->weight[i >> 1 & 1] * w->weight[i & 1];                              \
            inside += share[i];                                                                                   \
        }                                                                                                         \
        if (t->filled) {                                                                                          \
            value[count] = (TYPE)t->fill;                                                                         \
            share[count++] = 1.0 - inside;                                                                        \
        }                                                                                                         \
        best = value[0];                                                                                          \
        for (int i = 0; i < count; i++) {                                                                         \
            double total = 0;                                                                                     \
            for (int j = 0; j < count; j++)                                                                       \
                if (value[j] == value[i]) total += share[j];                                                      \
            if (total > score + ROUND) {                                                                          \
                score = total;                                                                                    \
                best = value[i];                                                                                  \
            } else if (fabs(total - score) <= ROUND && value[i] < best)                                           \
                best = value[i];                                                                                  \
        }                                                                                                         \
        int64_t middle = nearest(d, h, w);                                                                        \
        TYPE own = middle == INT64_MIN ? (TYPE)t->fill : source[middle];                                          \
        for (int i = 0; i < count; i++)                                                                           \
            if (value[i] == own) favored += share[i];                                                             \
        return favored >= score - ROUND ? own : best;                                                             \
    }                                                                                                             \
    void seqpipe_gather_##NAME(const void *array, void *made, const int64_t *shape, const int64_t *strides,       \
                               const int64_t *out, const double *matrix, int64_t interp, int64_t filled,          \
                               double fill) {                                                                     \
        const TYPE *source = array;                                                                               \
        TYPE *target = made;                                                                                      \
        Task task = {shape, strides, out, matrix, interp, filled, fill}, *t = &task;                              \
        Tap *table = tables(t), own[3];                                                                           \
        for (int64_t i = 0; i < out[0]; i++)                                                                      \
            for (int64_t j = 0; j < out[1]; j++)                                                                  \
                for (int64_t k = 0; k < out[2]; k++, target++) {                                                  \
                    const Tap *d = own, *h = own + 1, *w = own + 2;                                               \
                    if (table != NULL) {                                                                          \
                        d = table + i;                                                                            \
                        h = table + out[0] + j;                                                                   \
                        w = table + out[0] + out[1] + k;                                                          \
                    } else                                                                                        \
                        for (int a = 0; a < 3; a++) own[a] = tap_at(t, a, place_at(t, a, i, j, k));               \
                    if (interp == 0)                                                                              \
                        *target = linear_##NAME(t, source, d, h, w);                                              \
                    else if (interp == 2)                                                                         \
                        *target = vote_##NAME(t, source, d, h, w);                                                \
                    else {                                                                                        \
                        int64_t at = nearest(d, h, w);                                                            \
                        *target = at == INT64_MIN ? (TYPE)fill : source[at];                                      \
                    }                                                                                             \
                }                                                                                                 \
        free(table);                                                                                              \
    }

GATHER(u1, uint8_t, 1, 0.0, 255.0)
GATHER(i1, int8_t, 1, -128.0, 127.0)
GATHER(u2, uint16_t, 1, 0.0, 65535.0)
GATHER(i2, int16_t, 1, -32768.0, 32767.0)
GATHER(u4, uint32_t, 1, 0.0, 4294967295.0)
GATHER(i4, int32_t, 1, -2147483648.0, 2147483647.0)
GATHER(f4, float, 0, 0.0, 0.0)
GATHER(f8, double, 0, 0.0, 0.0)
