/* Volumes resampled: each voxel of a result is read from where a mapping sends it, through a matrix, perhaps a cubic
   B-spline field, and another matrix. reference.py has the same in NumPy for machines without a compiler. Positions are
   voxel indices (slice, row, column); the center of the first voxel is at 0.

   gather_f32.c and gather_f64.c include this with the precision of places and sums:
   real      their type
   nearby    the function that rounds it half to even
   TIE       places this little below the middle of two voxels, which is a rounding error, count as in the middle
   F64       whether real is double, which images of float64 need */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What is done; Python fills it in the same order, eight bytes each. */
struct work {
    const void *from;
    void *to;
    const float *lattice;   /* control displacements (slices, rows, columns, 3), or none */
    const float *positions; /* positions (slices, rows, columns, 3) in place of the mapping, or none */
    int64_t type, interpolation, edge, method, channels;
    int64_t shape[3], stride[3], channel;  /* of what is read, in elements */
    int64_t size[3], pitch[3], to_channel; /* of the result */
    int64_t nodes[3];                      /* of the lattice */
    double pre[12], post[12], per_node[3], fill;
};

enum { NEAREST, LINEAR, CUBIC, VOTE, BSPLINE };
enum { BY_VOXEL, BY_SLICE, BY_AXIS }; /* methods: slices of the result are slices of the source; axes are parallel */

static inline int64_t below(real x) {
    const int32_t i = (int32_t)x;
    return i - (x < (real)i);
}

/* Clamps a position near the source, where only the fill value follows, so that it fits into an integer. */
static inline real within(real x, int64_t n, int edge) {
    const real lo = edge ? 0 : -3, hi = edge ? (real)(n - 1) : (real)(n + 2);
    return x < lo ? lo : x > hi ? hi : x;
}

