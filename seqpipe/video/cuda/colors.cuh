// Colors of a picture of full size, limited and rounded as such a picture has them, and scaled: what comes of it is a
// picture made at full size and then scaled, which is nowhere in memory.
//
// A block makes the levels of some lines, as far as its tile needs them, each once and by four in a word; then it sums them
// up along u, and what comes of it along v.
#include "levels.cuh"
#include "level_sums.cuh"

// The lines and runs of samples that a tile is made of; worked out again wherever they are needed, for registers are few.
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

// Notes where the samples of a chunk of lines are.
__device__ __forceinline__ void note_lines(const Job& job, const Frame& frame, int begin, Shared& shared) {
    const int line = begin + 2 * threadIdx.x;
    if (threadIdx.x < LINES / 2 && line < end_line(job.axes[1], shared.filters[0]))
        shared.noted[threadIdx.x] = lines_of(job, frame, line);
}

// Sums of colors for each row of a thread. Lines are made in chunks, and those of many samples piece by piece; while what is
// there of a chunk is summed up along v, the first samples of the next are on their way.
__device__ __forceinline__ void filter_colors(
    const Job& job, const Frame& frame, bool first, Shared& shared, float (*sums)[ROWS_OF_A_THREAD]) {
    constexpr int most = LEVEL_WORDS / (RUN / 4);
    const Axis &across = job.axes[0], &down = job.axes[1];
    Filter& filter = shared.filters[0];
    int begin = top_line(filter), from = first_run(across, filter);
    bool starts = true;
    note_lines(job, frame, begin, shared);
    __syncthreads();
#pragma unroll 1
    while (true) {
        const int end = end_line(down, filter);
        const Piece piece = {from, min(most, end_run(across, filter) - from), (min(LINES, end - begin) + 1) / 2};
        const Raw raw = take_first(job, frame, shared.noted, piece);
        if (starts && begin > top_line(filter))
            filter_rows<CHANNELS>(down, filter, begin - LINES, min(begin, end), shared.lines, sums);
        if (begin >= end) return;
        if (!starts) __syncthreads();
        make_levels(job, frame, shared.noted, piece, raw, shared.levels);
        sum_piece(across, filter, piece, shared.levels, starts, shared.lines);
        from += most;
        starts = from >= end_run(across, filter);
        if (!starts) continue;
        if ((first && begin == top_line(filter)) || !keeps_rows(down))
            weigh_rows(down, filter, begin, min(LINES, end_line(down, filter) - begin));
        from = first_run(across, filter), begin += LINES;
        note_lines(job, frame, begin, shared);
        __syncthreads();
    }
}
