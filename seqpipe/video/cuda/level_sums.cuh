// Filtering of levels along u with 24-bit weights, by integer matrix products of bytes: (lines x samples) by
// (samples x columns), where the weights form a band. The sums are exact.
#include "byte_product.cuh"

// ---------------------------------------------------------------------------------- weights

// Number of words of four samples per pixel, and the first one, counted from the start of the row.
__device__ __forceinline__ int fours_of_pixel(const Axis& axis) {
    return min(axis.taps + 6 >> 2, axis.samples + 3 >> 2);
}
__device__ __forceinline__ int first_four(const Axis& axis, const Span& span) {
    return min(span.first >> 2, (axis.samples + 3 >> 2) - fours_of_pixel(axis));
}
// Whether their weights fit; otherwise they are computed for each piece, some words of a pixel at a time.
__device__ __forceinline__ bool keeps_columns(const Axis& axis) { return fours_of_pixel(axis) <= WORDS; }

// Computes the weights of some words of each column from `begin`, in 1 / 2^24; a weight of 1 becomes 2^24 - 1.
__device__ __forceinline__ void weigh_levels(const Axis& axis, Filter& filter, int begin) {
    const unsigned words = min(fours_of_pixel(axis) - begin, WORDS);
    if (threadIdx.x < TILE_U)
#pragma unroll
        for (int rank = 0; rank < WEIGHT_BYTES; rank++) ((unsigned*)filter.byte_weights[threadIdx.x][rank])[WORDS] = 0;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < 4 * words * TILE_U; i += THREADS) {
        const unsigned column = i / 4 % TILE_U, word = i / (4 * TILE_U);
        const Span& span = filter.columns[column];
        const float weight = weight_of(axis, span, 4 * (first_four(axis, span) + begin + word) + i % 4);
        const unsigned parts = min((unsigned)(weight * 16777216.0f + 0.5f), 0xffffffu);
#pragma unroll
        for (int rank = 0; rank < WEIGHT_BYTES; rank++)
            filter.byte_weights[column][rank][4 * word + i % 4] = parts >> 8 * rank;
    }
}

// ---------------------------------------------------------------------------------- products

// A product has 16 rows: 16 sums of one-byte levels, or 8 of two-byte levels, whose upper bytes are 8 rows below.
constexpr int SUMS_OF_PRODUCT = 16 / LEVEL_BYTES;
constexpr int PRODUCTS = (LINES * CHANNELS + SUMS_OF_PRODUCT - 1) / SUMS_OF_PRODUCT;
constexpr int COLUMNS_OF_PRODUCT = 8, WORDS_OF_PRODUCT = 8;
constexpr int GROUPS = TILE_U / COLUMNS_OF_PRODUCT, WARPS_OF_GROUP = WARPS / GROUPS;
constexpr int UPPER = LEVEL_BYTES == 1 ? 8 * LEVEL_WORDS : LEVEL_WORDS;  // distance of a row to the one 8 below

// The words of a piece that contribute to a group of columns, and those of a thread's own column.
struct Band {
    int group, begin, end, first;
    unsigned own;             // number of words from `first`
    const unsigned* weights;  // weights of the column by rank and word from `first`
};
__device__ __forceinline__ Band band_of(const Axis& axis, const Filter& filter, int some, const Piece& piece) {
    const int group = threadIdx.x / 32 % GROUPS, column = group * COLUMNS_OF_PRODUCT, own = column + threadIdx.x % 32 / 4;
    const int words = min(fours_of_pixel(axis) - some, WORDS), right = (piece.first + piece.count) * (RUN / 4);
    const int left = first_four(axis, filter.columns[column]) + some, first = first_four(axis, filter.columns[own]) + some;
    const int last = first_four(axis, filter.columns[column + COLUMNS_OF_PRODUCT - 1]) + some;
    return {group, max(left, piece.first * (RUN / 4)), min(last + words, right), first,
            (unsigned)limited(right - first, 0, words), (const unsigned*)filter.byte_weights[own][0]};
}

// Combines the sums of the bytes of weights to one below 2^32.
__device__ __forceinline__ float sum_of(const unsigned (&ranks)[WEIGHT_BYTES][4], int k) {
    return (float)(ranks[0][k] + (ranks[1][k] << 8) + (ranks[2][k] << 16));
}

