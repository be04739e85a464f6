// Filters of bytes in fixed point, as in gaussian.py, by matrix products. No sum is rounded, so the summation order, which
// is undefined for such products, does not matter. Halves hold the weights, the bytes, and intermediate sums of rows.
//
// The weights of a row form a band along the diagonal of a matrix. Its product with the columns of input lines is the columns
// of the intermediate; the weights of a column are multiplied with these as lines by columns.
//
// Row has steps: the steps, as fractions of an integer, to which sums of rows are rounded.
#if IN == 0 && OUT == 0
#include "product.cuh"

constexpr float WHOLE = 12582912.0f;          // 1.5 * 2²³: what is added to it is rounded to whole numbers
constexpr bool CHANGED = sizeof("BODY") > 1;  // whether the operator has statements

// How far lines are apart, in words, so that eight times four words beside each other meet no bank twice.
__device__ constexpr int apart(int words) { return words + (12 - words % 8) % 8; }

// What is kept of sums of rows: of eight columns, words of two lines, as the columns are summed up. Less MIDDLE, so that
// halves hold their steps of a level.
constexpr float MIDDLE = 128.0f;
struct Sums {
    unsigned lines[2];
};
struct __align__(16) Before {
    Sums halves[2];
};

// What threads keep of the lines before, of each tile: in shared memory, so that their registers let three blocks share a
// processor, or in registers. Turing has too little memory for it, four channels need too much, and what is compiled for the
// latest GPUs needs more registers anyway.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool SHARED = false;
#else
constexpr bool SHARED = STEP < 4;
#endif
constexpr int BANDED_BLOCKS = SHARED && !MANY_REGISTERS ? 3 : 2, TILES = 4;
template <bool> struct Keeper {
    Before kept[TILES][LANES];
    __device__ __forceinline__ Before& of(Before (&)[TILES], int tile) { return kept[tile][threadIdx.x % LANES]; }
};
template <> struct Keeper<false> {
    __device__ __forceinline__ Before& of(Before (&own)[TILES], int tile) { return own[tile]; }
};

struct Banded {
    static constexpr int REACH = 8, HIGH = 2 * REACH, SIDE = 16;  // lines beside; lines and columns of a tile
    static constexpr int LEAD = REACH * STEP, SEEN = (SIDE + 2 * LEAD) / SIDE, WIDTH = TILES * SIDE;
    static constexpr int WORDS = SIDE / 4, PITCH = apart((LEAD + WIDTH + LEAD) / 4);

    // While one step is done, the lines of the next are on their way.
    Seen<HIGH, LEAD, LEAD, WIDTH, LANES / 4, PITCH> seen[2];
    Keeper<SHARED> keeper;
    Strip strip;  // read again for each step, for registers are few

