// Pictures of another size. A block makes the weights of its columns and rows once, for all frames that it makes a tile of.
// Then, a chunk of lines at a time, it filters lines of the source along u into shared memory, and from there along v.

#define LINES 64         // of a chunk
#define WORDS 10         // of a line that a pixel may be made of, so that its weights have room
#define TAPS 32          // the same along v
#define LINES_AT_ONCE 4  // that a thread sums up, so that each weight it reads is of use to some
#define ROWS_OF_A_THREAD (TILE_V / WARPS)
// samples in a word, whose values are side by side: Cb and Cr, or one
#define EACH(SIDE_BY_SIDE) (4 / (SAMPLE_BYTES * SIDE_BY_SIDE))

// values of a line that are summed up together
#if LEVELS
#define SUMMED CHANNELS
#else
#define SUMMED (INTERLEAVED && PLANES == 3 ? 2 : 1)
#endif

// What has been worked out for this tile of a plane.
struct Filter {
    Span columns[TILE_U], rows[TILE_V];
    __align__(16) float column_weights[WORDS * TILE_U * 4 / SAMPLE_BYTES];  // by word, column, and sample in the word
    float row_weights[TAPS * TILE_V];                                       // by line and row
};

struct Shared {
    Filter filters[PLANES == 3 && !LEVELS ? 2 : 1];  // of luma and chroma
    union {
        float lines[LINES * TILE_U * SUMMED];
        Value tile[ONE_BY_ONE ? 1 : TILE_U * TILE_V * CHANNELS];
    };
};

template <int N> struct Count { static constexpr int COUNT = N; };

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

// ---------------------------------------------------------------------------------- weights

// Spans of a filter, by one thread each.
__device__ __forceinline__ void make_spans(const Axis* axes, Filter& filter, unsigned thread) {
    static_assert(2 * (TILE_U + TILE_V) <= THREADS, "a thread makes a span");
    if (thread < TILE_U)
        filter.columns[thread] = span_of(axes[0], blockIdx.x * TILE_U + thread);
    else if (thread < TILE_U + TILE_V)
        filter.rows[thread - TILE_U] =
            span_of(axes[1], blockIdx.y * TILE_V + thread - TILE_U);
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

// Whether there is room for all weights of the rows; if not, they are made anew for each chunk.
__device__ __forceinline__ bool keeps_rows(const Axis& axis) { return axis.taps <= TAPS; }

// Weights of rows: of all of a row's lines, from its first one on, or of so many from `begin` on.
__device__ __forceinline__ void weigh_rows(const Axis& axis, Filter& filter, int begin, int lines) {
    const bool all = keeps_rows(axis);
    const unsigned count = (all ? axis.taps : lines) * TILE_V;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const Span& span = filter.rows[i % TILE_V];
        filter.row_weights[i] = weight_of(axis, span, (all ? span.first : begin) + i / TILE_V);
    }
}

// ---------------------------------------------------------------------------------- along u

