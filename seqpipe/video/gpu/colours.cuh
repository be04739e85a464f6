// Colours of a picture of full size, limited and rounded as such a picture has them, and summed up along u: what comes of
// it is a picture made at full size and then scaled, which is nowhere in memory.
//
// A block makes the levels of some lines, as far as its tile needs them, each once and by four in a word; then it sums them
// up with weights of 24 bits, of which products of four bytes add a byte each.

#define UNIT_X (SHIFT_X + 1)  // log2 of the parts from one chroma sample to the next: a luma sample is two
#define UNIT_Y (SHIFT_Y + 1)

// ---------------------------------------------------------------------------------- two lines

// The first of two luma rows that lie between the same two rows of chroma.
__device__ __forceinline__ int first_of_two(int row) { return row - ((row - (OFFSET_Y + 1) / 2) & 1); }

// Where the samples of two lines are, and of the chroma rows that they lie between. Beyond the last line is the last once more.
__device__ __forceinline__ Lines lines_of(const Job& job, const Frame& frame, int row) {
    Lines lines = {};
#pragma unroll
    for (int i = 0; i < 2; i++)
        lines.luma[i] = frame.planes[0] + (Address)limited(row + i, 0, job.axes[1].samples - 1) * frame.pitch;
#if PLANES == 3
#pragma unroll
    for (int i = 0; i < CHROMA_PAIRS; i++) {
        const int place = 2 * (row + i) - OFFSET_Y, near = place >> UNIT_Y, last = job.axes[3].samples - 1;
        lines.above[i] = frame.planes[1] + (Address)limited(near, 0, last) * frame.chroma_pitch;
        lines.below[i] = frame.planes[1] + (Address)limited(near + 1, 0, last) * frame.chroma_pitch;
        lines.down[i] = (float)(place & ((1 << UNIT_Y) - 1)) / (1 << UNIT_Y);
    }
#endif
    return lines;
}

// ---------------------------------------------------------------------------------- four pixels

__device__ __forceinline__ void read_luma(const Job& job, Address row, int word, float (&four)[FOUR]) {
    const Sample* from = (const Sample*)row + FOUR * word;
#if ALIGNED && SAMPLE_BYTES == 1
    const unsigned bytes = __ldg((const unsigned*)from);
#pragma unroll
    for (int i = 0; i < FOUR; i++) four[i] = number_of(bytes, i);
#elif ALIGNED
    const unsigned words[2] = {__ldg((const unsigned*)from), __ldg((const unsigned*)from + 1)};
#pragma unroll
    for (int i = 0; i < FOUR; i++) four[i] = number_of(words[i / 2], i % 2);
#else
    const int last = job.axes[0].samples - 1 - FOUR * word;
#pragma unroll
    for (int i = 0; i < FOUR; i++) four[i] = (float)__ldg(from + min(i, last));
#endif
}

#if PLANES == 3
// Behind which chroma sample luma sample k of a word is, counted from that of its first one, and how far in parts of it.
__device__ constexpr int near_of(int k) { return (2 * k - OFFSET_X + 8 * FOUR >> UNIT_X) - (8 * FOUR >> UNIT_X); }
__device__ constexpr int parts_of(int k) { return (2 * k - OFFSET_X + 8 * FOUR) % (1 << UNIT_X); }
// The chroma samples that a word needs.
constexpr int LEAST = near_of(0), COLUMNS = near_of(FOUR - 1) + (parts_of(FOUR - 1) > 0) - LEAST + 1;
// Whether no luma column has a chroma sample right on it; else the CPU rounds 8 bits after the rows, too.
constexpr bool BETWEEN = SHIFT_X > 1 || (SHIFT_X == 1 && OFFSET_X % 2);

struct Pair {
    float values[2];  // Cb and Cr
};

