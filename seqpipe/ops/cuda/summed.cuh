// The common part of filters of columns and rows. For few weights, a warp computes a strip: it filters the rows of the copied
// lines, then the columns, whose sums its threads keep from line to line. Otherwise a block computes a tile: LANES input lines
// at a time are copied into shared memory and their rows filtered, then the columns.
//
// Row has reach, the number of the kernel that its windows need.
#include "window.cuh"

constexpr int TERMS = sizeof(Row::taps) / (2 * sizeof(int));
constexpr int MOST_TAPS = sizeof(Row::weights) / (2 * TERMS * sizeof(Real));

__device__ __forceinline__ Real finished(Real value, Real center, const Row& row) {
    BODY
    return value;
}

// Adds the products of a value and the weights, which are the same from either end, to the sums that it is part of: to
// that at `at` as the first, to those STEPS before it as the second and so on. Sums begin with their first product.
template <int TAPS, int STEPS, class By, int COUNT>
__device__ __forceinline__ void spread(Real value, const By (&weights)[(TAPS + 1) / 2], int at, Real (&sums)[COUNT]) {
    Real products[(TAPS + 1) / 2];
#pragma unroll
    for (int k = 0; k < (TAPS + 1) / 2; k++) products[k] = WEIGHED ? product(value, weights[k]) : value;
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        const int sum = at - k * STEPS;
        if (sum < 0 || sum >= COUNT) continue;
        const Real part = products[k < TAPS - 1 - k ? k : TAPS - 1 - k];
        sums[sum] = k ? sums[sum] + part : part;
    }
}

