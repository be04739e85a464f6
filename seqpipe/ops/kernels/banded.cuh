// Filters of bytes in fixed point, as _gaussian.py has them, by products of matrices: no sum is rounded, so their order,
// which nobody knows of such a product, changes nothing. Halves hold the weights, the bytes, and what is kept of rows.
//
// Weights of a row stand in a band along the diagonal of a matrix. Its product with columns of lines that are seen is the
// columns that are made; and these, lines by columns, are what the weights of a column are multiplied with.
//
// Row has steps, of a level, that sums of rows are rounded to.
#if IN == 0 && OUT == 0

// Of a matrix a thread has pairs of halves. With line = lane / 4 and pair = lane % 4: of 16 by 16, line `line` or 8 below
// it for odd numbers, columns 2 * pair and the next one, or 8 beyond those from number 2 on; of 16 by 8, column `line`, lines
// 2 * pair and the next one, or 8 below. Of the floats that are added to, 16 by 8, line `line` or from number 2 on 8 below,
// columns 2 * pair and the next one.
#ifdef __CUDACC__
__device__ __forceinline__ void add_product(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#else
#pragma unroll
    for (int k = 0; k < 2; k++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(left[2 * k]), "r"(left[2 * k + 1]), "r"(right[k]));
#endif
}
#endif
__device__ __forceinline__ unsigned halves_of(Real first, Real second) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second.v), "f"(first.v));
    return both;
#else
    return half_bits(first.v) | (unsigned)half_bits(second.v) << 16;
#endif
}

// How far lines are apart, in words, so that eight times four words beside each other meet no bank twice.
__device__ constexpr int apart(int words) { return words + (12 - words % 8) % 8; }

struct Banded {
    static constexpr int REACH = 8, HIGH = 2 * REACH, SIDE = 16;  // lines beside; lines and columns of a tile
    static constexpr int LEAD = REACH * STEP, SEEN = (SIDE + 2 * LEAD) / SIDE, TILES = 4, WIDTH = TILES * SIDE;
    static constexpr int WORDS = SIDE / 4, PITCH = apart((LEAD + WIDTH + LEAD) / 4);

    // While one step is done, the lines of the next are on their way.
    Seen<HIGH, LEAD, LEAD, WIDTH, LANES / 4, PITCH> seen[2];
    Strip strip;  // read again for each step, for registers are few