    // The bands: SEEN matrices of the row's weights, two of the column's. Threads take theirs again for each step, too.
    struct __align__(16) Matrix {
        unsigned words[4];
    };
    struct Bands {
        Matrix across[SEEN][LANES], down[2][LANES];
    };
    template <int COUNT>
    static __device__ __forceinline__ void load_values(const Matrix (&from)[COUNT][LANES], Matrix (&to)[COUNT]) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) to[k] = from[k][threadIdx.x % LANES];
    }
    static __device__ __forceinline__ int line_of_thread() { return threadIdx.x % LANES / 4; }
    static __device__ __forceinline__ int pair_of_thread() { return threadIdx.x % 4; }

    // The weight of what is `distance` values further, of which neighbors are `step` apart; 0 where it has none.
    static __device__ __forceinline__ Real weight_at(const Row& row, int number, int distance, int step) {
        const unsigned far = distance + LEAD * SIDE * step, tap = far / step - LEAD * SIDE + row.taps[number] / 2;
        return far % step || tap >= (unsigned)row.taps[number] ? Real(0.0f) : row.weights[number * MOST_TAPS + tap];
    }
    // Columns are in such an order that a thread sees four of a word, and makes four of one.
    static __device__ __forceinline__ unsigned fragment(const Row& row, int matrix, int number, int lane) {
        const int line = lane / 4, pair = lane % 4, below = number % 2, beyond = number / 2;
        if (matrix < SEEN) {
            const int distance = matrix * SIDE - LEAD + 4 * pair + 2 * beyond - (line / 2 * 4 + 2 * below + line % 2);
            return halves_of(weight_at(row, 1, distance, STEP), weight_at(row, 1, distance + 1, STEP));
        }
        const int distance = (matrix - SEEN) * HIGH - REACH + 2 * pair + 8 * beyond - (line + 8 * below);
        return halves_of(weight_at(row, 0, distance, 1), weight_at(row, 0, distance + 1, 1));
    }
    // All threads of a block make them.
    static __device__ __forceinline__ void make_bands(const Row& row, Bands& bands) {
        unsigned* const words = bands.across[0][0].words;
        for (int e = threadIdx.x; e < (int)(sizeof(Bands) / sizeof(unsigned)); e += THREADS)
            words[e] = fragment(row, e / 4 / LANES, e % 4, e / 4 % LANES);
        __syncthreads();
    }

    // A word of bytes as the lowest bits of 1024 in halves.
    struct Bytes {
        unsigned words[2];
        __device__ __forceinline__ void take(unsigned word) {
            words[0] = __byte_perm(word, 0x64646464, 0x4140), words[1] = __byte_perm(word, 0x64646464, 0x4342);
        }
    };

    // The rows of a tile's lines, `half` of them; of SEEN tiles `first` is the number of the first.
    static __device__ __forceinline__ void sum_rows(const Matrix (&across)[SEEN], const Bytes (&given)[SEEN], int first,
                                                    Real lifted, int half, Sums (&to)[2]) {
        float sums[4] = {};
#pragma unroll
        for (int k = 0; k < SEEN; k++) product(sums, across[k].words, given[(first + k) % SEEN].words, sums);
        Real rounded[4];
#pragma unroll
        for (int k = 0; k < 4; k++) rounded[k] = Real(sums[k]) + (lifted - Real(1024.0f + MIDDLE)) - lifted;
        to[0].lines[half] = halves_of(rounded[0], rounded[1]), to[1].lines[half] = halves_of(rounded[2], rounded[3]);
    }

    // A word of what is made of sums of columns, which are within levels unless the operator changes them.
    static __device__ __forceinline__ unsigned word_from(const Real (&sums)[4], unsigned centers, const Row& row) {
        if constexpr (CHANGED) {
            Real values[4];
#pragma unroll
            for (int i = 0; i < 4; i++) values[i] = finished(sums[i] + Real(MIDDLE), byte_of(centers, i), row);
            return word_of(values[0], values[1], values[2], values[3]);
        } else {
            unsigned bits[4];
#pragma unroll
            for (int i = 0; i < 4; i++) bits[i] = __float_as_uint((sums[i] + Real(WHOLE + MIDDLE)).v);
            return lowest_bytes(bits);
        }
    }

    // The columns of a tile, finished: words of two lines.
    static __device__ __forceinline__ void sum_columns(const Matrix (&down)[2], const Sums (&upper)[2], const Sums (&lower)[2],
                                                       const Row& row, const unsigned (&centers)[2], unsigned (&to)[2]) {
        float sums[2][4] = {};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            product(sums[k], down[0].words, upper[k].lines, sums[k]);
            product(sums[k], down[1].words, lower[k].lines, sums[k]);
        }