// Where both windows of a term are small: the column of the first term has DOWN taps and its row ACROSS, the second's
// have as many the other way round. If they are very small, each thread makes the rows of its own values itself.
template <int DOWN, int ACROSS> struct Near {
    static constexpr int MOST = DOWN > ACROSS ? DOWN : ACROSS, REACH = MOST / 2;
    static constexpr int LEAD = (REACH * STEP + EACH - 1) / EACH * EACH;  // values before the strip's, in whole words
    static constexpr int BEYOND = (MOST - 1 - REACH) * STEP, LINE = Seen<1, LEAD, BEYOND>::PITCH;
    static constexpr bool ALONE = MOST <= 3;
    static constexpr int ROWS = rows_of((ALONE ? 2 * LINE + STRIP / 2 : LINE + TERMS * (STRIP + PER_LANE)) * sizeof(Real) + 16);
    static constexpr int APART = ALONE ? ROWS / 2 : ROWS;  // lines of results that lie apart, at a time
    static constexpr int SEGMENT = ALONE ? PER_LANE : STRIP * ROWS / LANES;
    static __device__ constexpr int down(int term) { return term ? ACROSS : DOWN; }
    static __device__ constexpr int across(int term) { return term ? DOWN : ACROSS; }

    typedef typename Weighs<MOST <= 7>::T By;  // more do not fit into registers

    // Half of the weights: the other half is the same. They are read again for each step, for registers are few.
    static constexpr int HALF = (MOST + 1) / 2;
    Real weights[2 * TERMS][HALF];
    __device__ __forceinline__ void take_weights(const Row& row) {
        for (int e = threadIdx.x % LANES; e < 2 * TERMS * HALF; e += LANES)
            weights[e / HALF][e % HALF] = row.weights[e / HALF * MOST_TAPS + e % HALF];
        __syncwarp();
    }
    template <class T, int COUNT> __device__ __forceinline__ void get(int number, T (&to)[COUNT]) const {
#pragma unroll
        for (int k = 0; k < COUNT; k++) to[k] = T(weights[number][k]);
    }
    struct Rows {
        By first[(ACROSS + 1) / 2], second[(DOWN + 1) / 2];
    };
    struct Columns {
        Real first[(DOWN + 1) / 2], second[(ACROSS + 1) / 2];
    };
    __device__ __forceinline__ Rows rows() const {
        Rows found;
        get(1, found.first), get(2 * TERMS - 1, found.second);
        return found;
    }
    __device__ __forceinline__ Columns columns() const {
        Columns found;
        get(0, found.first), get(2 * TERMS - 2, found.second);
        return found;
    }

    Quad sums[ALONE ? 1 : TERMS][APART][ALONE ? LANES : LANES + 1];
    Seen<ROWS, LEAD, BEYOND> seen[ALONE ? 2 : 1];

    // The row of a segment of a line, which begins at `from`.
    template <int TAPS>
    static __device__ __forceinline__ void sum_row(const unsigned* from, const By (&weights)[(TAPS + 1) / 2], Quad* to) {
        constexpr int FIRST = LEAD - TAPS / 2 * STEP, COUNT = SEGMENT + (TAPS - 1) * STEP;
        unsigned words[2];  // the other one is on its way
        Real found[SEGMENT];
        words[FIRST / EACH % 2] = from[FIRST / EACH];
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const int number = (FIRST + k) / EACH, at = (FIRST + k) % EACH, done = k - (TAPS - 1) * STEP;
            if ((k == 0 || at == 0) && number < (FIRST + COUNT - 1) / EACH) words[(number + 1) % 2] = from[number + 1];
            const unsigned word = words[number % 2];
            spread<TAPS, STEP>(WEIGHED ? factor_in(word, at, By()) : value_in(word, at), weights, k, found);
            if (done >= 0 && done % PER_LANE == PER_LANE - 1) to[done / PER_LANE] = quad_of(found + done - PER_LANE + 1);
        }
    }
    static __device__ __forceinline__ Quad quad_of(const Real* values) {
        return {values[0], values[1], values[2], values[3]};
    }

    __device__ __forceinline__ void sum_rows() {
        const Rows weights = rows();
        const int y = threadIdx.x % ROWS, segment = threadIdx.x % LANES / ROWS, at = segment * (SEGMENT / PER_LANE);
        const unsigned* const from = seen[0].line(y) + segment * (SEGMENT / EACH);
        sum_row<across(0)>(from, weights.first, &sums[0][y][at]);
        if constexpr (TERMS > 1) sum_row<across(1)>(from, weights.second, &sums[TERMS - 1][y][at]);
        __syncwarp();
    }

    // The columns: what a line adds to the sums of a thread's own values.
    template <int TERM, int KEPT, int COUNT>
    static __device__ __forceinline__ void add_line(const Quad& own, int line, const Real (&weights)[KEPT],
                                                    Real (&running)[PER_LANE][COUNT]) {
        constexpr int TAPS = down(TERM), LATE = (MOST - TAPS) / 2;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) spread<TAPS, 1>(own.values[k], weights, line + MOST - 1 - LATE, running[k]);
    }
    template <int COUNT>
    __device__ __forceinline__ void add_line(int turn, int line, const Rows& rows, const Columns& columns,
                                             Real (&running)[TERMS][PER_LANE][COUNT]) const {
        const int lane = threadIdx.x % LANES;
        Quad own, other;
        if constexpr (ALONE) {
            const unsigned* const from = seen[turn].line(line) + lane * (PER_LANE / EACH);
            sum_row<across(0)>(from, rows.first, &own);
            if constexpr (TERMS > 1) sum_row<across(1)>(from, rows.second, &other);
        } else {
            own = sums[0][line][lane];
            if constexpr (TERMS > 1) other = sums[TERMS - 1][line][lane];
        }
        add_line<0>(own, line, columns.first, running[0]);
        if constexpr (TERMS > 1) add_line<TERMS - 1>(other, line, columns.second, running[TERMS - 1]);
    }

    __device__ __forceinline__ void make(const ImageInfo& info, const Row& of_image, const Strip& strip) {
        const Row row = of_image;  // by value: else it is read again after each result that is written
        const unsigned lines = strip.first_value() < info.output.length ? strip.tall : 0;
        Real running[TERMS][PER_LANE][MOST - 1 + ROWS];
#pragma unroll
        for (int e = 0; e < TERMS * PER_LANE * (MOST - 1); e++)
            running[e / PER_LANE / (MOST - 1)][e / (MOST - 1) % PER_LANE][e % (MOST - 1)] = 0.0f;
        const auto finish = [&](int k, int x, Real center) {
            return finished(sums[0][k][x / PER_LANE].values[x % PER_LANE], center, row);
        };
        int turn = 0;
        __syncwarp();
        take_weights(of_image);
        seen[0].prefetch(info, strip, strip.top - REACH);
#pragma unroll 1
        for (int line = 1 - MOST; line < strip.tall; line += ROWS, turn ^= ALONE) {
            const int first = strip.top + line + MOST - 1 - REACH;
            seen[turn].wait(info, strip, first);
            if constexpr (!ALONE) sum_rows();
            if (line + ROWS < strip.tall) seen[turn ^ ALONE].prefetch(info, strip, first + ROWS);
            Address from = info.input.contiguous_at(strip.channel, strip.top + line, strip.first_value());
            Address to = info.output.contiguous_at(strip.channel, strip.top + line, strip.first_value());
            const bool aligned = info.aligned;
            const Rows rows = ALONE ? this->rows() : Rows{};
            const Columns columns = this->columns();
#pragma unroll
            for (int k = 0; k < ROWS; k++, from += info.input.line, to += info.output.line) {
                add_line(turn, k, rows, columns, running);
                Real values[PER_LANE], centers[PER_LANE];
#pragma unroll
                for (int i = 0; i < PER_LANE; i++) {
                    values[i] = running[0][i][k];
                    if (TERMS > 1) values[i] = values[i] + running[TERMS - 1][i][k];
                }
                if (!opaque(aligned)) {
                    sums[0][k % APART][threadIdx.x % LANES] = quad_of(values);
                    if (k % APART == APART - 1) store_unaligned<APART>(info, strip, line + k + 1 - APART, finish);
                } else if ((unsigned)(line + k) < lines) {
                    load_values(from, centers);
#pragma unroll
                    for (int i = 0; i < PER_LANE; i++) values[i] = finished(values[i], centers[i], row);
                    store_values(to, values);
                }
            }
#pragma unroll
            for (int e = 0; e < TERMS * PER_LANE * (MOST - 1); e++) {
                Real(&sums)[MOST - 1 + ROWS] = running[e / PER_LANE / (MOST - 1)][e / (MOST - 1) % PER_LANE];
                sums[e % (MOST - 1)] = sums[e % (MOST - 1) + ROWS];
            }
        }
    }
};