// Those of a row of chroma, of which the first may lie before the row, and the last behind it.
__device__ __forceinline__ void read_chroma(
    const Job& job, const Frame& frame, Address row, int word, Pair (&columns)[COLUMNS]) {
    const int first = (FOUR >> SHIFT_X) * word + LEAST, last = job.axes[2].samples - 1;
#if ALIGNED && INTERLEAVED && SAMPLE_BYTES == 1 && SHIFT_X < 2
    if (first >= 0 && first + COLUMNS - 1 <= last) {  // two at a time
        constexpr int odd = LEAST & 1;
        const unsigned* from = (const unsigned*)row + (first - odd) / 2;
        unsigned pairs[(COLUMNS + odd + 1) / 2];
#pragma unroll
        for (int i = 0; i < (COLUMNS + odd + 1) / 2; i++) pairs[i] = __ldg(from + i);
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++)
            columns[i / 2].values[i % 2] = number_of(pairs[(i + 2 * odd) / 4], (i + 2 * odd) % 4);
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const int at = limited(first + i, 0, last);
#if INTERLEAVED
        const Sample* from = (const Sample*)row + 2 * at;
        columns[i] = {(float)__ldg(from), (float)__ldg(from + 1)};
#else
        const Address other = frame.planes[2] - frame.planes[1];
        columns[i] = {(float)__ldg((const Sample*)row + at), (float)__ldg((const Sample*)(row + other) + at)};
#endif
    }
}

// Cb and Cr of the four pixels of one of two lines.
__device__ __forceinline__ void chroma_of(
    const Lines& lines, int row, const Pair (&above)[COLUMNS], const Pair (&below)[COLUMNS], Pair (&four)[FOUR]) {
    Pair columns[COLUMNS];
#if SHIFT_Y == 1
    const float down = (OFFSET_Y & 1) * 0.25f + row * 0.5f;
#else
    const float down = lines.down[row];
#endif
#pragma unroll
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const float value = above[i / 2].values[i % 2];
        float& found = columns[i / 2].values[i % 2];
        found = value;
        if (SHIFT_Y == 0 || (SHIFT_Y == 1 && down == 0.0f)) continue;
        found = fmaf(below[i / 2].values[i % 2] - value, down, value);
        if (ROUNDED && !BETWEEN) found = whole(found);
    }
#pragma unroll
    for (int i = 0; i < 2 * FOUR; i++) {
        const int k = i / 2, near = near_of(k) - LEAST;
        const float value = columns[near].values[i % 2];
        float& chroma = four[k].values[i % 2];
        chroma = value;
        if (parts_of(k) == 0) continue;
        const float part = (float)parts_of(k) / (1 << UNIT_X);
        chroma = fmaf(columns[near + 1].values[i % 2] - value, part, value);
        if (ROUNDED) chroma = whole(chroma);
    }
}
#endif

// Two levels as bytes, limited, below others: a GPU does it in one step.
__device__ __forceinline__ unsigned bytes_of(int first, int second, unsigned above) {
#ifdef __CUDACC__
    unsigned word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %2, %1, %3;" : "=r"(word) : "r"(first), "r"(second), "r"(above));
    return word;
#else
    return limited(first, 0, 255) | limited(second, 0, 255) << 8 | above << 16;
#endif
}

// Levels of four pixels as words: of bytes, or of two times 16 bits.
__device__ __forceinline__ void pack(const int (&levels)[FOUR], unsigned* words) {
#if LEVELS == 255
    *words = bytes_of(levels[0], levels[1], bytes_of(levels[2], levels[3], 0));
#else
#pragma unroll
    for (int i = 0; i < FOUR; i++) {
        const unsigned level = limited(levels[i], 0, LEVELS);
        words[i / 2] = i % 2 ? words[i / 2] | level << 16 : level;
    }
#endif
}

// The nearest whole number, halves to even, as the bits of a float that is so many times the smallest; what is below 0 has
// the highest bit, and so is below 0 as well.
__device__ __forceinline__ int level_of(float value) { return (int)__float_as_uint(value * 0x1p-149f); }

// Makes the levels of four pixels of each of two lines, of each channel.
__device__ __forceinline__ void make_words(const Job& job, const Frame& frame, const Lines& lines, int word, unsigned* to) {
#if PLANES == 3
    Pair above[COLUMNS], below[COLUMNS];
#endif
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float luma[FOUR];
        read_luma(job, lines.luma[row], word, luma);
#if PLANES == 3
        if (row < CHROMA_PAIRS) {
            read_chroma(job, frame, lines.above[row], word, above);
            if (SHIFT_Y) read_chroma(job, frame, lines.below[row], word, below);
        }
        Pair chroma[FOUR];
        chroma_of(lines, row, above, below, chroma);
#endif
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++, to += LEVEL_WORDS) {
            int levels[FOUR];
#pragma unroll
            for (int i = 0; i < FOUR; i++) {
#if PLANES == 3
                const float planes[PLANES] = {luma[i], chroma[i].values[0], chroma[i].values[1]};
#else
                const float planes[PLANES] = {luma[i]};
#endif
                levels[i] = level_of(mixed_value(job, planes, channel));
            }
            pack(levels, to);
        }
    }
}

