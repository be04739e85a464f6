// Colours of pixels of full size, limited and rounded as such a picture has them, and summed up along u: what comes of it
// is a picture made at full size and then scaled, which is nowhere in memory.

// Where a luma sample lies among the chroma samples along one axis: behind which, and how far it is on its way to the next.
// The border's samples stand for those beyond it.
struct Between {
    int near, last;
    float part;
    __device__ __forceinline__ int first() const { return limited(near, 0, last); }
    __device__ __forceinline__ int second() const { return limited(near + 1, 0, last); }
};

__device__ __forceinline__ Between between_of(const Axis& luma, const Axis& chroma, int sample) {
    // the luma plane has two parts for each sample, and chroma's are as many
    const int place = 2 * sample - luma.begin + chroma.begin, near = place >> chroma.unit_bits;
    const int unit = 1 << chroma.unit_bits;
    return {near, chroma.samples - 1, (float)(place & (unit - 1)) / unit};
}

// Whether no luma column has a chroma sample right on it; else the CPU rounds 8 bits after the rows, too.
__device__ __forceinline__ bool lies_between(const Axis& luma, const Axis& chroma) {
    return chroma.unit_bits > 2 || (chroma.unit_bits == 2 && (luma.begin + chroma.begin) % 2);
}

#if PLANES == 3
// Cb and Cr of two neighbouring columns of a luma row.
struct Chroma {
    int column;
    float left[2], right[2];
};

__device__ __forceinline__ void read_pair(const Frame& frame, int row, int column, float* pair) {
    const Address start = (Address)row * frame.chroma_pitch;
#if INTERLEAVED
    const Sample* both = (const Sample*)(frame.planes[1] + start) + 2 * column;
    pair[0] = (float)both[0];
    pair[1] = (float)both[1];
#else
    pair[0] = (float)((const Sample*)(frame.planes[1] + start))[column];
    pair[1] = (float)((const Sample*)(frame.planes[2] + start))[column];
#endif
}

__device__ __forceinline__ void read_column(
    const Frame& frame, const Between& rows, int column, bool rounds, float* pair) {
    read_pair(frame, rows.first(), column, pair);
    if (rows.part == 0.0f) return;
    float below[2];
    read_pair(frame, rows.second(), column, below);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        pair[i] = fmaf(below[i] - pair[i], rows.part, pair[i]);
        if (ROUNDED && rounds) pair[i] = whole(pair[i]);
    }
}

// Moves on to the columns that a sample lies between: mostly the same ones, or the next.
__device__ __forceinline__ void move_to(
    Chroma& chroma, const Frame& frame, const Between& rows, const Between& columns, bool rounds) {
    if (columns.near == chroma.column) return;
    if (columns.near == chroma.column + 1) {
        chroma.left[0] = chroma.right[0];
        chroma.left[1] = chroma.right[1];
    } else {
        read_column(frame, rows, columns.first(), rounds, chroma.left);
    }
    read_column(frame, rows, columns.second(), rounds, chroma.right);
    chroma.column = columns.near;
}
#endif

// What a thread sums up: the colours of one pixel's samples on one line.
struct Line {
    const Job& job;
    const Frame& frame;
    const Sample* luma;
    float sums[CHANNELS];
#if PLANES == 3
    Between rows;
    Chroma chroma;
    bool rounds;
#endif

    __device__ __forceinline__ Line(const Job& job, const Frame& frame, int row)
        : job(job), frame(frame), luma((const Sample*)(frame.planes[0] + (Address)row * frame.pitch)) {
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) sums[channel] = 0.0f;
#if PLANES == 3
        rows = between_of(job.axes[1], job.axes[3], row);
        rounds = !lies_between(job.axes[0], job.axes[2]);
        chroma.column = -9;
#endif
    }

    __device__ __forceinline__ void add(int sample, float weight) {
        float planes[PLANES];
        planes[0] = (float)luma[sample];
#if PLANES == 3
        const Between columns = between_of(job.axes[0], job.axes[2], sample);
        move_to(chroma, frame, rows, columns, rounds);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float value = fmaf(chroma.right[i] - chroma.left[i], columns.part, chroma.left[i]);
            planes[1 + i] = ROUNDED ? whole(value) : value;
        }
#endif
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) {
            const float value = fminf(fmaxf(mixed_value(job, planes, channel), 0.0f), job.peak);
            sums[channel] = fmaf(weight, whole(value), sums[channel]);
        }
    }
};

// Lines of the picture of full size, from `begin` on; a thread makes one column of some of them.
__device__ __forceinline__ void colour_lines(
    const Job& job, const Frame& frame, const Filter& filter, int begin, int count, float* lines) {
    constexpr int each = EACH(1);
    const Axis& axis = job.axes[0];
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
    const Span& span = filter.columns[column];
    const int end = min(span.first + axis.taps, axis.samples);
    const bool words = by_words<1>(axis);
    const int start = words ? first_word<1>(axis, span) * each : 0;
#pragma unroll 1
    for (int line = warp; line < count; line += WARPS) {
        Line made(job, frame, begin + line);
#pragma unroll 1
        for (int sample = span.first; sample < end; sample++) {
            const int i = sample - start;
            const float weight = words ? filter.column_weights[(i / each * TILE_U + column) * each + i % each]
                                       : weight_of(axis, span, sample);
            if (weight > 0.0f) made.add(sample, weight);
        }
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            lines[(line * TILE_U + column) * CHANNELS + channel] = made.sums[channel];
    }
}

// Sums of colours for each row of a thread.
__device__ __forceinline__ void filter_colours(
    const Job& job, const Frame& frame, Filter& filter, bool first, float* lines, float (*sums)[ROWS_OF_A_THREAD]) {
    const Axis& axis = job.axes[1];
    const int end = min(filter.rows[TILE_V - 1].first + axis.taps, axis.samples);
    const int top = filter.rows[0].first, most = keeps_rows(axis) ? LINES : TAPS;
#pragma unroll 1
    for (int begin = top; begin < end; begin += most) {
        const int stop = min(begin + most, end);
        __syncthreads();
        if ((first && begin == top) || !keeps_rows(axis)) weigh_rows(axis, filter, begin, stop - begin);
        colour_lines(job, frame, filter, begin, stop - begin, lines);
        __syncthreads();
        filter_rows<CHANNELS>(axis, filter, begin, stop, lines, sums);
    }
}
