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
    const int place = 2 * sample - luma.begin + chroma.begin;
    const float unit = __uint_as_float((unsigned)(127 - chroma.unit_bits) << 23);  // one part of a chroma sample
    const int parts = place & ((1 << chroma.unit_bits) - 1);
    return {place >> chroma.unit_bits, chroma.samples - 1, (float)parts * unit};
}

// Whether no luma column has a chroma sample right on it; else the CPU rounds 8 bits after the rows, too.
__device__ __forceinline__ bool lies_between(const Axis& luma, const Axis& chroma) {
    return chroma.unit_bits > 2 || (chroma.unit_bits == 2 && (luma.begin + chroma.begin) % 2);
}

#if PLANES == 3
// A row of Cb and Cr.
struct Pairs {
    const Sample* planes[2 - INTERLEAVED];

    Pairs() = default;
    __device__ __forceinline__ Pairs(const Frame& frame, int row) {
        const Address start = (Address)row * frame.chroma_pitch;
#pragma unroll
        for (int i = 0; i < 2 - INTERLEAVED; i++) planes[i] = (const Sample*)(frame.planes[1 + i] + start);
    }
    __device__ __forceinline__ void read(int column, float* pair) const {
#if INTERLEAVED && SAMPLE_BYTES == 1
        const unsigned both = __ldg((const unsigned short*)planes[0] + column);
        pair[0] = (float)(both & 255);
        pair[1] = (float)(both >> 8);
#elif INTERLEAVED
        const unsigned both = __ldg((const unsigned*)planes[0] + column);
        pair[0] = (float)(both & 65535);
        pair[1] = (float)(both >> 16);
#else
        pair[0] = (float)__ldg(planes[0] + column);
        pair[1] = (float)__ldg(planes[1] + column);
#endif
    }
};
#endif

// What a thread sums up: the colours of one pixel's samples on one line.
struct Line {
    const Job& job;
    const Sample* luma;
    float sums[CHANNELS];
#if PLANES == 3
    // Cb and Cr of this luma row at two neighbouring columns, of which the first one's number is known
    Pairs above, below;
    float down;
    bool rounds;
    int column;
    float left[2], right[2];
#endif

    __device__ __forceinline__ Line(const Job& job, const Frame& frame, int row)
        : job(job), luma((const Sample*)(frame.planes[0] + (Address)row * frame.pitch)) {
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) sums[channel] = 0.0f;
#if PLANES == 3
        const Between rows = between_of(job.axes[1], job.axes[3], row);
        above = Pairs(frame, rows.first());
        below = Pairs(frame, rows.second());
        down = rows.part;
        rounds = !lies_between(job.axes[0], job.axes[2]);
        column = -9;
#endif
    }

#if PLANES == 3
    __device__ __forceinline__ void read_column(int at, float* pair) const {
        above.read(at, pair);
        if (down == 0.0f) return;
        float other[2];
        below.read(at, other);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            pair[i] = fmaf(other[i] - pair[i], down, pair[i]);
            if (ROUNDED && rounds) pair[i] = whole(pair[i]);
        }
    }

    // Moves on to the columns that a sample lies between: mostly the same ones, or the next.
    __device__ __forceinline__ void move_to(const Between& columns) {
        if (columns.near == column) return;
        if (columns.near == column + 1) {
            left[0] = right[0];
            left[1] = right[1];
        } else {
            read_column(columns.first(), left);
        }
        read_column(columns.second(), right);
        column = columns.near;
    }
#endif

    __device__ __forceinline__ void add(int sample, float value, float weight) {
        float planes[PLANES];
        planes[0] = value;
#if PLANES == 3
        const Between columns = between_of(job.axes[0], job.axes[2], sample);
        move_to(columns);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float chroma = fmaf(right[i] - left[i], columns.part, left[i]);
            planes[1 + i] = ROUNDED ? whole(chroma) : chroma;
        }
#endif
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) {
            const float level = whole(fminf(fmaxf(mixed_value(job, planes, channel), 0.0f), job.peak));
            sums[channel] = fmaf(weight, level, sums[channel]);
        }
    }

    // The pixel's samples by words, whose weights are known, ...
    __device__ __forceinline__ void add_words(const Axis& axis, const Filter& filter, int at) {
        constexpr int each = EACH(1);
        struct __align__(4 * each) Some {
            float weights[each];
        };
        const int words = words_of_pixel<1>(axis), first = first_word<1>(axis, filter.columns[at]);
        const Some* weights = (const Some*)(filter.column_weights + at * each);
#pragma unroll 1
        for (int i = 0; i < words; i++) {
            const unsigned word = __ldg((const unsigned*)luma + first + i);
            const Some some = weights[i * TILE_U];
#pragma unroll
            for (int k = 0; k < each; k++)
                if (some.weights[k] > 0.0f) add((first + i) * each + k, number_of(word, k), some.weights[k]);
        }
    }

    // ... or one by one.
    __device__ __forceinline__ void add_samples(const Axis& axis, const Span& span) {
        const int end = min(span.first + axis.taps, axis.samples);
#pragma unroll 1
        for (int sample = span.first; sample < end; sample++) {
            const float weight = weight_of(axis, span, sample);
            if (weight > 0.0f) add(sample, (float)luma[sample], weight);
        }
    }
};

// Lines of the picture of full size, from `begin` on; a thread makes one column of some of them.
__device__ __forceinline__ void colour_lines(
    const Job& job, const Frame& frame, const Filter& filter, int begin, int count, float* lines) {
    const Axis& axis = job.axes[0];
    const int warp = threadIdx.x / 32, column = threadIdx.x & 31;
    const bool words = by_words<1>(axis);
#pragma unroll 1
    for (int line = warp; line < count; line += WARPS) {
        Line made(job, frame, begin + line);
        if (words)
            made.add_words(axis, filter, column);
        else
            made.add_samples(axis, filter.columns[column]);
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
