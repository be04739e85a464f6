// Scaled frames. A block computes the weights of its columns and rows once for all its frames. Then, one chunk of lines at a
// time, it filters source lines along u into shared memory, and from there along v.

#define WORDS 10  // largest number of words of a line per pixel whose weights are stored
#define TAPS 32   // the same for lines along v
#define ROWS_PER_THREAD (TILE_V / WARPS)

#if LEVELS
#define LINES 32  // lines per chunk, which fill the matrix products
// Products that a warp computes together, limited by registers: more for the common formats.
#define USUAL (LEVELS == 255 && SAMPLE_BYTES == 1 && INTERLEAVED && ALIGNED && SHIFT_X == 1 && !OFFSET_X && !WIDE && DIRECT_WRITE)
#define PRODUCTS_PER_STEP (USUAL ? 3 : 2)
#define RUN 4  // pixels of a line whose levels are computed together: eight take more registers and more time
#define LEVEL_BYTES (LEVELS == 255 ? 1 : 2)
// words per line of a channel, or of one of its two bytes; 8 rows of 4 words have no bank conflicts
#define LEVEL_WORDS (LEVELS == 255 ? 60 : 28)
#define LEVEL_ROWS ((LINES * CHANNELS * LEVEL_BYTES + 15) / 16 * 16)  // a multiple of the rows of a product
#define WEIGHT_BYTES 3
#define LINE_PITCH (TILE_U + 8)  // distance of the channels of a line: four rows of 8 columns have no bank conflicts
#define CHUNK (LEVEL_ROWS / LEVEL_BYTES * LINE_PITCH)
#define ROW_UNIT 0x1p-24f  // unit of the sums of lines
#else
#define LINES 64
#define CHUNK (LINES * TILE_U * (INTERLEAVED && PLANES == 3 ? 2 : 1))
#define ROW_UNIT 1.0f
#endif

// Filter of a plane for the block's tile.
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
#define ROWS_OF_LINE (SHIFT_Y ? 2 : 1)                      // chroma rows that a line is interpolated from
#define CHROMA_ROWS ((SHIFT_Y == 1 ? 1 : 2) * ROWS_OF_LINE)  // chroma rows of two lines
// Addresses of two luma lines, and of the chroma rows that they are interpolated from.
struct Lines {
    Address luma[2], chroma[CHROMA_ROWS];
    int row;  // the first line
};
#endif

struct Shared {
    Filter filters[PLANES == 3 && !LEVELS ? 2 : 1];  // of luma and chroma
#if LEVELS
    Lines sources[LINES / 2];
    float lines[CHUNK];  // by line, channel and column
    union {
        // by line, channel, byte of a level, and word; products read some more words, whose weights are 0
        __align__(16) unsigned levels[LEVEL_ROWS * LEVEL_WORDS + 8];
        Value tile[DIRECT_WRITE ? 1 : TILE_U * TILE_V * CHANNELS];
    };
#else
    union {
        float lines[CHUNK];  // by line, column, and value
        Value tile[DIRECT_WRITE ? 1 : TILE_U * TILE_V * CHANNELS];
    };
#endif
};

template <int N> struct Count { static constexpr int COUNT = N; };

// ---------------------------------------------------------------------------------- weights

// Computes the spans of a filter, one per thread.
__device__ __forceinline__ void make_spans(const Axis* axes, Filter& filter, unsigned thread) {
    static_assert(2 * (TILE_U + TILE_V) <= THREADS, "a thread makes a span");
    if (thread < TILE_U)
        filter.columns[thread] = span_of(axes[0], blockIdx.x * TILE_U + thread);
    else if (thread < TILE_U + TILE_V)
        filter.rows[thread - TILE_U] =
            span_of(axes[1], blockIdx.y * TILE_V + thread - TILE_U);
}

// Whether all weights of the rows fit; otherwise they are computed for each chunk.
__device__ __forceinline__ bool keeps_rows(const Axis& axis) { return axis.taps <= TAPS; }

// Computes the weights of rows: of all lines of each row, or of `lines` lines from `begin`.
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

// Distances of the values of a pixel, of columns and of lines.
#if LEVELS
#define OF_PIXEL(COMPONENTS) LINE_PITCH
#define OF_COLUMN(COMPONENTS) 1
#define OF_LINE(COMPONENTS) (COMPONENTS * LINE_PITCH)
#else
#define OF_PIXEL(COMPONENTS) 1
#define OF_COLUMN(COMPONENTS) COMPONENTS
#define OF_LINE(COMPONENTS) (COMPONENTS * TILE_U)
#endif

