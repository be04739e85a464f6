// The median of the square window around each value. Values are compared as whole numbers of 0 or more in their order.
//
// Row has window_size, up to MOST_SIDE.
#include "sortable.cuh"
#include "window.cuh"

constexpr int MOST_SIDE = 15, ROOM = TALL + MOST_SIDE - 1, PITCH = ROOM | 1, PLANE = PITCH * (WIDE + MOST_SIDE - 1);
constexpr int SHARE = WIDE / GROUPS;  // columns of a thread

// Orders have ORDER_BITS bits.
enum { ORDER_BITS = IN == 0 ? 8 : IN < 3 ? 16 : 32 };
__device__ __forceinline__ unsigned ordered(Real value) {
    if (IN < 3) return (unsigned)((int)value.v + (IN == 2 ? 32768 : 0));
    return place_of(value.v);
}
__device__ __forceinline__ Real unordered(unsigned order) {
    if (IN < 3) return (float)((int)order - (IN == 2 ? 32768 : 0));
    return value_at(order);
}

__device__ __forceinline__ unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }
__device__ __forceinline__ unsigned most(unsigned a, unsigned b) { return a < b ? b : a; }
__device__ __forceinline__ unsigned middle(unsigned a, unsigned b, unsigned c) {
    return most(least(a, b), least(most(a, b), c));
}

// Of three by three: each column in order; then the middle one of the greatest first, the middle second, the least third.
__device__ __forceinline__ void medians_of_nine(const unsigned* at, unsigned (&found)[SHARE]) {
    unsigned low[SHARE + 2], mid[SHARE + 2], high[SHARE + 2];
#pragma unroll
    for (int x = 0; x < SHARE + 2; x++) {
        const unsigned a = at[x * PITCH], b = at[x * PITCH + 1], c = at[x * PITCH + 2];
        const unsigned small = least(a, b), large = most(a, b);
        low[x] = least(small, c), high[x] = most(large, c), mid[x] = most(small, least(large, c));
    }
#pragma unroll
    for (int i = 0; i < SHARE; i++)
        found[i] = middle(most(most(low[i], low[i + 1]), low[i + 2]), middle(mid[i], mid[i + 1], mid[i + 2]),
                          least(least(high[i], high[i + 1]), high[i + 2]));
}

// From the highest bit on: the greatest order that no more values are below of than of the middle one.
__device__ __forceinline__ void medians(const unsigned* at, int size, unsigned (&found)[SHARE]) {
#pragma unroll
    for (int i = 0; i < SHARE; i++) found[i] = 0;
    for (unsigned bit = 1u << (ORDER_BITS - 1); bit; bit >>= 1) {
        int less[SHARE] = {};
        for (int x = 0; x < size + SHARE - 1; x++) {
            unsigned limits[SHARE];
#pragma unroll
            for (int i = 0; i < SHARE; i++) limits[i] = x >= i && x < i + size ? found[i] | bit : 0;
#pragma unroll 4
            for (int y = 0; y < size; y++) {
                const unsigned order = at[x * PITCH + y];
#pragma unroll
                for (int i = 0; i < SHARE; i++) less[i] += order < limits[i];
            }
        }
#pragma unroll
        for (int i = 0; i < SHARE; i++)
            if (less[i] <= size * size / 2) found[i] |= bit;
    }
}

__device__ __forceinline__ void make(const Image& image, int channel, Tile tile, unsigned* orders) {
    const int size = image.row.acts ? image.row.window_size : 1, before = size / 2;
    const Tile seen = {tile.top - before, tile.left - before, tile.tall + size - 1, tile.wide + size - 1};
    take<TOGETHER, PITCH, PLANE, ROOM>(image, channel, seen, orders, [](Real value) { return ordered(value); });
    if (size > 1) {
        const int y = threadIdx.x % LANES, x = threadIdx.x / LANES * SHARE;
        unsigned found[TOGETHER][SHARE];
        if (y < tile.tall && x < tile.wide)
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const unsigned* const at = orders + (k * PLANE + x * PITCH + y);
                if (size == 3)
                    medians_of_nine(at, found[k]);
                else
                    medians(at, size, found[k]);
            }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
#pragma unroll
            for (int i = 0; i < SHARE; i++) orders[k * PLANE + (x + i) * PITCH + y] = found[k][i];
        __syncthreads();
    }
    give<TOGETHER, PITCH, PLANE>(image, channel, tile, orders, [](unsigned order) { return unordered(order); });
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ unsigned orders[TOGETHER * PLANE];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER)
        make(image, channel, tile_of(image.item, blockIdx.x), orders);
}