#pragma unroll
        for (int k = 0; k < 2; k++)
            to[k] = word_from({sums[0][2 * k], sums[0][2 * k + 1], sums[1][2 * k], sums[1][2 * k + 1]}, centers[k], row);
    }

    // Puts the words of a tile where no thread needs what was seen any more: at the first of its columns, or before it.
    __device__ __forceinline__ void put(int turn, int tile, const unsigned (&found)[2]) {
        unsigned* const to = seen[turn].words + line_of_thread() * PITCH + tile * WORDS + pair_of_thread();
        __syncwarp();
        to[0] = found[0], to[8 * PITCH] = found[1];
    }

    // Writes the words of the lines from `line` on.
    __device__ __forceinline__ void store_lines(const ImageInfo& info, const Strip& strip, int line, int turn) {
        constexpr int BESIDE = WIDTH / 4, AT_ONCE = LANES / BESIDE;
        const unsigned* const aside = seen[turn].words;
        if (!info.aligned)
            return store_unaligned<HIGH, WIDTH>(info, strip, line, [&](int k, int x, Real) {
                return value_of<IN>(((const SharedValue*)(aside + k * PITCH))[x]);
            });
        __syncwarp();
        const int y = threadIdx.x % LANES / BESIDE, x = threadIdx.x % BESIDE, own = strip.left + 4 * x;
        const int lines = line >= 0 && own < info.output.length ? strip.tall - line - y : 0;
        const Address step = AT_ONCE * info.output.line;
        Address to = info.output.contiguous_at(strip.channel, strip.top + line + y, own);
        unsigned words[HIGH / AT_ONCE];
#pragma unroll
        for (int k = 0; k < HIGH / AT_ONCE; k++) words[k] = aside[(y + k * AT_ONCE) * PITCH + x];
#pragma unroll
        for (int k = 0; k < HIGH / AT_ONCE; k++, to += step)
            if (k * AT_ONCE < lines) *(unsigned*)to = words[k];
    }

    __device__ __forceinline__ void make(const ImageInfo& info, const Row& of_image, const Bands& bands, const Strip& own) {
        const Row row = of_image;
        const Real lifted = Real(WHOLE) / row.steps;  // a sum with it is rounded to steps
        unsigned centers[TILES][2] = {};  // of a thread's two lines: the lower one of a step is the upper one of the next
        Before kept[TILES];
        int turn = 0;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) keeper.of(kept, tile) = {};
        __syncwarp();
        strip = own;
        __syncwarp();
        seen[0].prefetch(info, strip, strip.top - REACH);
#pragma unroll 1
        for (int line = -HIGH; line < strip.tall; line += HIGH, turn ^= 1) {
            const int first = strip.top + line + REACH;
            seen[turn].wait(info, strip, first);
            if (line + HIGH < strip.tall) seen[turn ^ 1].prefetch(info, strip, first + HIGH);
            Matrix across[SEEN];
            load_values(bands.across, across);
            const unsigned* const words = seen[turn].line(line_of_thread()) + pair_of_thread();
            Bytes given[2][SEEN];
#pragma unroll
            for (int k = 0; k < SEEN - 1; k++) given[0][k].take(words[k * WORDS]), given[1][k].take(words[k * WORDS + 8 * PITCH]);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int last = tile + SEEN - 1;
                const unsigned* const center = words + LEAD / 4 + tile * WORDS;
                centers[tile][1] = center[0];
                const Before before = keeper.of(kept, tile);
                Before now;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    given[half][last % SEEN].take(words[last * WORDS + half * 8 * PITCH]);
                    sum_rows(across, given[half], tile, lifted, half, now.halves);
                }
                unsigned found[2];
                Matrix down[2];
                load_values(bands.down, down);
                sum_columns(down, before.halves, now.halves, row, centers[tile], found);
                keeper.of(kept, tile) = now, centers[tile][0] = center[8 * PITCH];
                put(turn, tile, found);
            }
            store_lines(info, strip, line, turn);
        }
    }
};

KERNEL(BANDED_BLOCKS, banded) {
    for_image<Banded, BANDED_BLOCKS * 2>(job, 3, [](const Image& image, const ImageInfo& info, Banded& here) {
        __shared__ Banded::Bands bands;
        if (!image.row.acts) return copy_strips(info);
        for_strips<Banded::HIGH, Banded::HIGH, Banded::WIDTH>(
            info, [&] { Banded::make_bands(image.row, bands); },
            [&](const Strip& strip) { here.make(info, image.row, bands, strip); });
    });
}
#endif