// Adds N lines to the sum of a row.
template <int COMPONENTS, int N>
__device__ __forceinline__ void add_lines(
    Count<N>, const float* values, const float* weights, float (*sums)[ROWS_PER_THREAD], int row) {
#pragma unroll
    for (int line = 0; line < N; line++)
#pragma unroll
        for (int k = 0; k < COMPONENTS; k++)
            sums[k][row] = fmaf(weights[line * TILE_V], values[line * OF_LINE(COMPONENTS) + k * OF_PIXEL(COMPONENTS)], sums[k][row]);
}

// Adds the lines from `begin` to `end` to the sums of a thread's rows.
template <int COMPONENTS>
__device__ __forceinline__ void filter_rows(
    const Axis& axis, const Filter& filter, int begin, int end, const float* lines, float (*sums)[ROWS_PER_THREAD]) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < ROWS_PER_THREAD; i++) {
        const int row = warp + i * WARPS, start = filter.rows[row].first, line = max(start, begin);
        int left = min(start + axis.taps, end) - line;
        if (left <= 0) continue;
        const float* weights = filter.row_weights + (line - (keeps_rows(axis) ? start : begin)) * TILE_V + row;
        const float* values = lines + (line - begin) * OF_LINE(COMPONENTS) + column * OF_COLUMN(COMPONENTS);
#pragma unroll 1
        for (; left >= 4; left -= 4, weights += 4 * TILE_V, values += 4 * OF_LINE(COMPONENTS))
            add_lines<COMPONENTS>(Count<4>(), values, weights, sums, i);
        if (left == 3) add_lines<COMPONENTS>(Count<3>(), values, weights, sums, i);
        if (left == 2) add_lines<COMPONENTS>(Count<2>(), values, weights, sums, i);
        if (left == 1) add_lines<COMPONENTS>(Count<1>(), values, weights, sums, i);
    }
}

#if LEVELS
#include "colors.cuh"
#else
#include "planes.cuh"
#endif

// ---------------------------------------------------------------------------------- tiles

__device__ __forceinline__ void put(const Job& job, Address out, Value* tile, int u, int v, const Value* values) {
#if DIRECT_WRITE
    const int column = blockIdx.x * TILE_U + u, row = blockIdx.y * TILE_V + v;
    if (column >= job.width || row >= job.height) return;
    const int x = REVERSED_U ? job.width - 1 - column : column, y = REVERSED_V ? job.height - 1 - row : row;
    Value* to = (Value*)out + (long long)y * job.width + x;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++, to += (long long)job.height * job.width) *to = values[channel];
#else
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) tile[tile_index(u, v, channel)] = values[channel];
#endif
}

// Computes the tile of a frame; the first frame also computes the weights of rows.
__device__ __forceinline__ void make_tile(const Job& job, const Frame& frame, bool first, Shared& shared) {
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
#if LEVELS
    float sums[CHANNELS][ROWS_PER_THREAD] = {};
    filter_colors(job, frame, first, shared, sums);
#else
    float sums[PLANES][ROWS_PER_THREAD] = {};
#if PLANES == 3
    filter_plane<1 + INTERLEAVED>(
        job.axes + 2, shared.filters[1], first, frame.planes[1], frame.chroma_pitch, shared.lines, sums + 1);
    if (!INTERLEAVED)
        filter_plane<1>(
            job.axes + 2, shared.filters[1], first, frame.planes[2], frame.chroma_pitch, shared.lines, sums + 2);
#endif
    filter_plane<1>(job.axes, shared.filters[0], first, frame.planes[0], frame.pitch, shared.lines, sums);
#endif
#if !DIRECT_WRITE
    __syncthreads();
#endif
#pragma unroll
    for (int i = 0; i < ROWS_PER_THREAD; i++) {
        Value values[CHANNELS];
#if LEVELS
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            values[channel] = to_value(job, sums[channel][i], channel);
#else
        float pixel[PLANES];
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++) pixel[plane] = ROUNDED ? round_even(sums[plane][i]) : sums[plane][i];
        convert_pixel(job, pixel, values);
#endif
        put(job, frame.out, shared.tile, column, warp + i * WARPS, values);
    }
}

// Computes the tiles of the block's frames.
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
#if !DIRECT_WRITE
        __syncthreads();
        write_tile(job, job.frames[frame].out, shared.tile);
#endif
    }
}