// A sample of a word as a number: the lowest bits of 2^23, which is quicker than the conversion.
__device__ __forceinline__ float number_of(unsigned word, int sample) {
    const unsigned selector = SAMPLE_BYTES == 1 ? 0x7440 + sample : sample ? 0x7432 : 0x7410;
    return __uint_as_float(__byte_perm(word, 0x4b000000, selector)) - 8388608.0f;
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

// ---------------------------------------------------------------------------------- along v

// Adds some lines to the sum of a row, from the first of which these are the values, and the weights.
template <int SIDE_BY_SIDE, int N>
__device__ __forceinline__ void add_lines(
    Count<N>, const float* values, const float* weights, float (*sums)[ROWS_OF_A_THREAD], int row) {
#pragma unroll
    for (int line = 0; line < N; line++)
#pragma unroll
        for (int k = 0; k < SIDE_BY_SIDE; k++)
            sums[k][row] = fmaf(weights[line * TILE_V], values[line * TILE_U * SIDE_BY_SIDE + k], sums[k][row]);
}

// Adds what the lines from `begin` to `end` give to the rows of a thread.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void filter_rows(
    const Axis& axis, const Filter& filter, int begin, int end, const float* lines, float (*sums)[ROWS_OF_A_THREAD]) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < ROWS_OF_A_THREAD; i++) {
        const int row = warp + i * WARPS, start = filter.rows[row].first, line = max(start, begin);
        const float* weights = filter.row_weights + (line - (keeps_rows(axis) ? start : begin)) * TILE_V + row;
        const float* values = lines + ((line - begin) * TILE_U + column) * SIDE_BY_SIDE;
        int left = min(start + axis.taps, end) - line;
#pragma unroll 1
        for (; left >= 4; left -= 4, weights += 4 * TILE_V, values += 4 * TILE_U * SIDE_BY_SIDE)
            add_lines<SIDE_BY_SIDE>(Count<4>(), values, weights, sums, i);
        if (left == 3) add_lines<SIDE_BY_SIDE>(Count<3>(), values, weights, sums, i);
        if (left == 2) add_lines<SIDE_BY_SIDE>(Count<2>(), values, weights, sums, i);
        if (left == 1) add_lines<SIDE_BY_SIDE>(Count<1>(), values, weights, sums, i);
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

#if LEVELS
#include "colours.cuh"
#endif

// ---------------------------------------------------------------------------------- all of it

__device__ __forceinline__ void put(const Job& job, Address out, Value* tile, int u, int v, const Value* values) {
#if ONE_BY_ONE
    const int column = blockIdx.x * TILE_U + u, row = blockIdx.y * TILE_V + v;
    if (column >= job.width || row >= job.height) return;
    const int x = REVERSED_U ? job.width - 1 - column : column, y = REVERSED_V ? job.height - 1 - row : row;
    Value* to = (Value*)out + (long long)y * job.width + x;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++, to += (long long)job.height * job.width) *to = values[channel];
#else
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) tile[place(u, v, channel)] = values[channel];
#endif
}

// The tile of a frame; those of rows are made with the first one's, the other weights are there.
__device__ __forceinline__ void make_tile(const Job& job, const Frame& frame, bool first, Shared& shared) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
#if LEVELS
    float sums[CHANNELS][ROWS_OF_A_THREAD] = {};
    filter_colours(job, frame, shared.filters[0], first, shared.lines, sums);
#else
    float sums[PLANES][ROWS_OF_A_THREAD] = {};
#if PLANES == 3
    filter_plane<1 + INTERLEAVED>(
        job.axes + 2, shared.filters[1], first, frame.planes[1], frame.chroma_pitch, shared.lines, sums + 1);
    if (!INTERLEAVED)
        filter_plane<1>(
            job.axes + 2, shared.filters[1], first, frame.planes[2], frame.chroma_pitch, shared.lines, sums + 2);
#endif
    filter_plane<1>(job.axes, shared.filters[0], first, frame.planes[0], frame.pitch, shared.lines, sums);
#endif
#if !ONE_BY_ONE
    __syncthreads();
#endif
#pragma unroll
    for (int i = 0; i < ROWS_OF_A_THREAD; i++) {
        Value values[CHANNELS];
#if LEVELS
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            values[channel] = finished(job, sums[channel][i], channel);
#else
        float pixel[PLANES];
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++) pixel[plane] = ROUNDED ? whole(sums[plane][i]) : sums[plane][i];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) values[channel] = mixed(job, pixel, channel);
#endif
        put(job, frame.out, shared.tile, column, warp + i * WARPS, values);
    }
}

// A tile of some of the frames.
__device__ __forceinline__ void make_tiles(const Job& job) {
    __shared__ __align__(16) Shared shared;
    make_spans(job.axes, shared.filters[0], threadIdx.x);
#if PLANES == 3 && !LEVELS
    make_spans(job.axes + 2, shared.filters[1], threadIdx.x - TILE_U - TILE_V);
#endif
    __syncthreads();
    weigh_columns<1>(job.axes[0], shared.filters[0]);
#if PLANES == 3 && !LEVELS
    weigh_columns<1 + INTERLEAVED>(job.axes[2], shared.filters[1]);
#endif
#pragma unroll 1
    for (int frame = blockIdx.z; frame < job.count; frame += gridDim.z) {
        make_tile(job, job.frames[frame], frame == blockIdx.z, shared);
#if !ONE_BY_ONE
        __syncthreads();
        write_tile(job, job.frames[frame].out, shared.tile);
#endif
    }
}