// Two columns of a line.
struct __align__(8) Two {
    float values[2];
};

// Computes N products from `number`, of levels from the band's first word.
template <int N>
__device__ __forceinline__ void sum_products(
    Count<N>, const Band& band, const unsigned* levels, bool begins, int number, float* lines) {
    const int line = threadIdx.x % 32 / 4, word = threadIdx.x % 4;
    const unsigned* from = levels + (number * SUMS_OF_PRODUCT + line) * (LEVEL_BYTES * LEVEL_WORDS) + word;
    unsigned sums[N][WEIGHT_BYTES][4] = {};
#pragma unroll 1
    for (int at = band.begin + word; at < band.end + word; at += WORDS_OF_PRODUCT, from += WORDS_OF_PRODUCT) {
        unsigned right[WEIGHT_BYTES][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned own = at + 4 * half - band.first;
            const unsigned* weights = band.weights + (own < band.own ? own : WORDS);
#pragma unroll
            for (int rank = 0; rank < WEIGHT_BYTES; rank++) right[rank][half] = weights[rank * (WORDS + 1)];
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            const unsigned* row = from + i * (WARPS_OF_GROUP * 16 * LEVEL_WORDS);
            multiply_bytes(sums[i], {row[0], row[UPPER], row[4], row[UPPER + 4]}, right);
        }
    }
    float* to = lines + (number * SUMS_OF_PRODUCT + line) * LINE_PITCH + band.group * COLUMNS_OF_PRODUCT + 2 * word;
#pragma unroll
    for (int i = 0; i < N; i++, to += WARPS_OF_GROUP * SUMS_OF_PRODUCT * LINE_PITCH)
#pragma unroll
        for (int half = 0; half < 2 / LEVEL_BYTES; half++) {
            Two found;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                found.values[k] = sum_of(sums[i], 2 * half + k);
                if (LEVEL_BYTES == 2) found.values[k] = fmaf(sum_of(sums[i], 2 + k), 256.0f, found.values[k]);
            }
            Two* two = (Two*)(to + half * 8 * LINE_PITCH);
            *two = begins ? found : Two{found.values[0] + two->values[0], found.values[1] + two->values[1]};
        }
}

// Adds the words of each pixel from `some` that lie in a piece; `begins` initializes the sums. Each warp processes eight
// columns; the warps of a group of columns share its products.
__device__ __forceinline__ void add_words(
    const Axis& axis, const Filter& filter, int some, const Piece& piece, const unsigned* levels, bool begins, float* lines) {
    const Band band = band_of(axis, filter, some, piece);
    if (!begins && band.begin >= band.end) return;
    const int products = (2 * piece.pairs * CHANNELS + SUMS_OF_PRODUCT - 1) / SUMS_OF_PRODUCT;
    int number = threadIdx.x / 32 / GROUPS;
    levels += band.begin - piece.first * (RUN / 4);
#pragma unroll 1
    for (; number + (PRODUCTS_PER_STEP - 1) * WARPS_OF_GROUP < products; number += PRODUCTS_PER_STEP * WARPS_OF_GROUP) {
        sum_products(Count<PRODUCTS_PER_STEP>(), band, levels, begins, number, lines);
        if (PRODUCTS <= PRODUCTS_PER_STEP * WARPS_OF_GROUP) return;
    }
#pragma unroll 1
    for (; number < products; number += WARPS_OF_GROUP) sum_products(Count<1>(), band, levels, begins, number, lines);
}

// Adds a piece to the sums.
__device__ __forceinline__ void sum_piece(const Axis& axis, Filter& filter, const Piece& piece, const unsigned* levels,
                                          bool begins, float* lines) {
    const int words = fours_of_pixel(axis);
#pragma unroll 1
    for (int some = 0; some < words; some += WORDS) {
        if (!keeps_columns(axis)) {
            __syncthreads();
            weigh_levels(axis, filter, some);
        }
        __syncthreads();
        add_words(axis, filter, some, piece, levels, begins && some == 0, lines);
    }
}
