// A block's tile of resampled values, some rows at a time. Its threads sum the columns of the source into shared memory,
// several neighbors each; then each thread computes pixels from those sums.

constexpr int ROOM = 9280, DOWN = 320;  // ROOM for all sums and weights of columns, as numbers
constexpr int TAPS_AT_ONCE = 4, ROWS_AT_ONCE = 2;  // how much of the source a thread asks for before it makes use of it

#include "shares.cuh"

// A row of the result: where it goes, and the sum of its lines' weights.
struct __align__(16) Made {
    Address to;
    Real height;
};
// A column of the result: the sum of its weights, and its first tap.
struct __align__(8) Column {
    Real width;
    int place;
};
struct __align__(16) Sums {
    Real values[WORD];
};

// What a block does at a time: columns of the source from `begin` on, whose sums for a row of the result begin at `first`
// of that row's part of shared memory, which has `pitch` numbers. `count` columns of the result are made of them, from
// `left` on, whose weights take `weights` numbers each: odd ones, so that those of neighbors are in different banks. Unless
// they are all `inside`, some of their taps are beyond the border.
struct Part {
    int begin, end, first, pitch, left, count, weights;
    bool by_words, packed, inside;
};

// What a block has in shared memory.
struct __align__(16) Shared {
    // Sums of columns of the source, for some rows of the result, a pixel's values side by side; and from the other end on
    // the weights along the row, those of a column of the result side by side. The fewer these are, the more rows there are.
    Sums sums[ROOM / WORD];
    Weight weights[DOWN];    // of the lines of the source, those of a row of the result after each other
    Address lines[DOWN];     // how far they are from the first one
    Made rows[TALL];
    Column columns[WIDE];
    Own own;
    Part part;
    int most;  // columns of the result that there is room for at once

    __device__ __forceinline__ Real* across(int column) { return sums->values + (ROOM - (column + 1) * part.weights); }
    __device__ __forceinline__ const Real* across(int column) const { return sums->values + (ROOM - (column + 1) * part.weights); }
    // How many rows of the result there is room for at once.
    __device__ __forceinline__ int rows_at_once() const { return max(1, (ROOM - part.count * part.weights) / part.pitch); }
    __device__ __forceinline__ void begin();
    __device__ __forceinline__ void make();
};

__device__ __forceinline__ int limited(int place, int length) { return min(max(place, 0), length - 1); }

// The first tap of a column. Where what is beyond the border is cut off, so many others take its place that all are inside;
// but not of floats, which may be no numbers: times 0 these are none, and they are not what the border is made of.
__device__ __forceinline__ int place_of(const Axis& across, const Start& start) {
    const int last = across.length - across.taps;
    return IN < 3 && across.cut && last >= 0 ? min(max(start.place, 0), last) : start.place;
}

// Where the columns of the source lie that some columns of the result are made of.
__device__ __forceinline__ Part part_of(const Own& own, int left, int count) {
    const Image image = own.image();
    const Axis& across = own.across;
    const long long *in = image.item.in_strides, *out = image.item.out_strides;
    const int one = place_of(across, start_of(across, left)), other = place_of(across, start_of(across, left + count - 1));
    const int first = min(one, other), last = max(one, other) + across.taps - 1;
    Part part = {limited(first, across.length), limited(last, across.length) + 1};
    part.by_words = IN == 0 && in[4] == 1 && in[3] == TOGETHER && image.in % WORD == 0 && in[2] % WORD == 0;
    part.packed = out[4] == 1 && out[3] == TOGETHER && out[2] % WORD == 0 && image.to(0, left) % WORD == 0 && count % 4 == 0;
    part.first = part.by_words ? part.begin * TOGETHER % WORD : 0;
    const int values = (part.end - part.begin) * TOGETHER + part.first;
    part.pitch = part.by_words ? (values + WORD - 1) / WORD * WORD : values;
    part.inside = part.begin == first && part.end == last + 1;
    part.left = left, part.count = count, part.weights = across.taps | 1;
    return part;
}

// The weights of the columns of a part.
//
// Those that are cut off are 0, and so are those that take their place: the first ones change places with the last ones.
__device__ __forceinline__ void weigh_columns(Shared& shared) {
    static_assert(WIDE <= THREADS, "a thread has a column");
    const Axis& across = shared.own.across;
    const int x = threadIdx.x, taps = across.taps;
    if (x >= shared.part.count) return;
    const Start start = start_of(across, shared.part.left + x);
    const int place = place_of(across, start), moved = min(max(place - start.place, -taps), taps);
    Real* const weights = shared.across(x);
    Real sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < taps; i++) {
        asm volatile("" ::: "memory");  // as for a pixel alone
        const Real weight = tap_of(across, start, i).weight;
        const int at = i - moved;
        weights[at < 0 ? at + taps : at < taps ? at : at - taps] = weight;
        sum = sum + weight;
    }
    shared.columns[x] = {sum, place};
}

