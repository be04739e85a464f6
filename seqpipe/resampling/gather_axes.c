/* Grids whose axes are parallel to those of the source: sums along slices, then rows, then columns; of coarse grids, which
   read few of the voxels, the sum of each voxel. */

/* The voxels that are read for an index along an axis, -1 for what is missing, and their weights. */
struct taps {
    int64_t at[4];
    double weight[4];
};

/* Along an axis: taps of all indices, how many voxels each reads, and the first and last of all, if any. */
struct axis {
    struct taps *taps;
    int count;
    int64_t first, last;
};

static struct axis find_taps(const struct work *k, int number, struct taps *taps) {
    const int64_t n = k->shape[number];
    struct axis axis = {taps, k->interpolation == NEAREST ? 1 : k->interpolation == LINEAR ? 2 : 4, n, -1};
    for (int64_t x = 0; x < k->size[number]; x++, taps++) {
        const double place = within(k->pre[5 * number] * x + k->pre[4 * number + 3], n, (int)k->edge);
        const int64_t i = below(axis.count == 1 ? place + HALF : place);
        const double f = place - (double)i;
        taps->weight[0] = axis.count == 1 ? 1 : 1 - f, taps->weight[1] = f;
        if (axis.count == 4)
            (k->interpolation == BSPLINE ? bspline : keys)(f, taps->weight);
        for (int t = 0; t < axis.count; t++) {
            const int64_t at = i + t - (axis.count == 4);
            taps->at[t] = k->edge ? CLAMPED(at, n) : (uint64_t)at < (uint64_t)n ? at : -1;
            axis.first = taps->at[t] >= 0 && taps->at[t] < axis.first ? taps->at[t] : axis.first;
            axis.last = taps->at[t] > axis.last ? taps->at[t] : axis.last;
        }
    }
    axis.first = axis.last < 0 ? 0 : axis.first;
    return axis;
}