template <int DOWN, int ACROSS> __device__ __forceinline__ void make_near(const Image& image, const ImageInfo& info, WarpMemory& memory) {
    typedef Near<DOWN, ACROSS> Here;
    static_assert(sizeof(Here) <= BYTES, "fits");
    Here& here = *(Here*)&memory;
    for_strips<Here::ROWS, Here::MOST - 1>(info, [&](const Strip& strip) { here.make(info, image.row, strip); });
}

KERNEL(MANY_REGISTERS ? 2 : 3, few) {
    for_image(job, 0, [](const Image& image, const ImageInfo& info, WarpMemory& memory) {
        if (!image.row.acts) return copy_strips(info);
        make_near<3, TERMS == 1 ? 3 : 1>(image, info, memory);
    });
}

KERNEL(2, near) {
    for_image(job, 1, [](const Image& image, const ImageInfo& info, WarpMemory& memory) {
        if constexpr (TERMS > 1) {
            make_near<3, 3>(image, info, memory);
        } else {
            constexpr int OTHER = WEIGHED ? 11 : 5;
            if (image.row.taps[0] == 7)
                make_near<7, 7>(image, info, memory);
            else
                make_near<OTHER, OTHER>(image, info, memory);
        }
    });
}

// A tile of a block: lines as they are, at x * PITCH + y; their sums, at y * PITCH + x; weights.
struct Shared {
    static constexpr int HIGH = 64, PITCH = LANES + 1, SHARE = BROAD / GROUPS, HIGH_SHARE = HIGH / GROUPS;

