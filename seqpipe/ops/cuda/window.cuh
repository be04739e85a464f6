// For results that depend on many values around them. A block copies a tile of HIGH rows and BROAD columns with its margin
// into shared memory, where the value of row y and column x is at x * PITCH + y. PITCH is odd, so that neighboring threads
// have no bank conflicts, along rows or along columns.
#include "seen.cuh"

constexpr int BROAD = 32, GROUPS = THREADS / LANES;

struct Tile {
    int top, left, tall, wide;
};
template <int HIGH> __device__ __forceinline__ Tile tile_of(const Item& item, int number) {
    const int across = (item.width + BROAD - 1) / BROAD, top = number / across * HIGH, left = number % across * BROAD;
    return {top, left, min(HIGH, item.height - top), min(BROAD, item.width - left)};
}
template <int HIGH> __device__ __forceinline__ int tiles_of(const Item& item) {
    return (item.height + HIGH - 1) / HIGH * ((item.width + BROAD - 1) / BROAD);
}

constexpr long long NOWHERE = 1ll << 63;

// Lines from `top` on, columns from `left` on, of some channels, to planes of PLANE numbers each. ROOM is for how many lines.
template <int CHANNELS_AT_ONCE, int PITCH, int PLANE, int ROOM, class T, class Make>
__device__ __forceinline__ void load_tile(const Image& image, int channel, Tile part, T* to, Make make) {
    __shared__ long long lines[ROOM];
    const int border = (int)image.row.edge.v;
    const long long* const strides = image.item.in_strides;
    __syncthreads();
    for (int y = threadIdx.x; y < part.tall; y += THREADS) {
        const int line = bordered(part.top + y, image.item.in_height, border);
        lines[y] = line < 0 ? NOWHERE : line * strides[2];
    }
    __syncthreads();
    for (int e = threadIdx.x % LANES; e < part.wide * CHANNELS_AT_ONCE; e += LANES) {
        const int x = e / CHANNELS_AT_ONCE, k = e % CHANNELS_AT_ONCE;
        const int column = bordered(part.left + x, image.item.in_width, border);
        const Address from = image.in + (Address)(column * strides[3] + (channel + k) * strides[4]);
        T* const column_to = to + k * PLANE + x * PITCH;
#pragma unroll 4
        for (int y = threadIdx.x / LANES; y < part.tall; y += GROUPS) {
            const bool known = column >= 0 && lines[y] != NOWHERE;
            column_to[y] = make(known ? load<IN>(from + (Address)lines[y]) : image.row.beyond);
        }
    }
    __syncthreads();
}

// The tile's results, which stand where `take` puts values.
template <int CHANNELS_AT_ONCE, int PITCH, int PLANE, class T, class Make>
__device__ __forceinline__ void store_tile(const Image& image, int channel, Tile tile, const T* from, Make make) {
    const long long* const strides = image.item.out_strides;
    for (int e = threadIdx.x % LANES; e < tile.wide * CHANNELS_AT_ONCE; e += LANES) {
        const int x = e / CHANNELS_AT_ONCE, k = e % CHANNELS_AT_ONCE;
        const Address to = image.to(tile.top, tile.left + x) + (Address)((channel + k) * strides[4]);
        for (int y = threadIdx.x / LANES; y < tile.tall; y += GROUPS)
            store<OUT>(to + (Address)(y * strides[2]), make(from[k * PLANE + x * PITCH + y]));
    }
}

// Adds products of values and weights, one after the other, to COUNT sums side by side: the first begins at `at`, the
// next one a step further. Sums begin at -0, which changes nothing that is added to it.
template <int COUNT>
__device__ __forceinline__ void add_products(Real (&sums)[COUNT], const Real* at, int step, const Real* weights, int taps) {
    Real window[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT - 1; i++) window[i] = at[i * step];
    at += (COUNT - 1) * step;
    for (int k = 0; k < taps; k += COUNT) {
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            if (k + j >= taps) break;
            const Real weight = weights[k + j];
            window[(COUNT - 1 + j) % COUNT] = at[j * step];
#pragma unroll
            for (int i = 0; i < COUNT; i++) sums[i] = sums[i] + window[(i + j) % COUNT] * weight;
        }
        at += COUNT * step;
    }
}

template <int COUNT> __device__ __forceinline__ void begin(Real (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] = -0.0f;
}