static void spline(double t, double *b) {
    const double s = 1 - t;
    b[0] = s * s * s / 6;
    b[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    b[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
    b[3] = t * t * t / 6;
}

/* The first of the four nodes at a position along an axis, and their weights; the field is constant beyond its ends. */
static int64_t cell(double q, double per_node, int64_t nodes, double *b) {
    double g = q * per_node;
    const double last = (double)(nodes - 3);
    g = g < 0 ? 0 : g > last ? last : g;
    int64_t i = (int64_t)g;
    if (i > nodes - 4)
        i = nodes - 4;
    spline(g - (double)i, b);
    return i;
}

/* Keys' cubic with a = -1/2. */
static void keys(real t, real *w) {
    const real s = 1 - t;
    w[0] = -0.5f * t * s * s;
    w[1] = 1 + t * t * (1.5f * t - 2.5f);
    w[2] = 1 + s * s * (1.5f * s - 2.5f);
    w[3] = -0.5f * s * t * t;
}

/* A cubic B-spline's, of coefficients. */
static void bspline(real t, real *w) {
    double b[4];
    spline(t, b);
    for (int n = 0; n < 4; n++)
        w[n] = (real)b[n];
}

/* What a slice and a row have in common: the lattice contracted along both. */
struct lines {
    float *slice, *row;  /* (rows, columns, 3) and (columns, 3) of nodes */
    int32_t *first;      /* for each column its first node, and the weights of four */
    float *weight;
};

/* The positions of a row for mappings of slices to slices. */
struct places {
    const real *row; /* as row_positions has them */
    int32_t *at;      /* of the first of four voxels, in elements behind the slice's first; or one of the two below */
    real *fy, *fx;    /* how far the place is behind it */
};
enum { OUTSIDE = -2, BORDER = -1 }; /* nothing but what fills; some of the four voxels are missing, or all repeated */

static int straight(const struct work *k) {
    const double *m = k->post;
    return !m[1] && !m[2] && !m[4] && !m[6] && !m[8] && !m[9];
}

static void contract_slice(const struct work *k, double q, float *out) {
    double b[4];
    const int64_t i = cell(q, k->per_node[0], k->nodes[0], b), n = k->nodes[1] * k->nodes[2] * 3;
    const float *c = k->lattice + i * n;
    const float b0 = (float)b[0], b1 = (float)b[1], b2 = (float)b[2], b3 = (float)b[3];
    for (int64_t j = 0; j < n; j++)
        out[j] = b0 * c[j] + b1 * c[n + j] + b2 * c[2 * n + j] + b3 * c[3 * n + j];
}

static void contract_row(const struct work *k, double q, const float *slice, float *out) {
    double b[4];
    const int64_t i = cell(q, k->per_node[1], k->nodes[1], b), n = k->nodes[2] * 3;
    const float *c = slice + i * n;
    const float b0 = (float)b[0], b1 = (float)b[1], b2 = (float)b[2], b3 = (float)b[3];
    for (int64_t j = 0; j < n; j++)
        out[j] = b0 * c[j] + b1 * c[n + j] + b2 * c[2 * n + j] + b3 * c[3 * n + j];
}

/* The displacement at any position, from the 64 nodes around it. */
static void displacement(const struct work *k, const double *q, double *u) {
    double b[3][4];
    int64_t at[3];
    for (int a = 0; a < 3; a++)
        at[a] = cell(q[a], k->per_node[a], k->nodes[a], b[a]);
    u[0] = u[1] = u[2] = 0;
    for (int d = 0; d < 4; d++)
        for (int h = 0; h < 4; h++) {
            const float *c = k->lattice + (((at[0] + d) * k->nodes[1] + at[1] + h) * k->nodes[2] + at[2]) * 3;
            const double both = b[0][d] * b[1][h];
            for (int w = 0; w < 4; w++)
                for (int a = 0; a < 3; a++)
                    u[a] += both * b[2][w] * c[3 * w + a];
        }
}

/* The positions of a row of the result, axis after axis in `at`, each of the row's length. */
static void row_positions(const struct work *k, const struct lines *l, int64_t d, int64_t h, real *at) {
    const int64_t n = k->size[2];
    real *restrict z = at, *restrict y = at + n, *restrict x = at + 2 * n;
    if (k->positions) {
        const float *p = k->positions + (d * k->size[1] + h) * n * 3;
        for (int64_t w = 0; w < n; w++)
            z[w] = p[3 * w], y[w] = p[3 * w + 1], x[w] = p[3 * w + 2];
        return;
    }
    const double *m = k->pre, *o = k->post;
    if (!k->lattice) { /* both matrices are one, in `pre` */
        const double a = m[0] * d + m[1] * h + m[3], b = m[4] * d + m[5] * h + m[7], c = m[8] * d + m[9] * h + m[11];
        for (int64_t w = 0; w < n; w++) {
            z[w] = (real)(a + m[2] * w);
            y[w] = (real)(b + m[6] * w);
            x[w] = (real)(c + m[10] * w);
        }
        return;
    }
    if (straight(k)) {
        const double qd = o[0] * d + o[3], qh = o[5] * h + o[7];
        const double a = m[0] * qd + m[1] * qh + m[3], b = m[4] * qd + m[5] * qh + m[7];
        const double c = m[8] * qd + m[9] * qh + m[11];
        const float f0 = (float)m[0], f1 = (float)m[1], f2 = (float)m[2], f4 = (float)m[4], f5 = (float)m[5];
        const float f6 = (float)m[6], f8 = (float)m[8], f9 = (float)m[9], f10 = (float)m[10];
        for (int64_t w = 0; w < n; w++) {
            const float *r = l->row + l->first[w], *e = l->weight + 4 * w;
            const float e0 = e[0], e1 = e[1], e2 = e[2], e3 = e[3];
            const float ud = e0 * r[0] + e1 * r[3] + e2 * r[6] + e3 * r[9];
            const float uh = e0 * r[1] + e1 * r[4] + e2 * r[7] + e3 * r[10];
            const float uw = e0 * r[2] + e1 * r[5] + e2 * r[8] + e3 * r[11];
            const double q = o[10] * w + o[11];
            z[w] = (real)(a + m[2] * q) + (f0 * ud + f1 * uh + f2 * uw);
            y[w] = (real)(b + m[6] * q) + (f4 * ud + f5 * uh + f6 * uw);
            x[w] = (real)(c + m[10] * q) + (f8 * ud + f9 * uh + f10 * uw);
        }
        return;
    }
    for (int64_t w = 0; w < n; w++) {
        double q[3], u[3];
        for (int a = 0; a < 3; a++)
            q[a] = o[4 * a] * d + o[4 * a + 1] * h + o[4 * a + 2] * w + o[4 * a + 3];
        displacement(k, q, u);
        for (int a = 0; a < 3; a++)
            q[a] += u[a];
        z[w] = (real)(m[0] * q[0] + m[1] * q[1] + m[2] * q[2] + m[3]);
        y[w] = (real)(m[4] * q[0] + m[5] * q[1] + m[6] * q[2] + m[7]);
        x[w] = (real)(m[8] * q[0] + m[9] * q[1] + m[10] * q[2] + m[11]);
    }
}

#define STORE_FLOAT(T, lo, hi) (T) value
#define STORE_WHOLE(T, lo, hi) (T)(value <= (lo) ? (lo) : value >= (hi) ? (hi) : nearby(value))

/* A voxel, or the fill value. */
#define TAP(d, h, w)                                                                                                  \
    ((uint64_t)(d) < (uint64_t)n0 && (uint64_t)(h) < (uint64_t)n1 && (uint64_t)(w) < (uint64_t)n2                     \
         ? s[(d) * s0 + (h) * s1 + (w) * s2]                                                                          \
         : fill)

#define HEAD(T)                                                                                                       \
    const T *s = (const T *)k->from + c * k->channel;                                                                 \
    T *to = (T *)k->to + d * k->pitch[0] + h * k->pitch[1] + c * k->to_channel;                                       \
    const int64_t n = k->size[2], step = k->pitch[2], n0 = k->shape[0], n1 = k->shape[1], n2 = k->shape[2];           \
    const int64_t s0 = k->stride[0], s1 = k->stride[1], s2 = k->stride[2];                                            \
    const int edge = (int)k->edge;                                                                                    \
    const real *z = at, *y = at + n, *x = at + 2 * n;

#define PLACE                                                                                                         \
    const real pz = within(z[w], n0, edge), py = within(y[w], n1, edge), px = within(x[w], n2, edge);                 \
    int64_t i = below(pz), j = below(py), l = below(px);

/* Whether all eight voxels around a position are inside, as for most positions. */
#define INSIDE(w) (z[w] >= 0 && z[w] < top0 && y[w] >= 0 && y[w] < top1 && x[w] >= 0 && x[w] < top2)

#define TOPS const real top0 = (real)(n0 - 1), top1 = (real)(n1 - 1), top2 = (real)(n2 - 1);

#define CLAMPED(i, n) ((i) < 0 ? 0 : (i) >= (n) ? (n)-1 : (i))

#define IMAGES(NAME, T, STORE, LO, HI)                                                                                \
    static void linear_##NAME(const struct work *k, const real *at, int64_t d, int64_t h, int64_t c) {                \
        HEAD(T)                                                                                                       \
        TOPS                                                                                                          \
        const real fill = (real)k->fill;                                                                              \
        for (int64_t w = 0; w < n; w++) {                                                                             \
            real v[8], fz, fy, fx;                                                                                    \
            if (INSIDE(w)) {                                                                                          \
                const int32_t i = (int32_t)z[w], j = (int32_t)y[w], l = (int32_t)x[w];                                \
                const T *r = s + i * s0 + j * s1 + l * s2;                                                            \
                fz = z[w] - (real)i, fy = y[w] - (real)j, fx = x[w] - (real)l;                                        \
                v[0] = r[0], v[1] = r[s2], v[2] = r[s1], v[3] = r[s1 + s2];                                           \
                r += s0;                                                                                              \
                v[4] = r[0], v[5] = r[s2], v[6] = r[s1], v[7] = r[s1 + s2];                                           \
            } else {                                                                                                  \
                PLACE                                                                                                 \
                if (edge)                                                                                             \
                    i -= i && i == n0 - 1, j -= j && j == n1 - 1, l -= l && l == n2 - 1;                              \
                const int64_t a = i + (!edge || n0 > 1), b = j + (!edge || n1 > 1), e = l + (!edge || n2 > 1);        \
                fz = pz - (real)i, fy = py - (real)j, fx = px - (real)l;                                              \
                v[0] = TAP(i, j, l), v[1] = TAP(i, j, e), v[2] = TAP(i, b, l), v[3] = TAP(i, b, e);                   \
                v[4] = TAP(a, j, l), v[5] = TAP(a, j, e), v[6] = TAP(a, b, l), v[7] = TAP(a, b, e);                   \
            }                                                                                                         \
            const real p = v[0] + fx * (v[1] - v[0]), q = v[2] + fx * (v[3] - v[2]);                                  \
            const real r = v[4] + fx * (v[5] - v[4]), t = v[6] + fx * (v[7] - v[6]);                                  \
            const real near = p + fy * (q - p), far = r + fy * (t - r), value = near + fz * (far - near);             \
            to[w * step] = STORE(T, LO, HI);                                                                          \
        }                                                                                                             \
    }                                                                                                                 \
    static void cubic_##NAME(const struct work *k, const real *at, int64_t d, int64_t h, int64_t c) {                 \
        HEAD(T)                                                                                                       \
        const real fill = (real)k->fill;                                                                              \
        void (*const four)(real, real *) = k->interpolation == BSPLINE ? bspline : keys;                              \
        for (int64_t w = 0; w < n; w++) {                                                                             \
            PLACE                                                                                                     \
            real a[4], b[4], e[4], value = 0;                                                                         \
            four(pz - (real)i, a), four(py - (real)j, b), four(px - (real)l, e);                                      \
            for (int u = 0; u < 4; u++) {                                                                             \
                real slice = 0;                                                                                       \
                for (int v = 0; v < 4; v++) {                                                                         \
                    real row = 0;                                                                                     \
                    for (int t = 0; t < 4; t++) {                                                                     \
                        int64_t x0 = i + u - 1, x1 = j + v - 1, x2 = l + t - 1;                                       \
                        if (edge)                                                                                     \
                            x0 = CLAMPED(x0, n0), x1 = CLAMPED(x1, n1), x2 = CLAMPED(x2, n2);                         \
                        row += e[t] * TAP(x0, x1, x2);                                                                \
                    }                                                                                                 \
                    slice += b[v] * row;                                                                              \
                }                                                                                                     \
                value += a[u] * slice;                                                                                \
            }                                                                                                         \
            to[w * step] = STORE(T, LO, HI);                                                                          \
        }                                                                                                             \
    }                                                                                                                 \
    /* A place of a row that is not within its slice; what fills may be one of the four. */                           \
    static real border_##NAME(const struct work *k, const T *s, int64_t from, real y, real x) {                       \
        const int64_t n0 = k->shape[0], n1 = k->shape[1], n2 = k->shape[2];                                           \
        const int64_t s0 = k->stride[0], s1 = k->stride[1], s2 = k->stride[2];                                        \
        const int edge = (int)k->edge;                                                                                \
        const real fill = (real)k->fill, py = within(y, n1, edge), px = within(x, n2, edge);                          \
        int64_t j = below(py), l = below(px);                                                                         \
        if (edge)                                                                                                     \
            j -= j && j == n1 - 1, l -= l && l == n2 - 1;                                                             \
        const int64_t b = j + (!edge || n1 > 1), t = l + (!edge || n2 > 1);                                           \
        const real fy = py - (real)j, fx = px - (real)l;                                                              \
        const real v0 = TAP(from, j, l), v1 = TAP(from, j, t), v2 = TAP(from, b, l), v3 = TAP(from, b, t);            \
        const real p = v0 + fx * (v1 - v0), q = v2 + fx * (v3 - v2);                                                  \
        return p + fy * (q - p);                                                                                      \
    }                                                                                                                 \
    static void plane_##NAME(const struct work *k, const struct places *p, const T *s, int64_t from, int64_t w,       \
                             int64_t end, T *restrict to) {                                                           \
        const int64_t n = k->size[2], step = k->pitch[2], s1 = k->stride[1], s2 = k->stride[2];                       \
        const T *r = s + from * k->stride[0];                                                                         \
        for (; w < end; w++) {                                                                                        \
            const int32_t place = p->at[w];                                                                           \
            real value;                                                                                               \
            if (place >= 0) {                                                                                         \
                const T *q = r + place;                                                                               \
                const real v0 = q[0], v1 = q[s2], v2 = q[s1], v3 = q[s1 + s2], fy = p->fy[w], fx = p->fx[w];          \
                const real a = v0 + fx * (v1 - v0), b = v2 + fx * (v3 - v2);                                          \
                value = a + fy * (b - a);                                                                             \
            } else {                                                                                                  \
                value = place == OUTSIDE ? (real)k->fill : border_##NAME(k, s, from, p->row[n + w], p->row[2 * n + w]); \
            }                                                                                                         \
            to[w * step] = STORE(T, LO, HI);                                                                          \
        }                                                                                                             \
    }