// The weights of some rows of the result, by threads that mostly have no column.
__device__ __forceinline__ void weigh_rows(int top, int rows, Shared& shared) {
    static_assert(TALL <= THREADS, "a thread has a row");
    const Axis& down = shared.own.down;
    const int row = THREADS - 1 - threadIdx.x, first = row * down.taps;
    if (row >= rows) return;
    const Image image = shared.own.image();
    const Start start = start_of(down, top + row);
    Real sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < down.taps; j++) {
        const Tap tap = tap_of(down, start, j);
        shared.weights[first + j] = tap.weight;
        shared.lines[first + j] = (Address)(tap.place * image.item.in_strides[2]);
        sum = sum + tap.weight;
    }
    shared.rows[row] = {image.to(top + row, shared.part.left), sum};
}

// The words that stand below each other in so many lines: they are all read before the first of them is used.
template <int N> __device__ __forceinline__ void read(unsigned (&words)[N], Address column, const Address* lines) {
#pragma unroll
    for (int j = 0; j < N; j++) words[j] = __ldg((const unsigned*)(column + lines[j]));
}

// Adds what they count for.
template <int N>
__device__ __forceinline__ void add(Sums& sums, const unsigned (&words)[N], const Weight* weights, bool more) {
#pragma unroll
    for (int j = 0; j < N; j++) {
        const Weight weight = weights[j];
#pragma unroll
        for (int k = 0; k < WORD; k++) {
            const Real product = weight.times(words[j], k);  // which is never -0
            sums.values[k] = j || more ? sums.values[k] + product : product;
        }
    }
}

// Weighted sums of lines, WORD bytes of each at a time, for rows of the result from `top` on.
template <int N> __device__ __forceinline__ void sum_words(Taps<N>, int top, int rows, Shared& shared) {
    constexpr int ROWS = N < TAPS_AT_ONCE ? ROWS_AT_ONCE : 1;
    const int words = shared.part.pitch / WORD;
    const Address from = shared.own.in + (Address)(shared.part.begin * TOGETHER - shared.part.first);
    for_columns(words, [&](int word, int row, int step) {
        const Address column = from + (Address)(word * WORD);
#pragma unroll 1
        for (; row < rows; row += ROWS * step) {
            unsigned bytes[ROWS][N];
#pragma unroll
            for (int r = 0; r < ROWS; r++) read(bytes[r], column, shared.lines + (top + row_of(row, r * step, rows)) * N);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int here = row_of(row, r * step, rows);
                Sums sums;
                add(sums, bytes[r], shared.weights + (top + here) * N, false);
                shared.sums[here * words + word] = sums;
            }
        }
    });
}
__device__ __forceinline__ void sum_words(Taps<0> some, int top, int rows, Shared& shared) {
    const int taps = shared.own.down.taps, words = shared.part.pitch / WORD;
    const Address from = shared.own.in + (Address)(shared.part.begin * TOGETHER - shared.part.first);
    for_columns(words, [&](int word, int row, int step) {
        const Address column = from + (Address)(word * WORD);
#pragma unroll 1
        for (; row < rows; row += step) {
            Sums sums = {};
            for_taps(some, taps, [&](auto count, int first) {
                unsigned bytes[count.COUNT];
                read(bytes, column, shared.lines + (top + row) * taps + first);
                add(sums, bytes, shared.weights + (top + row) * taps + first, true);
            });
            shared.sums[row * words + word] = sums;
        }
    });
}

// The same of one value at a time, whatever lies where.
__device__ __forceinline__ void sum_values(int top, int rows, Shared& shared) {
    const Image image = shared.own.image();
    const int taps = shared.own.down.taps;
    const long long* const strides = image.item.in_strides;
    const int count = shared.part.end - shared.part.begin, pitch = shared.part.pitch;
    const Address begin = image.from(0, shared.part.begin);
    const bool contiguous = strides[4] < strides[3];
    for_columns(pitch, [&](int at, int row, int step) {
        const int column = contiguous ? at / TOGETHER : at % count, channel = contiguous ? at % TOGETHER : at / count;
        const Address from = begin + (Address)(column * strides[3] + channel * strides[4]);
#pragma unroll 1
        for (; row < rows; row += step) {
            const int of_row = (top + row) * taps;
            Real sum = 0.0f;
            for_taps(Taps<0>(), taps, [&](auto some, int first) {
                Real values[some.COUNT];
#pragma unroll
                for (int j = 0; j < some.COUNT; j++) values[j] = load<IN>(from + shared.lines[of_row + first + j]);
#pragma unroll
                for (int j = 0; j < some.COUNT; j++) sum = sum + shared.weights[of_row + first + j].weight * values[j];
            });
            shared.sums->values[row * pitch + column * TOGETHER + channel] = sum;
        }
    });
}

// Writes the three bytes of each of four neighboring threads, which have four pixels side by side, as words. All threads of
// a warp do: to wait for some of them only takes longer than a pixel.
__device__ __forceinline__ void give_packed(Address to, int lane, Real (&pixel)[TOGETHER]) {
    const unsigned own = word_of(pixel[0], pixel[1 % TOGETHER], pixel[2 % TOGETHER], 0.0f);
    const unsigned next = __shfl_down_sync(~0u, own, 1, 4);
    if (lane < 3) *(unsigned*)to = __byte_perm(own, next, lane == 0 ? 0x4210 : lane == 1 ? 0x5421 : 0x6542);
}

