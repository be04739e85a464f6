// Sums of products of a column and a row of weights. A block makes a tile: LANES lines of what it sees at a time are
// taken into shared memory and their rows done, then the columns. The operator's statements change `value`, the sum;
// `center` is what was there before.
//
// Row has taps[2 * TERMS] and weights[2 * TERMS][MOST_TAPS]: column and row of the first term, then of the second.
#include "window.cuh"

constexpr int TERMS = sizeof(Row::taps) / (2 * sizeof(int));
constexpr int MOST_TAPS = sizeof(Row::weights) / (2 * TERMS * sizeof(Real));
constexpr int PITCH = LANES + 1, SHARE = WIDE / GROUPS, TALL_SHARE = TALL / GROUPS;

// What a block has in shared memory: lines as they are, at x * PITCH + y; their sums, at y * PITCH + x; weights.
struct Shared {
    Real taken[(WIDE + MOST_TAPS - 1) * PITCH], sums[(TALL + MOST_TAPS - 1) * PITCH], column[MOST_TAPS], across[MOST_TAPS];
};

__device__ __forceinline__ Real finished(Real value, Real center, const Row& row) {
    BODY
    return value;
}

// The rows of a tile's lines, and of those that its columns see beyond it.
__device__ __forceinline__ void sum_rows(const Image& image, int channel, Tile tile, int tall, int wide, Shared& shared) {
    const int lines = tile.tall + tall - 1;
    for (int first = 0; first < lines; first += LANES) {
        const int count = min(LANES, lines - first);
        const Tile seen = {tile.top - tall / 2 + first, tile.left - wide / 2, count, tile.wide + wide - 1};
        take<1, PITCH, 0, LANES>(image, channel, seen, shared.taken, [](Real value) { return value; });
        // so many threads beside each other that few have nothing to do
        const int bits = count > 16 ? 5 : count > 8 ? 4 : 3;
        const int y = threadIdx.x & ((1 << bits) - 1), x = (threadIdx.x >> bits) * SHARE;
        if (y >= count || x >= tile.wide) continue;
        Real sums[SHARE];
        begin(sums);
        add_products(sums, shared.taken + (x * PITCH + y), PITCH, shared.across, wide);
#pragma unroll
        for (int i = 0; i < SHARE; i++) shared.sums[(first + y) * PITCH + x + i] = sums[i];
    }
    __syncthreads();
}

__device__ __forceinline__ void make(const Image& image, int channel, Tile tile, Shared& shared) {
    const Row& row = image.row;
    const int x = threadIdx.x % LANES, y = threadIdx.x / LANES * TALL_SHARE;
    Real sums[TALL_SHARE];
#pragma unroll 1
    for (int term = 0; row.acts && term < TERMS; term++) {
        const Real *column = row.weights + 2 * term * MOST_TAPS, *across = column + MOST_TAPS;
        const int tall = row.taps[2 * term], wide = row.taps[2 * term + 1];
        __syncthreads();
        for (int k = threadIdx.x; k < tall; k += THREADS) shared.column[k] = column[k];
        for (int k = threadIdx.x; k < wide; k += THREADS) shared.across[k] = across[k];
        sum_rows(image, channel, tile, tall, wide, shared);
        Real found[TALL_SHARE];
        begin(found);
        if (x < tile.wide && y < tile.tall) add_products(found, shared.sums + (y * PITCH + x), PITCH, shared.column, tall);
#pragma unroll
        for (int i = 0; i < TALL_SHARE; i++) sums[i] = term ? sums[i] + found[i] : found[i];
    }
    if (x >= tile.wide) return;
#pragma unroll
    for (int i = 0; i < TALL_SHARE; i++) {
        if (y + i >= tile.tall) break;
        const int line = tile.top + y + i, at = tile.left + x;
        const Real center = load<IN>(image.from(line, at) + (Address)(channel * image.item.in_strides[4]));
        const Address to = image.to(line, at) + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? finished(sums[i], center, row) : center);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, TERMS > 1 ? 3 : 4) each(const __grid_constant__ Job job) {
    __shared__ Shared shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    for (int channel = 0; channel < CHANNELS_OF(image); channel++)
        make(image, channel, tile_of(image.item, blockIdx.x), shared);
}