#define SLICES(NAME, T, STORE, LO, HI, PLANE)                                                                         \
    /* Slices that stay as they are: the places of a row in them, and what each of the four is worth, for all. */     \
    static void planes_##NAME(const struct work *k, const struct places *p, int64_t h, int64_t c, int64_t first,      \
                              int64_t end) {                                                                          \
        const T *s = (const T *)k->from + c * k->channel;                                                             \
        T *to = (T *)k->to + first * k->pitch[0] + h * k->pitch[1] + c * k->to_channel;                               \
        for (int64_t e = first; e < end; e++, to += k->pitch[0]) {                                                    \
            int64_t from = (int64_t)(k->pre[0] * (double)e + k->pre[3]);                                              \
            if (k->edge)                                                                                              \
                from = CLAMPED(from, k->shape[0]);                                                                    \
            if ((uint64_t)from < (uint64_t)k->shape[0]) {                                                             \
                PLANE(k, p, s, from, 0, k->size[2], to);                                                              \
                continue;                                                                                             \
            }                                                                                                         \
            const real value = (real)k->fill;                                                                         \
            for (int64_t w = 0; w < k->size[2]; w++)                                                                  \
                to[w * k->pitch[2]] = STORE(T, LO, HI);                                                               \
        }                                                                                                             \
    }

