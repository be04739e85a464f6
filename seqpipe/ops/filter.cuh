// Sums of products of the values around each, and weights.
//
// Row has window[2] and anchor[2], rows and columns, and weights[MOST_WEIGHTS] in the order of reading. What a window
// up to MOST_SIDE rows and columns sees is taken into shared memory.
#include "window.cuh"

constexpr int MOST_WEIGHTS = sizeof(Row::weights) / sizeof(Real), MOST_SIDE = TOGETHER == 4 ? 17 : 25;
constexpr int ROOM = TALL + MOST_SIDE - 1, PITCH = ROOM | 1, PLANE = PITCH * (WIDE + MOST_SIDE - 1);
constexpr int SHARE = WIDE / GROUPS;  // columns of a thread

// Where a window is larger: each value is read for each result.
__device__ __forceinline__ Real far_sum(const Image& image, int y, int x, Address channel) {
    const Row& row = image.row;
    const int columns = row.window[1], count = row.window[0] * columns, border = (int)row.edge.v;
    Real sum = -0.0f;
    for (int k = 0; k < count; k++) {
        const int line = bordered(y + k / columns - row.anchor[0], image.item.in_height, border);
        const int column = bordered(x + k % columns - row.anchor[1], image.item.in_width, border);
        const bool known = line >= 0 && column >= 0;
        sum = sum + (known ? load<IN>(image.from(line, column) + channel) : row.beyond) * row.weights[k];
    }
    return sum;
}

__device__ __forceinline__ void make_near(const Image& image, int channel, Tile tile, Real* values, const Real* weights) {
    const Row& row = image.row;
    const int rows = row.window[0], columns = row.window[1];
    const Tile seen = {tile.top - row.anchor[0], tile.left - row.anchor[1], tile.tall + rows - 1, tile.wide + columns - 1};
    take<TOGETHER, PITCH, PLANE, ROOM>(image, channel, seen, values, [](Real value) { return value; });
    const int y = threadIdx.x % LANES, x = threadIdx.x / LANES * SHARE;
    Real sums[TOGETHER][SHARE];
    if (y < tile.tall && x < tile.wide)
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            begin(sums[k]);
            for (int i = 0; i < rows; i++)
                add_products(sums[k], values + (k * PLANE + x * PITCH + y + i), PITCH, weights + i * columns, columns);
        }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TOGETHER; k++)
#pragma unroll
        for (int i = 0; i < SHARE; i++) values[k * PLANE + (x + i) * PITCH + y] = sums[k][i];
    __syncthreads();
    give<TOGETHER, PITCH, PLANE>(image, channel, tile, values, [](Real value) { return value; });
}

__device__ __forceinline__ void make_far(const Image& image, int channel, Tile tile) {
    for (int e = threadIdx.x; e < tile.tall * WIDE; e += THREADS) {
        const int y = tile.top + e / WIDE, x = tile.left + e % WIDE;
        if (e % WIDE >= tile.wide) continue;
#pragma unroll 1
        for (int k = channel; k < channel + TOGETHER; k++) {
            const Address step = (Address)(k * image.item.in_strides[4]);
            const Real found = image.row.acts ? far_sum(image, y, x, step) : load<IN>(image.from(y, x) + step);
            store<OUT>(image.to(y, x) + (Address)(k * image.item.out_strides[4]), found);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ Real values[TOGETHER * PLANE], weights[MOST_WEIGHTS];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    const Row& row = image.row;
    const Tile tile = tile_of(image.item, blockIdx.x);
    const bool near = row.acts && row.window[0] <= MOST_SIDE && row.window[1] <= MOST_SIDE;
    for (int k = threadIdx.x; near && k < row.window[0] * row.window[1]; k += THREADS) weights[k] = row.weights[k];
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        if (near)
            make_near(image, channel, tile, values, weights);
        else
            make_far(image, channel, tile);
    }
}