// ---------------------------------------------------------------------------------- along u

// The words of four samples that pixels are made of, counted from the row's first.
__device__ __forceinline__ int fours_of_pixel(const Axis& axis) {
    return min((axis.taps + 2 * (FOUR - 1)) / FOUR, (axis.samples + FOUR - 1) / FOUR);
}
__device__ __forceinline__ int first_four(const Axis& axis, const Span& span) {
    return min(span.first / FOUR, (axis.samples + FOUR - 1) / FOUR - fours_of_pixel(axis));
}
// Whether there is room for their weights; if not, they are made anew for each piece, some words of a pixel at a time.
__device__ __forceinline__ bool keeps_columns(const Axis& axis) { return fours_of_pixel(axis) <= WORDS; }

// The bytes of four weights, those of one rank in a word: weights are parts of 2^24, and all of it is one less.
struct Weights {
    unsigned ranks[WEIGHT_BYTES];
};

// Weights of some words of each column's pixel, from one on.
__device__ __forceinline__ void weigh_levels(const Axis& axis, Filter& filter, int begin) {
    const unsigned count = min(fours_of_pixel(axis) - begin, WORDS) * TILE_U;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const Span& span = filter.columns[i % TILE_U];
        const int first = FOUR * (first_four(axis, span) + begin + i / TILE_U);
        Weights weights = {};
#pragma unroll 1
        for (int k = 0; k < FOUR; k++) {
            const unsigned parts = min((unsigned)(weight_of(axis, span, first + k) * 16777216.0f + 0.5f), 0xffffffu);
#pragma unroll
            for (int rank = 0; rank < WEIGHT_BYTES; rank++) weights.ranks[rank] |= (parts >> 8 * rank & 255) << 8 * k;
        }
#pragma unroll
        for (int rank = 0; rank < WEIGHT_BYTES; rank++)
            filter.byte_weights[(i / TILE_U * WEIGHT_BYTES + rank) * TILE_U + i % TILE_U] = weights.ranks[rank];
    }
}
__device__ __forceinline__ Weights kept_weights(const Filter& filter, int number, int column) {
    Weights weights;
#pragma unroll
    for (int rank = 0; rank < WEIGHT_BYTES; rank++)
        weights.ranks[rank] = filter.byte_weights[(number * WEIGHT_BYTES + rank) * TILE_U + column];
    return weights;
}

// A sum of levels, by the ranks of the weights' bytes.
struct Parts {
    unsigned ranks[WEIGHT_BYTES];
    __device__ __forceinline__ void add(const unsigned* levels, const Weights& weights) {
#pragma unroll
        for (int rank = 0; rank < WEIGHT_BYTES; rank++) {
#if LEVELS == 255
            ranks[rank] = __dp4a(levels[0], weights.ranks[rank], ranks[rank]);
#else
            ranks[rank] = __dp2a_lo(levels[0], weights.ranks[rank], ranks[rank]);
            ranks[rank] = __dp2a_hi(levels[1], weights.ranks[rank], ranks[rank]);
#endif
        }
    }
    __device__ __forceinline__ float sum() const {
        return fmaf((float)ranks[2], 0x1p-8f, fmaf((float)ranks[1], 0x1p-16f, (float)ranks[0] * 0x1p-24f));
    }
};

// Part of some lines.
struct Piece {
    int first, count;  // words of four samples
    int pairs;         // of lines
};