static const real HALF = (real)(0.5 + TIE), TIED = (real)(0.5 - TIE);

#define VALUES(NAME, T)                                                                                               \
    static void nearest_##NAME(const struct work *k, const real *at, int64_t d, int64_t h, int64_t c) {               \
        HEAD(T)                                                                                                       \
        const T fill = (T)k->fill;                                                                                    \
        for (int64_t w = 0; w < n; w++) {                                                                             \
            const int64_t i = below(within(z[w], n0, edge) + HALF), j = below(within(y[w], n1, edge) + HALF);         \
            const int64_t l = below(within(x[w], n2, edge) + HALF);                                                   \
            to[w * step] = TAP(i, j, l);                                                                              \
        }                                                                                                             \
    }

/* The label that most of the eight voxels around have, each as much as it is worth; of equals the nearest voxel's,
   else the smallest. Sums are equal within EQUAL, so that rounding decides nothing and all devices agree. */
#define EQUAL (real)1e-5
#define DIFFERENT_BITS(a, b) ((a) ^ (b))
#define DIFFERENT(a, b) ((a) != (b))
#define LABELS(NAME, T, DIFFER)                                                                                       \
    static void vote_##NAME(const struct work *k, const real *at, int64_t d, int64_t h, int64_t c) {                  \
        HEAD(T)                                                                                                       \
        TOPS                                                                                                          \
        const T fill = (T)k->fill;                                                                                    \
        for (int64_t w = 0; w < n; w++) {                                                                             \
            T v[8];                                                                                                   \
            real fz, fy, fx;                                                                                          \
            if (INSIDE(w)) {                                                                                          \
                const int32_t i = (int32_t)z[w], j = (int32_t)y[w], l = (int32_t)x[w];                                \
                const T *r = s + i * s0 + j * s1 + l * s2;                                                            \
                fz = z[w] - (real)i, fy = y[w] - (real)j, fx = x[w] - (real)l;                                        \
                v[0] = r[0], v[1] = r[s2], v[2] = r[s1], v[3] = r[s1 + s2];                                           \
                r += s0;                                                                                              \
                v[4] = r[0], v[5] = r[s2], v[6] = r[s1], v[7] = r[s1 + s2];                                           \
            } else {                                                                                                  \
                PLACE                                                                                                 \
                const int64_t a = edge ? CLAMPED(i + 1, n0) : i + 1, b = edge ? CLAMPED(j + 1, n1) : j + 1;           \
                const int64_t e = edge ? CLAMPED(l + 1, n2) : l + 1;                                                  \
                fz = pz - (real)i, fy = py - (real)j, fx = px - (real)l;                                              \
                v[0] = TAP(i, j, l), v[1] = TAP(i, j, e), v[2] = TAP(i, b, l), v[3] = TAP(i, b, e);                   \
                v[4] = TAP(a, j, l), v[5] = TAP(a, j, e), v[6] = TAP(a, b, l), v[7] = TAP(a, b, e);                   \
            }                                                                                                         \
            T found = v[0];                                                                                           \
            if ((DIFFER(v[0], v[1]) | DIFFER(v[0], v[2]) | DIFFER(v[0], v[3]) | DIFFER(v[0], v[4]) |                  \
                 DIFFER(v[0], v[5]) | DIFFER(v[0], v[6]) | DIFFER(v[0], v[7])) != 0) {                                                     \
                real worth[8], most = -1;                                                                             \
                for (int t = 0; t < 8; t++)                                                                           \
                    worth[t] = (t & 4 ? fz : 1 - fz) * (t & 2 ? fy : 1 - fy) * (t & 1 ? fx : 1 - fx);                 \
                const T near = v[(fz >= TIED) * 4 + (fy >= TIED) * 2 + (fx >= TIED)];                                 \
                for (int t = 0, counted = 0; t < 8; t++) {                                                            \
                    if (counted >> t & 1)                                                                             \
                        continue;                                                                                     \
                    real score = 0;                                                                                   \
                    for (int u = t; u < 8; u++)                                                                       \
                        if (v[u] == v[t])                                                                             \
                            score += worth[u], counted |= 1 << u;                                                     \
                    const int before = v[t] == near || (found != near && v[t] < found);                               \
                    if (score > most + EQUAL || (score >= most - EQUAL && before))                                    \
                        found = v[t];                                                                                 \
                    most = score > most ? score : most;                                                               \
                }                                                                                                     \
            }                                                                                                         \
            to[w * step] = found;                                                                                     \
        }                                                                                                             \
    }

