// Conversion of source lines to full-size levels with clamping and rounding; each line is converted once per tile, by runs of
// pixels of two lines.
//
// Integers are represented as denormal floats: the bits n are the value n * 2^-149. Results in this range are rounded to
// integers, halves to even, by the float arithmetic itself, and no conversion is needed. The host scales the matrix
// accordingly: by 2^116 for operands n * 2^-149, by 1 for operands n * 2^-33; sums are in units of 2^-33.

#define UNIT_X (SHIFT_X + 1)  // log2 of the units between chroma samples: luma samples are two units apart
#define UNIT_Y (SHIFT_Y + 1)

// ---------------------------------------------------------------------------------- two lines

// First of the two luma rows that lie between the same two chroma rows.
__device__ __forceinline__ int first_of_two(int row) { return row - ((row - (OFFSET_Y + 1) / 2) & 1); }

// Position of line `row` between the chroma rows above and below it, from 0 to 1; a constant for 4:2:0.
__device__ __forceinline__ float row_fraction(int row) {
    const int place = SHIFT_Y == 1 ? (OFFSET_Y & 1) + 2 * (row & 1) : 2 * row - OFFSET_Y;
    return (float)(place & ((1 << UNIT_Y) - 1)) / (1 << UNIT_Y);
}

// Addresses of two lines and of their chroma rows. The last line is repeated beyond the end.
__device__ __forceinline__ Lines lines_of(const Job& job, const Frame& frame, int row) {
    Lines lines = {};
#pragma unroll
    for (int i = 0; i < 2; i++)
        lines.luma[i] = frame.planes[0] + (Address)limited(row + i, 0, job.axes[1].samples - 1) * frame.pitch;
#if PLANES == 3
#pragma unroll
    for (int i = 0; i < CHROMA_ROWS; i++) {
        const int line = row + i / ROWS_OF_LINE, near = (2 * line - OFFSET_Y >> UNIT_Y) + i % ROWS_OF_LINE;
        lines.chroma[i] = frame.planes[1] + (Address)limited(near, 0, job.axes[3].samples - 1) * frame.chroma_pitch;
    }
#endif
    lines.row = row;
    return lines;
}

// ---------------------------------------------------------------------------------- samples

constexpr int IN_WORD = 4 / SAMPLE_BYTES;  // samples
__device__ constexpr int words_for(int samples) { return (samples + IN_WORD - 1) / IN_WORD; }

#if PLANES == 3
// Chroma sample at or before luma sample k of a run, relative to the run's start, and the distance from it in units.
__device__ constexpr int near_of(int k) { return (2 * k - OFFSET_X + 8 * RUN >> UNIT_X) - (8 * RUN >> UNIT_X); }
__device__ constexpr int parts_of(int k) { return (2 * k - OFFSET_X + 8 * RUN) % (1 << UNIT_X); }
// First and number of chroma samples of a run, and the distance between runs.
constexpr int LEAST = near_of(0), COLUMNS = near_of(RUN - 1) + (parts_of(RUN - 1) > 0) - LEAST + 1, STEP = RUN >> SHIFT_X;
// Words hold Cb and Cr of a column for interleaved planes, and may begin with unused columns.
constexpr int COLUMNS_IN_WORD = INTERLEAVED ? IN_WORD / 2 : IN_WORD;
constexpr int BEFORE = (LEAST + 4 * COLUMNS_IN_WORD) % COLUMNS_IN_WORD;
constexpr int CHROMA_WORDS = (BEFORE + COLUMNS + COLUMNS_IN_WORD - 1) / COLUMNS_IN_WORD;
constexpr bool CHROMA_BY_WORDS = STEP % COLUMNS_IN_WORD == 0;  // otherwise runs are not aligned to words
#endif

// Raw samples of a run.
struct Raw {
    unsigned luma[2][words_for(RUN)];
#if PLANES == 3
    unsigned chroma[CHROMA_ROWS][INTERLEAVED ? 1 : 2][CHROMA_WORDS];
#endif
};

// Assembles words from single samples: sample i is number `at(i)` of the row.
template <int N, class At> __device__ __forceinline__ void gather(Address row, unsigned (&words)[N], At at) {
#pragma unroll
    for (int k = 0; k < N; k++) {
        unsigned word = 0;
#pragma unroll
        for (int i = 0; i < IN_WORD; i++)
            word |= (unsigned)__ldg((const Sample*)row + at(k * IN_WORD + i)) << 8 * SAMPLE_BYTES * i;
        words[k] = word;
    }
}
template <int N> __device__ __forceinline__ void read(Address row, unsigned bytes, unsigned (&words)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++) words[k] = __ldg((const unsigned*)(row + bytes) + k);
}