// Makes the levels of a piece. A thread goes from word to word as if they stood in one line.
__device__ __forceinline__ void make_levels(
    const Job& job, const Frame& frame, const Lines* lines, const Piece& piece, unsigned* levels) {
    int pair = threadIdx.x / piece.count, word = threadIdx.x % piece.count;
    const int down = THREADS / piece.count, across = THREADS % piece.count;
#pragma unroll 1
    while (pair < piece.pairs) {
        unsigned* to = levels + pair * 2 * CHANNELS * LEVEL_WORDS + word * LEVEL_BYTES;
        make_words(job, frame, lines[pair], piece.first + word, to);
        pair += down;
        word += across;
        if (word >= piece.count) {
            word -= piece.count;
            pair++;
        }
    }
}

// Adds what some words of each pixel give, from one of them on, as far as they are in a piece; the first of all begin the
// sums. A thread makes one column of some lines.
__device__ __forceinline__ void add_words(
    const Axis& axis, const Filter& filter, int some, const Piece& piece, const unsigned* levels, bool begins, float* lines) {
    const int column = threadIdx.x & 31, line = threadIdx.x / 32 * LINES_AT_ONCE;
    const int first = first_four(axis, filter.columns[column]) + some, words = min(fours_of_pixel(axis) - some, WORDS);
    const int begin = max(first, piece.first), end = min(first + words, piece.first + piece.count);
    Parts parts[LINES_AT_ONCE][CHANNELS] = {};
#pragma unroll 1
    for (int word = begin; word < end; word++) {
        const Weights weights = kept_weights(filter, word - first, column);
        const unsigned* from = levels + line * CHANNELS * LEVEL_WORDS + (word - piece.first) * LEVEL_BYTES;
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; i++)
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++, from += LEVEL_WORDS) parts[i][channel].add(from, weights);
    }
    float* to = lines + (line * TILE_U + column) * CHANNELS;
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; i++, to += TILE_U * CHANNELS)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            to[channel] = parts[i][channel].sum() + (begins ? 0.0f : to[channel]);
}

// Sums along u of the lines that are noted, of so many pairs.
__device__ __forceinline__ void sum_lines(const Job& job, const Frame& frame, int pairs, bool first, Shared& shared) {
    const Axis& axis = job.axes[0];
    Filter& filter = shared.filters[0];
    const int words = fours_of_pixel(axis), left = first_four(axis, filter.columns[0]);
    const int right = first_four(axis, filter.columns[TILE_U - 1]) + words;
#pragma unroll 1
    for (int from = left; from < right; from += MOST_FOURS) {
        const Piece piece = {from, min(MOST_FOURS, right - from), pairs};
        if (first || from > left) __syncthreads();
        make_levels(job, frame, shared.noted, piece, shared.levels);
#pragma unroll 1
        for (int some = 0; some < words; some += WORDS) {
            if (!keeps_columns(axis)) {
                __syncthreads();
                weigh_levels(axis, filter, some);
            }
            __syncthreads();
            add_words(axis, filter, some, piece, shared.levels, from == left && some == 0, shared.lines);
        }
    }
}

// ---------------------------------------------------------------------------------- all of it

// Notes where the samples of lines are, from one on.
__device__ __forceinline__ void note_lines(const Job& job, const Frame& frame, int begin, int end, Lines* lines) {
    const int line = begin + 2 * threadIdx.x;
    if (threadIdx.x < LINES / 2 && line < end) lines[threadIdx.x] = lines_of(job, frame, line);
}

// Sums of colours for each row of a thread.
__device__ __forceinline__ void filter_colours(
    const Job& job, const Frame& frame, bool first, Shared& shared, float (*sums)[ROWS_OF_A_THREAD]) {
    const Axis& axis = job.axes[1];
    Filter& filter = shared.filters[0];
    const int end = min(filter.rows[TILE_V - 1].first + axis.taps, axis.samples);
    const int top = first_of_two(filter.rows[0].first);
    note_lines(job, frame, top, end, shared.noted);
#pragma unroll 1
    for (int begin = top; begin < end; begin += LINES) {
        const int stop = min(begin + LINES, end);
        sum_lines(job, frame, (stop - begin + 1) / 2, begin == top, shared);
        if ((first && begin == top) || !keeps_rows(axis)) weigh_rows(axis, filter, begin, stop - begin);
        note_lines(job, frame, stop, end, shared.noted);
        __syncthreads();
        filter_rows<CHANNELS>(axis, filter, begin, stop, shared.lines, sums);
    }
}