#define ALL(NAME, T, STORE, LO, HI) IMAGES(NAME, T, STORE, LO, HI) VALUES(NAME, T)

ALL(u8, uint8_t, STORE_WHOLE, 0, 255)
ALL(i8, int8_t, STORE_WHOLE, -128, 127)
ALL(u16, uint16_t, STORE_WHOLE, 0, 65535)
ALL(i16, int16_t, STORE_WHOLE, -32768, 32767)
ALL(f32, float, STORE_FLOAT, 0, 0)
#if F64
ALL(f64, double, STORE_FLOAT, 0, 0)
#endif

/* Eight voxels at a time, where processors can gather. Neighbors along a row are one load. */
#if defined(__x86_64__) && !F64
#include <immintrin.h>
__attribute__((target("avx2"))) static inline __m256 along_rows(const double *pairs, __m256i at, __m256 fx) {
    const __m128i few = _mm256_castsi256_si128(at), others = _mm256_extracti128_si256(at, 1);
    /* voxels a b of places 0 1 2 3, and of 4 5 6 7; the order within is that of unpacked lanes */
    const __m256 low = _mm256_castpd_ps(_mm256_i32gather_pd(pairs, few, 4));
    const __m256 high = _mm256_castpd_ps(_mm256_i32gather_pd(pairs, others, 4));
    const __m256 a = _mm256_shuffle_ps(low, high, 0x88), b = _mm256_shuffle_ps(low, high, 0xDD);
    return _mm256_add_ps(a, _mm256_mul_ps(fx, _mm256_sub_ps(b, a)));
}