__device__ __forceinline__ void load_luma(const Job& job, const Lines& lines, int run, bool by_words, Raw& raw) {
    const int last = job.axes[0].samples - 1;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (by_words)
            read(lines.luma[i], RUN * SAMPLE_BYTES * run, raw.luma[i]);
        else
            gather(lines.luma[i], raw.luma[i], [=](int sample) { return min(RUN * run + sample, last); });
}

#if PLANES == 3
__device__ __forceinline__ void load_chroma(
    const Job& job, const Frame& frame, const Lines& lines, int run, bool by_words, Raw& raw) {
    const int first = STEP * run + LEAST - BEFORE, last = job.axes[2].samples - 1;
    const Address planes[2] = {0, frame.planes[2] - frame.planes[1]};
#pragma unroll
    for (int i = 0; i < CHROMA_ROWS; i++)
#pragma unroll
        for (int k = 0; k < (INTERLEAVED ? 1 : 2); k++)
            if (by_words && CHROMA_BY_WORDS)
                read(lines.chroma[i] + planes[k], (first / COLUMNS_IN_WORD) * 4, raw.chroma[i][k]);
            else
                gather(lines.chroma[i] + planes[k], raw.chroma[i][k], [=](int sample) {
                    if (INTERLEAVED) return 2 * limited(first + sample / 2, 0, last) + sample % 2;
                    return limited(first + sample, 0, last);
                });
}
#endif

// Loads all samples of a run before any is used. Edge samples are repeated beyond a row.
__device__ __forceinline__ Raw load_run(const Job& job, const Frame& frame, const Lines& lines, int run) {
    Raw raw;
    bool inside = ALIGNED && RUN * (run + 1) <= job.axes[0].samples;
#if PLANES == 3
    const int first = STEP * run + LEAST - BEFORE;
    inside = inside && first >= 0 && first + CHROMA_WORDS * COLUMNS_IN_WORD <= job.axes[2].samples;
#endif
    if (inside) {
        load_luma(job, lines, run, true, raw);
#if PLANES == 3
        load_chroma(job, frame, lines, run, true, raw);
#endif
    } else {
        load_luma(job, lines, run, false, raw);
#if PLANES == 3
        load_chroma(job, frame, lines, run, false, raw);
#endif
    }
    return raw;
}

// Returns a sample of some words as a denormal float.
template <int N> __device__ __forceinline__ float number_in(const unsigned (&words)[N], int sample) {
    const unsigned place = sample % IN_WORD, selector = SAMPLE_BYTES == 1 ? 0x4440 + place : place ? 0x4432 : 0x4410;
    return __uint_as_float(__byte_perm(words[sample / IN_WORD], 0, selector));
}

// ---------------------------------------------------------------------------------- colors

#if PLANES == 3
// For 8-bit output, the CPU rounds chroma after the horizontal interpolation, and also after the vertical one unless no luma
// column coincides with a chroma sample. Unrounded values are n * 2^-33.
constexpr bool BETWEEN = SHIFT_X > 1 || (SHIFT_X == 1 && OFFSET_X % 2);
constexpr bool EXACT_ROWS = !ROUNDED || BETWEEN;
constexpr float EXACT = 0x1p116f;

// Returns a value of a chroma row.
__device__ __forceinline__ float chroma_in(const Raw& raw, int row, int column, int component) {
    const int at = BEFORE + column;
    const float value = number_in(raw.chroma[row][INTERLEAVED ? 0 : component], INTERLEAVED ? 2 * at + component : at);
    return EXACT_ROWS ? mul_denormal(value, EXACT) : value;
}

// Interpolates Cb or Cr of a chroma column vertically at one of two lines.
__device__ __forceinline__ float column_at(const Raw& raw, int row, int line, int column, int component) {
    const int above = SHIFT_Y == 1 ? 0 : line * ROWS_OF_LINE;
    const float down = row_fraction(SHIFT_Y == 1 ? line : row + line), value = chroma_in(raw, above, column, component);
    if (SHIFT_Y == 0 || (SHIFT_Y == 1 && down == 0.0f)) return value;
    return fma_denormal(sub_denormal(chroma_in(raw, above + 1, column, component), value), down, value);
}

// Interpolates Cb or Cr of a pixel of one of two lines.
__device__ __forceinline__ float chroma_at(const Raw& raw, int row, int line, int k, int component) {
    const int near = near_of(k) - LEAST, parts = parts_of(k);
    float value = column_at(raw, row, line, near, component);
    const float part = (float)parts / (1 << UNIT_X);
    if (parts > 0) value = fma_denormal(sub_denormal(column_at(raw, row, line, near + 1, component), value), part, value);
    return ROUNDED && EXACT_ROWS ? mul_denormal(value, 1.0f / EXACT) : value;
}
#endif