    // The bands: SEEN matrices of the row's weights, two of the column's. Threads take theirs again for each step, too.
    struct __align__(16) Matrix {
        unsigned words[4];
    };
    struct Bands {
        Matrix across[SEEN][LANES], down[2][LANES];
    };
    template <int COUNT>
    static __device__ __forceinline__ void take_own(const Matrix (&from)[COUNT][LANES], Matrix (&to)[COUNT]) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) to[k] = from[k][threadIdx.x % LANES];
    }
    static __device__ __forceinline__ int line_of_thread() { return threadIdx.x % LANES / 4; }
    static __device__ __forceinline__ int pair_of_thread() { return threadIdx.x % 4; }

    // The weight of what is `distance` values further, of which neighbours are `step` apart; 0 where it has none.
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

    // What is kept of sums of rows: of eight columns, words of two lines, as the columns are summed up. Less MIDDLE, so that
    // halves hold their steps of a level.
    static constexpr float MIDDLE = 128.0f;
    struct Sums {
        unsigned lines[2];
    };

    // The rows of a tile's lines, `half` of them; of SEEN tiles `first` is the number of the first.
    static __device__ __forceinline__ void sum_rows(const Matrix (&across)[SEEN], const Bytes (&given)[SEEN], int first,
                                                    Real lifted, int half, Sums (&to)[2]) {
        float sums[4] = {};
#pragma unroll
        for (int k = 0; k < SEEN; k++) add_product(sums, across[k].words, given[(first + k) % SEEN].words);
        Real rounded[4];
#pragma unroll
        for (int k = 0; k < 4; k++) rounded[k] = Real(sums[k]) + (lifted - Real(1024.0f + MIDDLE)) - lifted;
        to[0].lines[half] = halves_of(rounded[0], rounded[1]), to[1].lines[half] = halves_of(rounded[2], rounded[3]);
    }

    // The columns of a tile, finished: words of two lines.
    static __device__ __forceinline__ void sum_columns(const Matrix (&down)[2], const Sums (&upper)[2], const Sums (&lower)[2],
                                                       const Row& row, const unsigned (&centers)[2], unsigned (&to)[2]) {
        float sums[2][4] = {};
#pragma unroll
        for (int k = 0; k < 2; k++)
            add_product(sums[k], down[0].words, upper[k].lines), add_product(sums[k], down[1].words, lower[k].lines);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            Real values[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                values[i] = finished(Real(sums[i / 2][2 * k + i % 2]) + Real(MIDDLE), byte_of(centers[k], i), row);
            to[k] = word_of(values[0], values[1], values[2], values[3]);
        }
    }

    // Where the words of a thread's two lines from `line` on are, as they were; of what is not made it says some others.
    struct Centers {
        const unsigned *first, *second;
        int most;  // words beyond the first one
    };
    __device__ __forceinline__ Centers centers(const Known& known, const Strip& strip, int line, int aside) {
        const int y = line_of_thread(), x = pair_of_thread();
        if (!known.quick) {
            unsigned* const to = seen[aside].words;  // where nothing is on its way
            const int wide = min(WIDTH, known.given.length - strip.left);
            __syncwarp();
#pragma unroll 1
            for (int k = max(0, -line); k < min(HIGH, strip.tall - line); k++)
#pragma unroll 1
                for (int e = threadIdx.x % LANES; e < wide; e += LANES)
                    ((One*)(to + k * PITCH))[e] =
                        kept_of(load<IN>(known.given.at(strip.channel, strip.top + line + k, strip.left + e)));
            __syncwarp();
            return {to + y * PITCH + x, to + (y + 8) * PITCH + x, WIDTH / 4};
        }
        const int last = strip.tall - 1, within = min(strip.left + 4 * x, known.given.length - 4);
        const auto at = [&](int y) {
            return (const unsigned*)known.given.beside_at(strip.channel, strip.top + max(0, min(line + y, last)), within);
        };
        return {at(y), at(y + 8), (known.given.length - 4 - within) / 4};
    }

    // Writes the words that threads have made of the lines from `line` on. Those that were seen are needed no more.
    __device__ __forceinline__ void give(const Known& known, const Strip& strip, int line, int turn,
                                         const unsigned (&found)[TILES][2]) {
        constexpr int BESIDE = WIDTH / 4, AT_ONCE = LANES / BESIDE;
        unsigned* const aside = seen[turn].words;
        __syncwarp();
#pragma unroll
        for (int e = 0; e < TILES * 2; e++)
            aside[(line_of_thread() + e % 2 * 8) * PITCH + e / 2 * WORDS + pair_of_thread()] = found[e / 2][e % 2];
        if (!known.quick)
            return give_apart<HIGH, WIDTH>(known, strip, line, [&](int k, int x, Real) {
                return value_of<IN>(((const One*)(aside + k * PITCH))[x]);
            });
        __syncwarp();
        const int y = threadIdx.x % LANES / BESIDE, x = threadIdx.x % BESIDE, own = strip.left + 4 * x;
        const int lines = line >= 0 && own < known.made.length ? strip.tall - line - y : 0;
        const Address step = AT_ONCE * known.made.line;
        Address to = known.made.beside_at(strip.channel, strip.top + line + y, own);
#pragma unroll
        for (int k = 0; k < HIGH; k += AT_ONCE, to += step)
            if (k < lines) *(unsigned*)to = aside[(y + k) * PITCH + x];
    }

    __device__ __forceinline__ void make(const Known& known, const Row& of_image, const Bands& bands, const Strip& own) {
        const Row row = of_image;
        const Real lifted = Real(12582912.0f) / row.steps;  // a sum with it is rounded to steps
        Sums kept[TILES][2] = {};
        int turn = 0;
        __syncwarp();
        strip = own;
        __syncwarp();
        seen[0].ask(known, strip, strip.top - REACH);
#pragma unroll 1
        for (int line = -HIGH; line < strip.tall; line += HIGH, turn ^= 1) {
            const int first = strip.top + line + REACH;
            seen[turn].wait(known, strip, first);
            if (line + HIGH < strip.tall) seen[turn ^ 1].ask(known, strip, first + HIGH);
            const Centers from = centers(known, strip, line, turn ^ 1);
            Matrix across[SEEN], down[2];
            take_own(bands.across, across), take_own(bands.down, down);
            const unsigned* const words = seen[turn].line(line_of_thread()) + pair_of_thread();
            Bytes given[2][SEEN];
            unsigned found[TILES][2];
#pragma unroll
            for (int k = 0; k < SEEN - 1; k++) given[0][k].take(words[k * WORDS]), given[1][k].take(words[k * WORDS + 8 * PITCH]);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int last = tile + SEEN - 1, beyond = min(tile * WORDS, from.most);
                const unsigned centers[2] = {from.first[beyond], from.second[beyond]};
                Sums sums[2];
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    given[half][last % SEEN].take(words[last * WORDS + half * 8 * PITCH]);
                    sum_rows(across, given[half], tile, lifted, half, sums);
                }
                sum_columns(down, kept[tile], sums, row, centers, found[tile]);
                kept[tile][0] = sums[0], kept[tile][1] = sums[1];
            }
            give(known, strip, line, turn, found);
        }
    }
};

KERNEL(2, banded) {
    for_image<Banded>(job, 3, [](const Image& image, const Known& known, Banded& here) {
        __shared__ Banded::Bands bands;
        if (!image.row.acts) return leave(known);
        Banded::make_bands(image.row, bands);
        for_strips<Banded::HIGH, Banded::HIGH, Banded::WIDTH>(known, [&](const Strip& strip) {
            here.make(known, image.row, bands, strip);
        });
    });
}
#endif