/* What shuffles of two lanes of four make of 0 … 7: 0 1 4 5 2 3 6 7; the other way it is the same. */
__attribute__((target("avx2"))) static inline __m256 crossed(__m256 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xD8));
}

__attribute__((target("avx2"))) static void wide_plane(const struct work *k, const struct places *p, const float *s,
                                                       int64_t from, int64_t w, int64_t end, float *restrict to) {
    const float *r = s + from * k->stride[0];
    for (; w + 8 <= end; w += 8) {
        const __m256i at = _mm256_loadu_si256((const void *)(p->at + w));
        const int out = _mm256_movemask_ps(_mm256_castsi256_ps(at));
        if (!out) {
            const __m256 fy = _mm256_loadu_ps(p->fy + w), fx = crossed(_mm256_loadu_ps(p->fx + w));
            const __m256 a = crossed(along_rows((const double *)r, at, fx));
            const __m256 b = crossed(along_rows((const double *)(r + k->stride[1]), at, fx));
            _mm256_storeu_ps(to + w, _mm256_add_ps(a, _mm256_mul_ps(fy, _mm256_sub_ps(b, a))));
        } else {
            _mm256_zeroupper();
            plane_f32(k, p, s, from, w, w + 8, to);
        }
    }
    _mm256_zeroupper(); /* else what other functions do with halves of these registers takes twice as long */
    plane_f32(k, p, s, from, w, end, to);
}

