// Scaling after color conversion: the result equals a frame that is converted at full size, with its clamping and rounding,
// and then scaled, without storing the full-size frame.
//
// A block computes the levels of the lines that its tile needs, each once and four per word; then it filters them along u,
// and the sums along v.
#include "levels.cuh"
#include "level_sums.cuh"

// Lines and runs of samples of a tile, recomputed at each use to save registers.
__device__ __forceinline__ int top_line(const Filter& filter) { return first_of_two(filter.rows[0].first); }
__device__ __forceinline__ int end_line(const Axis& down, const Filter& filter) {
    return min(filter.rows[TILE_V - 1].first + down.taps, down.samples);
}
__device__ __forceinline__ int first_run(const Axis& across, const Filter& filter) {
    return first_four(across, filter.columns[0]) / (RUN / 4);
}
__device__ __forceinline__ int end_run(const Axis& across, const Filter& filter) {
    const int last = first_four(across, filter.columns[TILE_U - 1]) + fours_of_pixel(across) - 1;
    return last / (RUN / 4) + 1;
}

// Stores the addresses of a chunk of lines.
__device__ __forceinline__ void store_sources(const Job& job, const Frame& frame, int begin, Shared& shared) {
    const int line = begin + 2 * threadIdx.x;
    if (threadIdx.x < LINES / 2 && line < end_line(job.axes[1], shared.filters[0]))
        shared.sources[threadIdx.x] = lines_of(job, frame, line);
}

// Computes the color sums of each row of a thread. Lines are processed in chunks, and long ones in pieces; while one chunk is
// filtered along v, the first samples of the next are loaded.
__device__ __forceinline__ void filter_colors(
    const Job& job, const Frame& frame, bool first, Shared& shared, float (*sums)[ROWS_PER_THREAD]) {
    constexpr int most = LEVEL_WORDS / (RUN / 4);
    const Axis &across = job.axes[0], &down = job.axes[1];
    Filter& filter = shared.filters[0];
    int begin = top_line(filter), from = first_run(across, filter);
    bool starts = true;
    store_sources(job, frame, begin, shared);
    __syncthreads();
#pragma unroll 1
    while (true) {
        const int end = end_line(down, filter);
        const Piece piece = {from, min(most, end_run(across, filter) - from), (min(LINES, end - begin) + 1) / 2};
        const Raw raw = load_first(job, frame, shared.sources, piece);
        if (starts && begin > top_line(filter))
            filter_rows<CHANNELS>(down, filter, begin - LINES, min(begin, end), shared.lines, sums);
        if (begin >= end) return;
        if (!starts) __syncthreads();
        make_levels(job, frame, shared.sources, piece, raw, shared.levels);
        sum_piece(across, filter, piece, shared.levels, starts, shared.lines);
        from += most;
        starts = from >= end_run(across, filter);
        if (!starts) continue;
        if ((first && begin == top_line(filter)) || !keeps_rows(down))
            weigh_rows(down, filter, begin, min(LINES, end_line(down, filter) - begin));
        from = first_run(across, filter), begin += LINES;
        store_sources(job, frame, begin, shared);
        __syncthreads();
    }
}
