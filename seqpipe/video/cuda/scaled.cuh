// Pictures of another size. A block makes the weights of its columns and rows once, for all frames that it makes a tile of.
// Then, a chunk of lines at a time, it filters lines of the source along u into shared memory, and from there along v.

#define WORDS 10  // of a line that a pixel may be made of, so that its weights have room
#define TAPS 32   // the same along v
#define ROWS_OF_A_THREAD (TILE_V / WARPS)

#if LEVELS
#define LINES 32  // of a chunk, so that products are full
// Products that a warp makes together: as many as registers allow, which is more of what training asks for.
#define USUAL (LEVELS == 255 && SAMPLE_BYTES == 1 && INTERLEAVED && ALIGNED && SHIFT_X == 1 && !OFFSET_X && !WIDE && ONE_BY_ONE)
#define AT_ONCE (USUAL ? 3 : 2)
#define RUN 4  // pixels of a line whose levels are made together: eight take more registers, and longer
#define LEVEL_BYTES (LEVELS == 255 ? 1 : 2)
// of a line that there is room for, those of a channel or of one of its two bytes; 8 rows of 4 words meet no bank twice
#define LEVEL_WORDS (LEVELS == 255 ? 60 : 28)
#define LEVEL_ROWS ((LINES * CHANNELS * LEVEL_BYTES + 15) / 16 * 16)  // as many as products have
#define WEIGHT_BYTES 3
#define LINE_PITCH (TILE_U + 8)  // from one channel of a line to the next: four rows of 8 columns meet no bank twice
#define CHUNK (LEVEL_ROWS / LEVEL_BYTES * LINE_PITCH)
#define ROW_UNIT 0x1p-24f  // of sums of lines
#else
#define LINES 64
#define CHUNK (LINES * TILE_U * (INTERLEAVED && PLANES == 3 ? 2 : 1))
#define ROW_UNIT 1.0f
#endif

// What has been worked out for this tile of a plane.
struct Filter {
    Span columns[TILE_U], rows[TILE_V];
#if LEVELS
    __align__(4) unsigned char byte_weights[TILE_U][WEIGHT_BYTES][4 * (WORDS + 1)];  // by rank and sample; the last are 0
#else
    __align__(16) float column_weights[WORDS * TILE_U * 4 / SAMPLE_BYTES];  // by word, column, and sample in the word
#endif
    float row_weights[TAPS * TILE_V];  // by line and row
};

#if LEVELS
#define ROWS_OF_LINE (SHIFT_Y ? 2 : 1)                      // of chroma, between which a line lies
#define CHROMA_ROWS ((SHIFT_Y == 1 ? 1 : 2) * ROWS_OF_LINE)  // of two lines
// Where the samples of two lines are: those of luma, and of the chroma rows that they lie between.
struct Lines {
    Address luma[2], chroma[CHROMA_ROWS];
    int row;  // the first line
};
#endif

struct Shared {
    Filter filters[PLANES == 3 && !LEVELS ? 2 : 1];  // of luma and chroma
#if LEVELS
    Lines noted[LINES / 2];
    float lines[CHUNK];  // by line, channel and column
    union {
        // by line, channel, byte of a level, and word; and products see some words more, which have no weight
        __align__(16) unsigned levels[LEVEL_ROWS * LEVEL_WORDS + 8];
        Value tile[ONE_BY_ONE ? 1 : TILE_U * TILE_V * CHANNELS];
    };
#else
    union {
        float lines[CHUNK];  // by line, column, and value
        Value tile[ONE_BY_ONE ? 1 : TILE_U * TILE_V * CHANNELS];
    };
#endif
};

template <int N> struct Count { static constexpr int COUNT = N; };

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

// Whether there is room for all weights of the rows; if not, they are made anew for each chunk.
__device__ __forceinline__ bool keeps_rows(const Axis& axis) { return axis.taps <= TAPS; }

// Weights of rows: of all of a row's lines, from its first one on, or of so many from `begin` on.
__device__ __forceinline__ void weigh_rows(const Axis& axis, Filter& filter, int begin, int lines) {
    const bool all = keeps_rows(axis);
    const unsigned count = (all ? axis.taps : lines) * TILE_V;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const Span& span = filter.rows[i % TILE_V];
        filter.row_weights[i] = ROW_UNIT * weight_of(axis, span, (all ? span.first : begin) + i / TILE_V);
    }
}

// ---------------------------------------------------------------------------------- along v

// How far values of a line are apart, those of a pixel, and those of a column.
#if LEVELS
#define OF_PIXEL(SIDE_BY_SIDE) LINE_PITCH
#define OF_COLUMN(SIDE_BY_SIDE) 1
#define OF_LINE(SIDE_BY_SIDE) (SIDE_BY_SIDE * LINE_PITCH)
#else
#define OF_PIXEL(SIDE_BY_SIDE) 1
#define OF_COLUMN(SIDE_BY_SIDE) SIDE_BY_SIDE
#define OF_LINE(SIDE_BY_SIDE) (SIDE_BY_SIDE * TILE_U)
#endif

// Adds some lines to the sum of a row, from the first of which these are the values, and the weights.
template <int SIDE_BY_SIDE, int N>
__device__ __forceinline__ void add_lines(
    Count<N>, const float* values, const float* weights, float (*sums)[ROWS_OF_A_THREAD], int row) {
#pragma unroll
    for (int line = 0; line < N; line++)
#pragma unroll
        for (int k = 0; k < SIDE_BY_SIDE; k++)
            sums[k][row] = fmaf(weights[line * TILE_V], values[line * OF_LINE(SIDE_BY_SIDE) + k * OF_PIXEL(SIDE_BY_SIDE)], sums[k][row]);
}

// Adds what the lines from `begin` to `end` give to the rows of a thread.
template <int SIDE_BY_SIDE>
__device__ __forceinline__ void filter_rows(
    const Axis& axis, const Filter& filter, int begin, int end, const float* lines, float (*sums)[ROWS_OF_A_THREAD]) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < ROWS_OF_A_THREAD; i++) {
        const int row = warp + i * WARPS, start = filter.rows[row].first, line = max(start, begin);
        int left = min(start + axis.taps, end) - line;
        if (left <= 0) continue;
        const float* weights = filter.row_weights + (line - (keeps_rows(axis) ? start : begin)) * TILE_V + row;
        const float* values = lines + (line - begin) * OF_LINE(SIDE_BY_SIDE) + column * OF_COLUMN(SIDE_BY_SIDE);
#pragma unroll 1
        for (; left >= 4; left -= 4, weights += 4 * TILE_V, values += 4 * OF_LINE(SIDE_BY_SIDE))
            add_lines<SIDE_BY_SIDE>(Count<4>(), values, weights, sums, i);
        if (left == 3) add_lines<SIDE_BY_SIDE>(Count<3>(), values, weights, sums, i);
        if (left == 2) add_lines<SIDE_BY_SIDE>(Count<2>(), values, weights, sums, i);
        if (left == 1) add_lines<SIDE_BY_SIDE>(Count<1>(), values, weights, sums, i);
    }
}

#if LEVELS
#include "colors.cuh"
#else
#include "planes.cuh"
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
    filter_colors(job, frame, first, shared, sums);
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
#if LEVELS
    if (keeps_columns(job.axes[0])) weigh_levels(job.axes[0], shared.filters[0], 0);
#else
    weigh_columns<1>(job.axes[0], shared.filters[0]);
#if PLANES == 3
    weigh_columns<1 + INTERLEAVED>(job.axes[2], shared.filters[1]);
#endif
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