// Packs two clamped levels below the bytes of `above`, in one instruction on a GPU.
__device__ __forceinline__ unsigned bytes_of(int first, int second, unsigned above) {
#ifdef __CUDACC__
    unsigned word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %2, %1, %3;" : "=r"(word) : "r"(first), "r"(second), "r"(above));
    return word;
#else
    return limited(first, 0, 255) | limited(second, 0, 255) << 8 | above << 16;
#endif
}

// Packs the levels of four pixels, one word per byte.
__device__ __forceinline__ void pack(const int (&levels)[4], unsigned (&ranks)[LEVEL_BYTES]) {
#if LEVELS == 255
    ranks[0] = bytes_of(levels[0], levels[1], bytes_of(levels[2], levels[3], 0));
#else
    unsigned found[4];
#pragma unroll
    for (int i = 0; i < 4; i++) found[i] = limited(levels[i], 0, LEVELS);
    const unsigned first = found[0] | found[1] << 16, second = found[2] | found[3] << 16;
    ranks[0] = __byte_perm(first, second, 0x6420), ranks[1] = __byte_perm(first, second, 0x7531);
#endif
}

// Rounds a sum to an integer; the sign bit makes negative sums negative integers.
__device__ __forceinline__ int level_of(float sum) { return (int)__float_as_uint(mul_denormal(sum, 0x1p-116f)); }

// Computes the levels of four pixels of one of two lines.
__device__ __forceinline__ void make_four(
    const Job& job, const Raw& raw, int row, int line, int first, unsigned (&ranks)[CHANNELS][LEVEL_BYTES]) {
    int levels[CHANNELS][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float planes[PLANES] = {number_in(raw.luma[line], first + i)};
#if PLANES == 3
        planes[1] = chroma_at(raw, row, line, first + i, 0), planes[2] = chroma_at(raw, row, line, first + i, 1);
#endif
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            levels[channel][i] = level_of(color_value(job, planes, channel));
    }
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) pack(levels[channel], ranks[channel]);
}

// Computes the levels of a run of two lines.
__device__ __forceinline__ void make_run(const Job& job, const Raw& raw, int row, unsigned* to) {
#pragma unroll
    for (int word = 0; word < RUN / 4; word++)
#pragma unroll
        for (int line = 0; line < 2; line++) {
            unsigned ranks[CHANNELS][LEVEL_BYTES];
            make_four(job, raw, row, line, 4 * word, ranks);
#pragma unroll
            for (int i = 0; i < CHANNELS * LEVEL_BYTES; i++)
                to[(line * CHANNELS * LEVEL_BYTES + i) * LEVEL_WORDS + word] = ranks[i / LEVEL_BYTES][i % LEVEL_BYTES];
        }
}

// ---------------------------------------------------------------------------------- pieces

// A range of runs of some pairs of lines.
struct Piece {
    int first, count;  // runs
    int pairs;         // pairs of lines
};

// Position of a thread in a piece, whose runs are numbered row by row.
struct Position {
    int pair, run;
};
__device__ __forceinline__ Position position_of(const Piece& piece, int number) {
    // the quotient is at least half a run away from an integer, so an approximate one suffices
    const int pair = (int)(((float)number + 0.5f) * __fdividef(1.0f, (float)piece.count));
    return {pair, number - pair * piece.count};
}

// Loads a thread's first run of a piece.
__device__ __forceinline__ Raw load_first(const Job& job, const Frame& frame, const Lines* lines, const Piece& piece) {
    const Position own = position_of(piece, threadIdx.x);
    Raw raw = {};
    if (own.pair < piece.pairs) raw = load_run(job, frame, lines[own.pair], piece.first + own.run);
    return raw;
}

// Computes the levels of a piece; the samples of the next run are loaded during the computation of the current one.
__device__ __forceinline__ void make_levels(
    const Job& job, const Frame& frame, const Lines* lines, const Piece& piece, Raw next, unsigned* levels) {
    const Position step = position_of(piece, THREADS);
    Position own = position_of(piece, threadIdx.x);
#pragma unroll 1
    while (own.pair < piece.pairs) {
        const Raw raw = next;
        unsigned* to = levels + own.pair * (2 * CHANNELS * LEVEL_BYTES * LEVEL_WORDS) + own.run * (RUN / 4);
        const int row = lines[own.pair].row;
        own.pair += step.pair;
        own.run += step.run;
        if (own.run >= piece.count) {
            own.run -= piece.count;
            own.pair++;
        }
        if (own.pair < piece.pairs) next = load_run(job, frame, lines[own.pair], piece.first + own.run);
        make_run(job, raw, row, to);
    }
}