#define ROWS_OF(NAME, T, STORE, LO, HI)                                                                               \
    static void add_##NAME(const void *from, int64_t n, int64_t step, double weight, double *restrict to) {           \
        const T *s = from;                                                                                            \
        for (int64_t x = 0; x < n; x++)                                                                               \
            to[x] += weight * (double)s[x * step];                                                                    \
    }                                                                                                                 \
    static void sum_##NAME(const void *const *from, const double *weights, int rows, double missing,                  \
                           const struct axis *w, int64_t n, int64_t step, double fill, double *restrict values) {     \
        for (int64_t x = 0; x < n; x++) {                                                                             \
            const struct taps *taps = w->taps + x;                                                                    \
            values[x] = 0;                                                                                            \
            for (int t = 0; t < w->count; t++) {                                                                      \
                double sum = taps->at[t] < 0 ? fill : missing;                                                        \
                for (int r = 0; taps->at[t] >= 0 && r < rows; r++)                                                    \
                    sum += weights[r] * (double)((const T *)from[r])[taps->at[t] * step];                             \
                values[x] += taps->weight[t] * sum;                                                                   \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static void store_##NAME(const double *restrict values, int64_t n, int64_t step, void *to) {                      \
        for (int64_t x = 0; x < n; x++) {                                                                             \
            const double value = values[x];                                                                           \
            ((T *)to)[x * step] = STORE(T, LO, HI);                                                                   \
        }                                                                                                             \
    }
#define COPY(NAME, T)                                                                                                 \
    static void copy_##NAME(const void *from, int64_t n, int64_t step, const struct taps *taps, double value,         \
                            void *to, int64_t pitch) {                                                                \
        const T fill = (T)value, *s = from;                                                                           \
        for (int64_t x = 0; x < n; x++)                                                                               \
            ((T *)to)[x * pitch] = !s || taps[x].at[0] < 0 ? fill : s[taps[x].at[0] * step];                          \
    }
#define BOTH(NAME, T, STORE, LO, HI) ROWS_OF(NAME, T, STORE, LO, HI) COPY(NAME, T)
BOTH(u8, uint8_t, STORE_WHOLE, 0, 255)
BOTH(i8, int8_t, STORE_WHOLE, -128, 127)
BOTH(u16, uint16_t, STORE_WHOLE, 0, 65535)
BOTH(i16, int16_t, STORE_WHOLE, -32768, 32767)
BOTH(f32, float, STORE_FLOAT, 0, 0)
BOTH(f64, double, STORE_FLOAT, 0, 0)
COPY(i32, int32_t)
COPY(i64, int64_t)

typedef void add_function(const void *, int64_t, int64_t, double, double *restrict);
typedef void sum_function(const void *const *, const double *, int, double, const struct axis *, int64_t, int64_t, double,
                          double *restrict);
typedef void store_function(const double *restrict, int64_t, int64_t, void *);
typedef void copy_function(const void *, int64_t, int64_t, const struct taps *, double, void *, int64_t);
static add_function *const ADDS[8] = {add_u8, add_i8, add_u16, add_i16, add_f32, 0, 0, add_f64};
static sum_function *const SUMS[8] = {sum_u8, sum_i8, sum_u16, sum_i16, sum_f32, 0, 0, sum_f64};
static store_function *const STORES[8] = {store_u8, store_i8, store_u16, store_i16, store_f32, 0, 0, store_f64};
static copy_function *const COPIES[8] = {copy_u8, copy_i8, copy_u16, copy_i16, copy_f32, copy_i32, copy_i64, copy_f64};
static const int64_t WIDTHS[8] = {1, 1, 2, 2, 4, 4, 8, 8};

/* A row of sums: what the fill value adds to it. */
static void begin_row(const struct work *k, const struct axis *axis, const struct taps *taps, int64_t n, double *row) {
    double missing = 0;
    for (int t = 0; t < axis->count; t++)
        missing += taps->at[t] < 0 ? taps->weight[t] * k->fill : 0;
    for (int64_t x = 0; x < n; x++)
        row[x] = missing;
}

static void sum_slice(const struct work *k, const struct axis *axes, const char *from, int64_t d, double *slice, char *to) {
    const struct axis *h = axes + 1, *w = axes + 2;
    const struct taps *of_slice = axes[0].taps + d, *of_column = w->taps;
    const int64_t wide = w->last - w->first + 1, tall = h->last - h->first + 1, width = WIDTHS[k->type];
    double *row = slice + tall * wide, *values = row + wide;
    for (int64_t y = 0; y < tall; y++) {
        const char *own = from + ((h->first + y) * k->stride[1] + w->first * k->stride[2]) * width;
        begin_row(k, axes, of_slice, wide, slice + y * wide);
        for (int t = 0; t < axes->count; t++)
            if (of_slice->at[t] >= 0)
                ADDS[k->type](own + of_slice->at[t] * k->stride[0] * width, wide, k->stride[2], of_slice->weight[t],
                              slice + y * wide);
    }
    for (int64_t y = 0; y < k->size[1]; y++) {
        const struct taps *of_row = h->taps + y;
        begin_row(k, h, of_row, wide, row);
        for (int t = 0; t < h->count; t++)
            if (of_row->at[t] >= 0)
                add_f64(slice + (of_row->at[t] - h->first) * wide, wide, 1, of_row->weight[t], row);
        for (int64_t x = 0; x < k->size[2]; x++) {
            values[x] = 0;
            for (int t = 0; t < w->count; t++)
                values[x] += of_column[x].weight[t] * (of_column[x].at[t] < 0 ? k->fill : row[of_column[x].at[t] - w->first]);
        }
        STORES[k->type](values, k->size[2], k->pitch[2], to + y * k->pitch[1] * width);
    }
}

static void sum_voxels(const struct work *k, const struct axis *axes, const char *from, int64_t d, double *values, char *to) {
    const struct taps *of_slice = axes[0].taps + d;
    const int64_t width = WIDTHS[k->type];
    for (int64_t y = 0; y < k->size[1]; y++) {
        const struct taps *of_row = axes[1].taps + y;
        const void *rows[16];
        double weights[16], missing = 0;
        int count = 0;
        for (int i = 0; i < axes[0].count; i++)
            for (int j = 0; j < axes[1].count; j++) {
                const double weight = of_slice->weight[i] * of_row->weight[j];
                if (of_slice->at[i] < 0 || of_row->at[j] < 0) {
                    missing += weight * k->fill;
                    continue;
                }
                rows[count] = from + (of_slice->at[i] * k->stride[0] + of_row->at[j] * k->stride[1]) * width;
                weights[count++] = weight;
            }
        SUMS[k->type](rows, weights, count, missing, axes + 2, k->size[2], k->stride[2], k->fill, values);
        STORES[k->type](values, k->size[2], k->pitch[2], to + y * k->pitch[1] * width);
    }
}

/* The slices of the result from `first` on up to `end`; returns whether there is no memory. */
static int gather_axes(const struct work *k, int64_t first, int64_t end) {
    struct taps *taps = malloc(sizeof(struct taps) * (size_t)(k->size[0] + k->size[1] + k->size[2]));
    double *slice = 0;
    if (!taps)
        return 1;
    const struct axis axes[3] = {find_taps(k, 0, taps), find_taps(k, 1, taps + k->size[0]),
                                 find_taps(k, 2, taps + k->size[0] + k->size[1])};
    const int64_t wide = axes[2].last - axes[2].first + 1, tall = axes[1].last - axes[1].first + 1;
    const int64_t width = WIDTHS[k->type];
    const int sums = axes->count, coarse = sums * (tall * wide + wide * k->size[1] + k->size[1] * k->size[2]) >=
                                           sums * sums * sums * k->size[1] * k->size[2];
    if (axes->count > 1 && !(slice = malloc(sizeof(double) * (size_t)((tall + 1) * wide + k->size[2])))) {
        free(taps);
        return 1;
    }
    for (int64_t c = 0; c < k->channels; c++)
        for (int64_t d = first; d < end; d++) {
            const char *from = (const char *)k->from + c * k->channel * width;
            char *to = (char *)k->to + (d * k->pitch[0] + c * k->to_channel) * width;
            if (slice)
                (coarse ? sum_voxels : sum_slice)(k, axes, from, d, slice, to);
            for (int64_t y = 0; !slice && y < k->size[1]; y++) {
                const int64_t i = axes[0].taps[d].at[0], j = axes[1].taps[y].at[0];
                const char *row = i < 0 || j < 0 ? 0 : from + (i * k->stride[0] + j * k->stride[1]) * width;
                COPIES[k->type](row, k->size[2], k->stride[2], axes[2].taps, k->fill, to + y * k->pitch[1] * width,
                                k->pitch[2]);
            }
        }
    free(taps);
    free(slice);
    return 0;
}