static void best_plane(const struct work *k, const struct places *p, const float *s, int64_t from, int64_t w,
                       int64_t end, float *restrict to) {
    if (k->stride[2] == 1 && k->pitch[2] == 1 && __builtin_cpu_supports("avx2"))
        wide_plane(k, p, s, from, w, end, to);
    else
        plane_f32(k, p, s, from, w, end, to);
}
#else
#define best_plane plane_f32
#endif

SLICES(u8, uint8_t, STORE_WHOLE, 0, 255, plane_u8)
SLICES(i8, int8_t, STORE_WHOLE, -128, 127, plane_i8)
SLICES(u16, uint16_t, STORE_WHOLE, 0, 65535, plane_u16)
SLICES(i16, int16_t, STORE_WHOLE, -32768, 32767, plane_i16)
SLICES(f32, float, STORE_FLOAT, 0, 0, best_plane)
#if F64
SLICES(f64, double, STORE_FLOAT, 0, 0, plane_f64)
#endif
VALUES(i32, int32_t)
VALUES(i64, int64_t)
LABELS(u8, uint8_t, DIFFERENT_BITS)
LABELS(i8, int8_t, DIFFERENT_BITS)
LABELS(u16, uint16_t, DIFFERENT_BITS)
LABELS(i16, int16_t, DIFFERENT_BITS)
LABELS(i32, int32_t, DIFFERENT_BITS)
LABELS(i64, int64_t, DIFFERENT_BITS)
LABELS(f32, float, DIFFERENT)
#if F64
LABELS(f64, double, DIFFERENT)
#endif

typedef void row_function(const struct work *, const real *, int64_t, int64_t, int64_t);
typedef void plane_function(const struct work *, const struct places *, int64_t, int64_t, int64_t, int64_t);

#if F64
#define OF_F64(name) name##_f64
#else
#define OF_F64(name) 0
#endif

/* By type: uint8, int8, uint16, int16, float32, int32, int64, float64. */
static row_function *const ROWS[5][8] = {
    {nearest_u8, nearest_i8, nearest_u16, nearest_i16, nearest_f32, nearest_i32, nearest_i64, OF_F64(nearest)},
    {linear_u8, linear_i8, linear_u16, linear_i16, linear_f32, 0, 0, OF_F64(linear)},
    {cubic_u8, cubic_i8, cubic_u16, cubic_i16, cubic_f32, 0, 0, OF_F64(cubic)},
    {vote_u8, vote_i8, vote_u16, vote_i16, vote_f32, vote_i32, vote_i64, OF_F64(vote)},
    {0, 0, 0, 0, cubic_f32, 0, 0, OF_F64(cubic)},
};
static plane_function *const PLANES[8] = {planes_u8, planes_i8, planes_u16, planes_i16, planes_f32, 0, 0,
                                          OF_F64(planes)};

