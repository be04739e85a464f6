// A volume sampled on another grid; the same as gather.py, sum for sum.
#include <math.h>
#include <stdint.h>

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

// the two neighbors along an axis: offsets in elements and weights, 0 outside of what is filled
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

static int64_t nearest(const Task *t, const double *place) {
    int64_t offset = 0;
    for (int axis = 0; axis < 3; axis++) {
        int64_t index = floored(place[axis] + 0.5 + ROUND);
        if (t->filled && (index < 0 || index >= t->shape[axis])) return INT64_MIN;
        offset += clipped(index, t->shape[axis]) * t->strides[axis];
    }
    return offset;
}

#define GATHER(NAME, TYPE, WHOLE, LOW, HIGH)                                                                      \
    static TYPE linear_##NAME(const Task *t, const TYPE *source, const double *place) {                           \
        int64_t at[3][2];                                                                                         \
        double weight[3][2], total = 0, inside = 0;                                                               \
        for (int axis = 0; axis < 3; axis++)                                                                      \
            taps(place[axis], t->shape[axis], t->strides[axis], t->filled, at[axis], weight[axis]);               \
        for (int d = 0; d < 2; d++)                                                                               \
            for (int h = 0; h < 2; h++)                                                                           \
                for (int w = 0; w < 2; w++) {                                                                     \
                    double share = weight[0][d] * weight[1][h] * weight[2][w];                                    \
                    total += (double)source[at[0][d] + at[1][h] + at[2][w]] * share;                              \
                    inside += share;                                                                              \
                }                                                                                                 \
        if (t->filled && t->fill != 0) total += (1.0 - inside) * t->fill;                                         \
        if (WHOLE) {                                                                                              \
            total = nearbyint(total);                                                                             \
            return total < LOW ? (TYPE)LOW : total > HIGH ? (TYPE)HIGH : (TYPE)total;                             \
        }                                                                                                         \
        return (TYPE)total;                                                                                       \
    }                                                                                                             \
    static TYPE vote_##NAME(const Task *t, const TYPE *source, const double *place) {                             \
        int64_t at[3][2];                                                                                         \
        double weight[3][2], share[9], inside = 0, score = -1, favored = 0;                                       \
        TYPE value[9], best;                                                                                      \
        int count = 0, same = 1;                                                                                  \
        for (int axis = 0; axis < 3; axis++)                                                                      \
            taps(place[axis], t->shape[axis], t->strides[axis], t->filled, at[axis], weight[axis]);               \
        for (int d = 0; d < 2; d++)                                                                               \
            for (int h = 0; h < 2; h++)                                                                           \
                for (int w = 0; w < 2; w++, count++) {                                                            \
                    share[count] = weight[0][d] * weight[1][h] * weight[2][w];                                    \
                    value[count] = source[at[0][d] + at[1][h] + at[2][w]];                                        \
                    same &= value[count] == value[0];                                                             \
                    inside += share[count];                                                                       \
                }                                                                                                 \
        if (t->filled) {                                                                                          \
            value[count] = (TYPE)t->fill;                                                                         \
            share[count] = 1.0 - inside;                                                                          \
            same &= value[count] == value[0];                                                                     \
            count++;                                                                                              \
        }                                                                                                         \
        if (same) return value[0];                                                                                \
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
        int64_t middle = nearest(t, place);                                                                       \
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
        Task t = {shape, strides, out, matrix, interp, filled, fill};                                             \
        for (int64_t d = 0; d < out[0]; d++)                                                                      \
            for (int64_t h = 0; h < out[1]; h++)                                                                  \
                for (int64_t w = 0; w < out[2]; w++) {                                                            \
                    double place[3];                                                                              \
                    for (int a = 0; a < 3; a++) {                                                                 \
                        const double *m = matrix + 4 * a;                                                         \
                        place[a] = m[0] * d + m[1] * h + m[2] * w + m[3];                                         \
                    }                                                                                             \
                    if (interp == 0)                                                                              \
                        *target++ = linear_##NAME(&t, source, place);                                             \
                    else if (interp == 2)                                                                         \
                        *target++ = vote_##NAME(&t, source, place);                                               \
                    else {                                                                                        \
                        int64_t at = nearest(&t, place);                                                          \
                        *target++ = at == INT64_MIN ? (TYPE)fill : source[at];                                    \
                    }                                                                                             \
                }                                                                                                 \
    }

GATHER(u1, uint8_t, 1, 0.0, 255.0)
GATHER(i1, int8_t, 1, -128.0, 127.0)
GATHER(u2, uint16_t, 1, 0.0, 65535.0)
GATHER(i2, int16_t, 1, -32768.0, 32767.0)
GATHER(u4, uint32_t, 1, 0.0, 4294967295.0)
GATHER(i4, int32_t, 1, -2147483648.0, 2147483647.0)
GATHER(f4, float, 0, 0.0, 0.0)
GATHER(f8, double, 0, 0.0, 0.0)
