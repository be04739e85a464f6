// Values weighted along rows and columns: columns of pixels are summed first, and then those sums along the row.
//
// A block computes a tile of the result, see resampled_tile.cuh. If an axis is scaled so much that shared memory is too small
// for that, `make` sums the taps of each pixel separately, in the same order.
//
// As the head of a chain: AXES is the index of the axes in a row of parameters, MADE the type that the pixel is rounded to
// before `change`.
#include "taps.cuh"
#include "tile.cuh"
#include "bytes.cuh"
#include "reciprocal.cuh"

BODY

#ifndef AXES
#define AXES(row) (row)
#endif

// A row of parameters that is short is better kept in registers than read for every pixel.
template <bool IS_SHORT> struct Kept { typedef const Row T; };
template <> struct Kept<false> { typedef const Row& T; };
typedef Kept<(sizeof(Row) <= 256)>::T KeptRow;

// What becomes of a pixel on its way into memory, where its values are `step` bytes apart.
__device__ __forceinline__ void finish(Address to, long long step, const Row& row, Real (&pixel)[TOGETHER]) {
#ifdef MADE
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) pixel[k] = rounded<MADE>(pixel[k]);
    change(pixel, row);
#endif
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) store<OUT>(to + (Address)(k * step), pixel[k]);
}

// What all threads of a block know of their image. It stands in shared memory, for their registers are few.
struct Own {
    const Item* item;
    const Row* row;
    Address in, out;
    Tile tile;
    Axis across, down;
    __device__ __forceinline__ explicit Own(const Image& image)
        : item(&image.item), row(&image.row), in(image.in), out(image.out), tile(tile_of(image.item, blockIdx.x)),
          across(axis_of(AXES(image.row), 0, image.item.in_width)), down(axis_of(AXES(image.row), 1, image.item.in_height)) {}
    Own() = default;
    __device__ __forceinline__ Image image() const { return {*item, *row, in, out}; }
};

__device__ __forceinline__ void make(const Own& own, int y, int x) {
    for (int channel = 0; channel < CHANNELS_OF(own.image()); channel += TOGETHER) {
        Real width = 0.0f, height, sums[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) sums[k] = 0.0f;
#pragma unroll 1
        for (int i = 0; i < own.across.taps; i++) {
            const Tap column = tap_of(own.across, start_of(own.across, x), i);
            Real parts[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) parts[k] = 0.0f;
            height = 0.0f;
#pragma unroll 1
            for (int j = 0; j < own.down.taps; j++) {
                asm volatile("" ::: "memory");  // what a block knows is read for each tap: there are no registers for it
                const Tap line = tap_of(own.down, start_of(own.down, y), j);
                const long long step = own.item->in_strides[4];
                const Address from = own.image().from(line.place, column.place) + (Address)(channel * step);
                height = height + line.weight;
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) parts[k] = parts[k] + line.weight * load<IN>(from + (Address)(k * step));
            }
            width = width + column.weight;
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) sums[k] = sums[k] + column.weight * parts[k];
        }
        const Real share = Real(1.0f) / (height * width);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) sums[k] = sums[k] * share;
        const long long step = own.item->out_strides[4];
        finish(own.image().to(y, x) + (Address)(channel * step), step, *own.row, sums);
    }
}

#if CHANNELS
#include "resampled_tile.cuh"
#else
struct Shared {
    Own own;
    int most;
    __device__ __forceinline__ void begin() { most = 0; }
    __device__ __forceinline__ void make() {}
};
#endif

// How many blocks share a processor: what comes after a resampling needs registers, and so does what is compiled for the
// latest GPUs; the first ones have too few threads.
#ifdef MADE
constexpr int MOST_BLOCKS = 4;
#else
constexpr int MOST_BLOCKS = 5;
#endif
#if __CUDA_ARCH__ < 800 || __CUDA_ARCH__ >= 1000
constexpr int BLOCKS = MOST_BLOCKS - 1;
#else
constexpr int BLOCKS = MOST_BLOCKS;
#endif

KERNEL(BLOCKS, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    __shared__ Shared shared;
    __shared__ bool is_known;
    if (threadIdx.x == 0) {
        const Image image = image_of(job, number);
        is_known = blockIdx.x < tiles_of(image.item);
        if (is_known) shared.own = Own(image), shared.begin();
    }
    __syncthreads();
    if (!is_known) return;
    if (shared.most > 0) return shared.make();
    const Tile tile = shared.own.tile;
    for (int e = threadIdx.x; e < tile.tall * tile.wide; e += THREADS)
        make(shared.own, tile.top + e / tile.wide, tile.left + e % tile.wide);
}
