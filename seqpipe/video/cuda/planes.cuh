// Planes scaled by themselves: words of a line are summed up where they are, with weights that a block keeps.

// lines that a thread sums up, so that each weight it reads is of use to some
#define LINES_AT_ONCE 4
// samples in a word, whose values are side by side: Cb and Cr, or one
#define EACH(SIDE_BY_SIDE) (4 / (SAMPLE_BYTES * SIDE_BY_SIDE))

// A sample of a word as a number: the lowest bits of 2^23, which is quicker than the conversion.
__device__ __forceinline__ float number_of(unsigned word, int sample) {
    const unsigned selector = SAMPLE_BYTES == 1 ? 0x7440 + sample : sample ? 0x7432 : 0x7410;
    return __uint_as_float(__byte_perm(word, 0x4b000000, selector)) - 8388608.0f;
}

// How many words of a row there are, and of how many a pixel is made.
template <int SIDE_BY_SIDE> __device__ __forceinline__ int words_in_row(const Axis& axis) {
    constexpr int each = EACH(SIDE_BY_SIDE);
    return (axis.samples + each - 1) / each;
}
template <int SIDE_BY_SIDE> __device__ __forceinline__ int words_of_pixel(const Axis& axis) {
    constexpr int each = EACH(SIDE_BY_SIDE);
    return min((axis.taps + 2 * (each - 1)) / each, words_in_row<SIDE_BY_SIDE>(axis));
}
// The first of them.
template <int SIDE_BY_SIDE> __device__ __forceinline__ int first_word(const Axis& axis, const Span& span) {
    return min(span.first / EACH(SIDE_BY_SIDE), words_in_row<SIDE_BY_SIDE>(axis) - words_of_pixel<SIDE_BY_SIDE>(axis));
}
// Whether a line is read by words: they must be aligned, and their weights need room.
template <int SIDE_BY_SIDE> __device__ __forceinline__ bool by_words(const Axis& axis) {
    return ALIGNED && words_of_pixel<SIDE_BY_SIDE>(axis) <= WORDS;
}

template <int SIDE_BY_SIDE>
__device__ __forceinline__ void weigh_columns(const Axis& axis, Filter& filter) {
    constexpr int each = EACH(SIDE_BY_SIDE);
    if (!by_words<SIDE_BY_SIDE>(axis)) return;
    const unsigned count = words_of_pixel<SIDE_BY_SIDE>(axis) * TILE_U * each;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const Span& span = filter.columns[i / each % TILE_U];
        const int word = first_word<SIDE_BY_SIDE>(axis, span) + i / (each * TILE_U);
        filter.column_weights[i] = weight_of(axis, span, word * each + i % each);
    }
}

template <int SIDE_BY_SIDE> struct Sums {
    float values[LINES_AT_ONCE][SIDE_BY_SIDE];
};

// Some words of each line: all are read before the first is used.
template <int SIDE_BY_SIDE, int N>
__device__ __forceinline__ void add_words(
    Count<N>, Sums<SIDE_BY_SIDE>& sums, const Address* rows, int word, const float* weights) {
    constexpr int each = EACH(SIDE_BY_SIDE);
    struct __align__(4 * each) Some {
        float weights[each];
    };
    unsigned words[N][LINES_AT_ONCE];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int line = 0; line < LINES_AT_ONCE; line++) words[k][line] = __ldg((const unsigned*)rows[line] + word + k);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const Some some = ((const Some*)weights)[(word + k) * TILE_U];
#pragma unroll
        for (int line = 0; line < LINES_AT_ONCE; line++)
#pragma unroll
            for (int i = 0; i < each * SIDE_BY_SIDE; i++) {
                float& sum = sums.values[line][i % SIDE_BY_SIDE];
                sum = fmaf(some.weights[i / SIDE_BY_SIDE], number_of(words[k][line], i), sum);
            }
    }
}

// The sums of a pixel's words.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void sum_words(
    const Axis& axis, const Filter& filter, int column, const Address* rows, Sums<SIDE_BY_SIDE>& sums) {
    const int words = words_of_pixel<SIDE_BY_SIDE>(axis);
    const Address first = 4 * first_word<SIDE_BY_SIDE>(axis, filter.columns[column]);
    const float* weights = filter.column_weights + column * EACH(SIDE_BY_SIDE);
    Address from[LINES_AT_ONCE];
#pragma unroll
    for (int line = 0; line < LINES_AT_ONCE; line++) from[line] = rows[line] + first;
    int word = 0;
#pragma unroll 1
    for (; word + 2 <= words; word += 2) add_words(Count<2>(), sums, from, word, weights);
    if (word < words) add_words(Count<1>(), sums, from, word, weights);
}

// The same sample by sample, wherever they lie and however many there are: each weight is made where it is needed.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void sum_samples(
    const Axis& axis, const Span& span, const Address* rows, Sums<SIDE_BY_SIDE>& sums) {
    const int end = min(span.first + axis.taps, axis.samples);
#pragma unroll 1
    for (int sample = span.first; sample < end; sample++) {
        const float weight = weight_of(axis, span, sample);
#pragma unroll
        for (int line = 0; line < LINES_AT_ONCE; line++)
#pragma unroll
            for (int i = 0; i < SIDE_BY_SIDE; i++) {
                const float value = ((const Sample*)rows[line])[sample * SIDE_BY_SIDE + i];
                sums.values[line][i] = fmaf(weight, value, sums.values[line][i]);
            }
    }
}

// Lines of a plane, from `begin` on; a thread makes one column of some of them.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void filter_lines(
    const Axis& axis, const Filter& filter, Address plane, int pitch, int begin, int count, float* lines) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
    const bool words = by_words<SIDE_BY_SIDE>(axis);
#pragma unroll 1
    for (int first = warp * LINES_AT_ONCE; first < count; first += LINES_AT_ONCE * WARPS) {
        Address rows[LINES_AT_ONCE];
#pragma unroll
        for (int line = 0; line < LINES_AT_ONCE; line++)
            rows[line] = plane + (Address)(begin + min(first + line, count - 1)) * pitch;
        Sums<SIDE_BY_SIDE> sums = {};
        if (words)
            sum_words(axis, filter, column, rows, sums);
        else
            sum_samples(axis, filter.columns[column], rows, sums);
#pragma unroll
        for (int line = 0; line < LINES_AT_ONCE; line++)
#pragma unroll
            for (int i = 0; i < SIDE_BY_SIDE; i++)
                lines[((first + line) * TILE_U + column) * SIDE_BY_SIDE + i] = sums.values[line][i];
    }
}

// A plane, or two that are side by side: sums for each row of a thread.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void filter_plane(
    const Axis* axes, Filter& filter, bool first, Address plane, int pitch, float* lines,
    float (*sums)[ROWS_OF_A_THREAD]) {
    const int end = min(filter.rows[TILE_V - 1].first + axes[1].taps, axes[1].samples);
    const int top = filter.rows[0].first, most = keeps_rows(axes[1]) ? LINES : TAPS;
#pragma unroll 1
    for (int begin = top; begin < end; begin += most) {
        const int stop = min(begin + most, end);
        __syncthreads();
        if ((first && begin == top) || !keeps_rows(axes[1])) weigh_rows(axes[1], filter, begin, stop - begin);
        filter_lines<SIDE_BY_SIDE>(axes[0], filter, plane, pitch, begin, stop - begin, lines);
        __syncthreads();
        filter_rows<SIDE_BY_SIDE>(axes[1], filter, begin, stop, lines, sums);
    }
}
