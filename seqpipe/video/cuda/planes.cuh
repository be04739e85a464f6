// Scaling of separate planes: reads words of a line from global memory, with weights in shared memory.

// lines that a thread sums, so that each weight is read once for several lines
#define LINES_PER_THREAD 4
// samples per word, each of one value, or of Cb and Cr
#define SAMPLES_PER_WORD(COMPONENTS) (4 / (SAMPLE_BYTES * COMPONENTS))

// Converts a sample of a word by inserting it in the lowest bits of 2^23, which is faster than a conversion instruction.
__device__ __forceinline__ float number_of(unsigned word, int sample) {
    const unsigned selector = SAMPLE_BYTES == 1 ? 0x7440 + sample : sample ? 0x7432 : 0x7410;
    return __uint_as_float(__byte_perm(word, 0x4b000000, selector)) - 8388608.0f;
}

// Number of words of a row, and of a pixel.
template <int COMPONENTS> __device__ __forceinline__ int words_in_row(const Axis& axis) {
    constexpr int each = SAMPLES_PER_WORD(COMPONENTS);
    return (axis.samples + each - 1) / each;
}
template <int COMPONENTS> __device__ __forceinline__ int words_of_pixel(const Axis& axis) {
    constexpr int each = SAMPLES_PER_WORD(COMPONENTS);
    return min((axis.taps + 2 * (each - 1)) / each, words_in_row<COMPONENTS>(axis));
}
// First word of a pixel.
template <int COMPONENTS> __device__ __forceinline__ int first_word(const Axis& axis, const Span& span) {
    return min(span.first / SAMPLES_PER_WORD(COMPONENTS), words_in_row<COMPONENTS>(axis) - words_of_pixel<COMPONENTS>(axis));
}
// Whether lines are read by words: they must be aligned, and their weights must fit.
template <int COMPONENTS> __device__ __forceinline__ bool by_words(const Axis& axis) {
    return ALIGNED && words_of_pixel<COMPONENTS>(axis) <= WORDS;
}

template <int COMPONENTS>
__device__ __forceinline__ void weigh_columns(const Axis& axis, Filter& filter) {
    constexpr int each = SAMPLES_PER_WORD(COMPONENTS);
    if (!by_words<COMPONENTS>(axis)) return;
    const unsigned count = words_of_pixel<COMPONENTS>(axis) * TILE_U * each;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const Span& span = filter.columns[i / each % TILE_U];
        const int word = first_word<COMPONENTS>(axis, span) + i / (each * TILE_U);
        filter.column_weights[i] = weight_of(axis, span, word * each + i % each);
    }
}

template <int COMPONENTS> struct Sums {
    float values[LINES_PER_THREAD][COMPONENTS];
};

// Adds N words of each line; all are loaded before the first is used.
template <int COMPONENTS, int N>
__device__ __forceinline__ void add_words(
    Count<N>, Sums<COMPONENTS>& sums, const Address* rows, int word, const float* weights) {
    constexpr int each = SAMPLES_PER_WORD(COMPONENTS);
    struct __align__(4 * each) Some {
        float weights[each];
    };
    unsigned words[N][LINES_PER_THREAD];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int line = 0; line < LINES_PER_THREAD; line++) words[k][line] = __ldg((const unsigned*)rows[line] + word + k);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const Some some = ((const Some*)weights)[(word + k) * TILE_U];
#pragma unroll
        for (int line = 0; line < LINES_PER_THREAD; line++)
#pragma unroll
            for (int i = 0; i < each * COMPONENTS; i++) {
                float& sum = sums.values[line][i % COMPONENTS];
                sum = fmaf(some.weights[i / COMPONENTS], number_of(words[k][line], i), sum);
            }
    }
}

// Sums the words of a pixel.
template <int COMPONENTS>
__device__ __forceinline__ void sum_words(
    const Axis& axis, const Filter& filter, int column, const Address* rows, Sums<COMPONENTS>& sums) {
    const int words = words_of_pixel<COMPONENTS>(axis);
    const Address first = 4 * first_word<COMPONENTS>(axis, filter.columns[column]);
    const float* weights = filter.column_weights + column * SAMPLES_PER_WORD(COMPONENTS);
    Address from[LINES_PER_THREAD];
#pragma unroll
    for (int line = 0; line < LINES_PER_THREAD; line++) from[line] = rows[line] + first;
    int word = 0;
#pragma unroll 1
    for (; word + 2 <= words; word += 2) add_words(Count<2>(), sums, from, word, weights);
    if (word < words) add_words(Count<1>(), sums, from, word, weights);
}

// Sums the samples of a pixel one by one, for any alignment and number; computes each weight on the fly.
template <int COMPONENTS>
__device__ __forceinline__ void sum_samples(
    const Axis& axis, const Span& span, const Address* rows, Sums<COMPONENTS>& sums) {
    const int end = min(span.first + axis.taps, axis.samples);
#pragma unroll 1
    for (int sample = span.first; sample < end; sample++) {
        const float weight = weight_of(axis, span, sample);
#pragma unroll
        for (int line = 0; line < LINES_PER_THREAD; line++)
#pragma unroll
            for (int i = 0; i < COMPONENTS; i++) {
                const float value = ((const Sample*)rows[line])[sample * COMPONENTS + i];
                sums.values[line][i] = fmaf(weight, value, sums.values[line][i]);
            }
    }
}

// Filters lines of a plane from `begin` along u; a thread computes one column of several lines.
template <int COMPONENTS>
__device__ __forceinline__ void filter_lines(
    const Axis& axis, const Filter& filter, Address plane, int pitch, int begin, int count, float* lines) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
    const bool words = by_words<COMPONENTS>(axis);
#pragma unroll 1
    for (int first = warp * LINES_PER_THREAD; first < count; first += LINES_PER_THREAD * WARPS) {
        Address rows[LINES_PER_THREAD];
#pragma unroll
        for (int line = 0; line < LINES_PER_THREAD; line++)
            rows[line] = plane + (Address)(begin + min(first + line, count - 1)) * pitch;
        Sums<COMPONENTS> sums = {};
        if (words)
            sum_words(axis, filter, column, rows, sums);
        else
            sum_samples(axis, filter.columns[column], rows, sums);
#pragma unroll
        for (int line = 0; line < LINES_PER_THREAD; line++)
#pragma unroll
            for (int i = 0; i < COMPONENTS; i++)
                lines[((first + line) * TILE_U + column) * COMPONENTS + i] = sums.values[line][i];
    }
}

// Filters a plane, or two interleaved ones, to the sums of each row of a thread.
template <int COMPONENTS>
__device__ __forceinline__ void filter_plane(
    const Axis* axes, Filter& filter, bool first, Address plane, int pitch, float* lines,
    float (*sums)[ROWS_PER_THREAD]) {
    const int end = min(filter.rows[TILE_V - 1].first + axes[1].taps, axes[1].samples);
    const int top = filter.rows[0].first, most = keeps_rows(axes[1]) ? LINES : TAPS;
#pragma unroll 1
    for (int begin = top; begin < end; begin += most) {
        const int stop = min(begin + most, end);
        __syncthreads();
        if ((first && begin == top) || !keeps_rows(axes[1])) weigh_rows(axes[1], filter, begin, stop - begin);
        filter_lines<COMPONENTS>(axes[0], filter, plane, pitch, begin, stop - begin, lines);
        __syncthreads();
        filter_rows<COMPONENTS>(axes[1], filter, begin, stop, lines, sums);
    }
}