// Adds the taps of a column, whose weights are `own`, or if there are none, in `weights`.
template <int N>
__device__ __forceinline__ void add(Real (&pixel)[TOGETHER], Taps<N> known, int taps, const Real* own, const Real* weights,
                                    const Real* at) {
    for_taps(known, taps, [&](auto some, int first) {
#pragma unroll
        for (int i = 0; i < some.COUNT; i++)
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const Real product = (N ? own[i] : weights[first + i]) * at[(first + i) * TOGETHER + k];
                // of bytes, there is always one that is not -0
                pixel[k] = N && i == 0 && IN == 0 ? product : pixel[k] + product;
            }
    });
}

// Some rows of the result.
template <int N> __device__ __forceinline__ void make(Taps<N> known, const Made* made, int rows, const Shared& shared) {
    const Item& item = *shared.own.item;
    const KeptRow parameters = *shared.own.row;
    const int taps = shared.own.across.taps, length = shared.own.across.length;
#if !defined(MADE) && OUT == 0 && TOGETHER == 3
    const bool any_packed = shared.part.packed;
#else
    constexpr bool any_packed = false;
#endif
    for_columns(shared.part.count, [&](int x, int row, int step) {
        const bool packed = any_packed && step == 1 && (x | 31) < shared.part.count;
        const int lane = x % 4;  // which is that of the thread, if `packed`
        const Column column = shared.columns[x];
        const Real* const weights = shared.across(x);
        const int begin = shared.part.begin, pitch = shared.part.pitch;
        const Real* const all = shared.sums->values + shared.part.first;
        const long long of_channel = item.out_strides[4];
        const Address to_column = (Address)(x * item.out_strides[3] + (packed ? lane : 0));
        const bool inside = N || (column.place >= 0 && column.place + taps <= length);
        Real own[N ? N : 1];
#pragma unroll
        for (int i = 0; i < N; i++) own[i] = weights[i];
#pragma unroll 1
        for (; row < rows; row += step) {
            const Real* const sums = all + row * pitch;
            Real pixel[TOGETHER] = {};
            if (inside) {
                add(pixel, known, taps, own, weights, sums + (column.place - begin) * TOGETHER);
            } else {
#pragma unroll 1
                for (int i = 0; i < taps; i++) {
                    const Real* const at = sums + (limited(column.place + i, length) - begin) * TOGETHER;
#pragma unroll
                    for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] + weights[i] * at[k];
                }
            }
            const Real share = reciprocal(made[row].height * column.width);
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] * share;
            const Address to = made[row].to + to_column;
            if (packed)
                give_packed(to, lane, pixel);
            else
                finish(to, of_channel, parameters, pixel);
        }
    });
}

// Some columns of a tile.
__device__ __forceinline__ void make_part(Shared& shared) {
    const Tile& tile = shared.own.tile;
    const int taps = shared.own.down.taps, weighed = min(TALL, DOWN / taps);
    weigh_columns(shared);
#pragma unroll 1
    for (int begin = 0; begin < tile.tall; begin += weighed) {
        const int known = min(weighed, tile.tall - begin), most = shared.rows_at_once();
        weigh_rows(tile.top + begin, known, shared);
#pragma unroll 1
        for (int row = 0; row < known; row += most) {
            const int rows = min(most, known - row);
            __syncthreads();
            if (shared.part.by_words)
                by_taps(taps, [&](auto taps) { sum_words(taps, row, rows, shared); });
            else
                sum_values(row, rows, shared);
            __syncthreads();
            const int few = shared.part.inside ? shared.own.across.taps : 0;
            by_taps(few, [&](auto taps) { make(taps, shared.rows + row, rows, shared); });
        }
        __syncthreads();
    }
}

// How many columns of the result there is room for at once.
__device__ __forceinline__ int columns_at_once(const Axis& across, const Axis& down) {
    const long long step = across.step < 0 ? -across.step : across.step, weights = across.taps | 1;
    const long long room = ROOM - 2 * WORD - (across.taps + 2ll) * TOGETHER - weights;  // for more columns than one
    if (room < 0 || down.taps > DOWN) return 0;
    // a column takes its weights, and the columns of the source up to the next one
    return min((int)((room << 32) / (step * TOGETHER + (weights << 32))) + 1, WIDE);
}

// What one thread does for all of them: as many parts as there must be, of about as many columns.
__device__ __forceinline__ void Shared::begin() {
    most = columns_at_once(own.across, own.down);
    if (most < 1) return;
    const int wide = own.tile.wide, parts = (wide + most - 1) / most;
    most = min(((wide + parts - 1) / parts + 3) / 4 * 4, most);
    part = part_of(own, own.tile.left, min(most, wide));
}

__device__ __forceinline__ void Shared::make() {
#pragma unroll 1
    for (int left = 0; left < own.tile.wide; left += most) {
        if (left > 0) {
            if (threadIdx.x == 0) part = part_of(own, own.tile.left + left, min(most, own.tile.wide - left));
            __syncthreads();
        }
        make_part(*this);
    }
}