    Real taken[(BROAD + MOST_TAPS - 1) * PITCH], sums[(HIGH + MOST_TAPS - 1) * PITCH], column[MOST_TAPS], across[MOST_TAPS];

    // The rows of a tile's lines, and of those that its columns see beyond it.
    __device__ __forceinline__ void sum_rows(const Image& image, int channel, Tile tile, int tall, int wide) {
        const int lines = tile.tall + tall - 1;
        for (int first = 0; first < lines; first += LANES) {
            const int count = min(LANES, lines - first);
            const Tile seen = {tile.top - tall / 2 + first, tile.left - wide / 2, count, tile.wide + wide - 1};
            load_tile<1, PITCH, 0, LANES>(image, channel, seen, taken, [](Real value) { return value; });
            // so many threads beside each other that few have nothing to do
            const int bits = count > 16 ? 5 : count > 8 ? 4 : 3;
            const int y = threadIdx.x & ((1 << bits) - 1), x = (threadIdx.x >> bits) * SHARE;
            if (y >= count || x >= tile.wide) continue;
            Real found[SHARE];
            begin(found);
            add_products(found, taken + (x * PITCH + y), PITCH, across, wide);
#pragma unroll
            for (int i = 0; i < SHARE; i++) sums[(first + y) * PITCH + x + i] = found[i];
        }
        __syncthreads();
    }

    __device__ __forceinline__ void make(const Image& image, int channel, Tile tile) {
        const Row& row = image.row;
        const int x = threadIdx.x % LANES, y = threadIdx.x / LANES * HIGH_SHARE;
        Real total[HIGH_SHARE];
#pragma unroll 1
        for (int term = 0; term < TERMS; term++) {
            const Real *of_column = row.weights + 2 * term * MOST_TAPS, *of_row = of_column + MOST_TAPS;
            const int tall = row.taps[2 * term], wide = row.taps[2 * term + 1];
            __syncthreads();
            for (int k = threadIdx.x; k < tall; k += THREADS) column[k] = of_column[k];
            for (int k = threadIdx.x; k < wide; k += THREADS) across[k] = of_row[k];
            sum_rows(image, channel, tile, tall, wide);
            Real found[HIGH_SHARE];
            begin(found);
            if (x < tile.wide && y < tile.tall) add_products(found, sums + (y * PITCH + x), PITCH, column, tall);
#pragma unroll
            for (int i = 0; i < HIGH_SHARE; i++) total[i] = term ? total[i] + found[i] : found[i];
        }
        if (x >= tile.wide) return;
#pragma unroll
        for (int i = 0; i < HIGH_SHARE; i++) {
            if (y + i >= tile.tall) break;
            const int line = tile.top + y + i, at = tile.left + x;
            const Real center = load<IN>(image.from(line, at) + (Address)(channel * image.item.in_strides[4]));
            const Address to = image.to(line, at) + (Address)(channel * image.item.out_strides[4]);
            store<OUT>(to, finished(total[i], center, row));
        }
    }
};

KERNEL(TERMS > 1 || MANY_REGISTERS ? 3 : 4, far) {
    __shared__ Shared shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (image.row.reach != 2) return;
    for (int place = blockIdx.x; place < tiles_of<Shared::HIGH>(image.item); place += gridDim.x)
        for (int channel = 0; channel < CHANNELS_OF(image); channel++)
            shared.make(image, channel, tile_of<Shared::HIGH>(image.item, place));
}