#if F64
#include "gather_axes.c"
#endif

/* Where the places of a row are in each slice, and what the voxels around them are worth. */
static void place_row(const struct work *k, const struct places *p) {
    const int64_t n = k->size[2], n1 = k->shape[1], n2 = k->shape[2];
    const int edge = (int)k->edge;
    for (int64_t w = 0; w < n; w++) {
        const real py = within(p->row[n + w], n1, edge), px = within(p->row[2 * n + w], n2, edge);
        const int64_t j = below(py), l = below(px);
        const int inside = (uint64_t)j < (uint64_t)(n1 - 1) && (uint64_t)l < (uint64_t)(n2 - 1);
        const int outside = !edge && (j < -1 || j >= n1 || l < -1 || l >= n2);
        p->at[w] = inside ? (int32_t)(j * k->stride[1] + l * k->stride[2]) : outside ? OUTSIDE : BORDER;
        p->fy[w] = py - (real)j, p->fx[w] = px - (real)l;
    }
}

static void prepare(const struct work *k, const struct lines *l) {
    for (int64_t w = 0; w < k->size[2]; w++) {
        double b[4];
        l->first[w] = 3 * (int32_t)cell(k->post[10] * w + k->post[11], k->per_node[2], k->nodes[2], b);
        for (int t = 0; t < 4; t++)
            l->weight[4 * w + t] = (float)b[t];
    }
}

enum { NEAR = 32 }; /* slices of which the second cache holds what a few rows read */

/* The slices of the result from `first` on up to `end`; `failed` is set where there is no memory. */
void seqpipe_gather(const struct work *k, int64_t first, int64_t end, int32_t *failed) {
#if F64
    if (k->method == BY_AXIS) {
        *failed = gather_axes(k, first, end);
        return;
    }
#endif
    const int64_t n = k->size[2], contracted = k->nodes[1] * k->nodes[2] * 3, columns = k->nodes[2] * 3;
    real *room = malloc(sizeof(real) * (size_t)(5 * n));
    float *points = malloc(sizeof(float) * (size_t)(contracted + columns + 4 * n));
    int32_t *places = malloc(sizeof(int32_t) * (size_t)(2 * n));
    if (!room || !points || !places) {
        *failed = 1;
        goto done;
    }
    struct lines l = {points, points + contracted, places, points + contracted + columns};
    const int field = k->lattice != 0 && !k->positions && straight(k);
    if (field)
        prepare(k, &l);
    if (k->method == BY_SLICE) { /* row by row of all slices */
        const struct places p = {room, places + n, room + 3 * n, room + 4 * n};
        if (field)
            contract_slice(k, 0, l.slice);
        for (int64_t some = first; some < end; some += NEAR) /* what a row reads of them is there for the next row */
            for (int64_t h = 0; h < k->size[1]; h++) {
                if (field)
                    contract_row(k, k->post[5] * h + k->post[7], l.slice, l.row);
                row_positions(k, &l, first, h, room);
                place_row(k, &p);
                for (int64_t c = 0; c < k->channels; c++)
                    PLANES[k->type](k, &p, h, c, some, some + NEAR < end ? some + NEAR : end);
            }
        goto done;
    }
    row_function *gather = ROWS[k->interpolation][k->type];
    for (int64_t d = first; d < end; d++) {
        if (field)
            contract_slice(k, k->post[0] * d + k->post[3], l.slice);
        for (int64_t h = 0; h < k->size[1]; h++) {
            if (field)
                contract_row(k, k->post[5] * h + k->post[7], l.slice, l.row);
            row_positions(k, &l, d, h, room);
            for (int64_t c = 0; c < k->channels; c++)
                gather(k, room, d, h, c);
        }
    }
done:
    free(room);
    free(points);
    free(places);
}
