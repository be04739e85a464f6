// Values weighted along rows and columns: columns of pixels are summed up first, and then those sums along the row.
//
// A block makes a tile of the result, row by row. Its threads sum up the columns of the source that a row is made of,
// several neighbours each, into shared memory; then each makes one pixel of them. Sums are those of `make`, in the same
// order, which does it for one pixel alone where an axis is scaled so much that shared memory is too small.
//
// As the head of a chain: AXES says where in a row of parameters the axes are, MADE as what type the pixel is rounded
// before `change` takes it on.
#include "taps.cuh"
#include "tile.cuh"

BODY

#ifndef AXES
#define AXES(row) (row)
#endif

constexpr int SUMS = 6144, ACROSS = 4096, DOWN = 512, WORD = 4;

// What a block has in shared memory: sums of columns; weights along the row, at tap * columns + column; of the columns.
struct __align__(16) Shared {
    Real sums[SUMS], across[ACROSS], down[DOWN];
};

__device__ __forceinline__ void finish(const Image& image, int y, int x, int channel, Real (&pixel)[TOGETHER]) {
#ifdef MADE
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) pixel[k] = rounded<MADE>(pixel[k]);
    change(pixel, image.row);
#endif
    const Address to = image.to(y, x) + (Address)(channel * image.item.out_strides[4]);
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) store<OUT>(to + (Address)(k * image.item.out_strides[4]), pixel[k]);
}

__device__ __forceinline__ void make(const Image& image, const Axis& across, const Axis& down, int y, int x) {
    const Start left = start_of(across, x), top = start_of(down, y);
    Real height = 0.0f;
#pragma unroll 1
    for (int j = 0; j < down.taps; j++) height = height + tap_of(down, top, j).weight;
    const long long* strides = image.item.in_strides;
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        Real width = 0.0f, sums[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) sums[k] = 0.0f;
#pragma unroll 1
        for (int i = 0; i < across.taps; i++) {
            const Tap column = tap_of(across, left, i);
            const Address top_of_column = image.from(0, column.place) + (Address)(channel * strides[4]);
            Real parts[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) parts[k] = 0.0f;
#pragma unroll 1
            for (int j = 0; j < down.taps; j++) {
                const Tap line = tap_of(down, top, j);
                const Address from = top_of_column + (Address)(line.place * strides[2]);
#pragma unroll
                for (int k = 0; k < TOGETHER; k++)
                    parts[k] = parts[k] + line.weight * load<IN>(from + (Address)(k * strides[4]));
            }
            width = width + column.weight;
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) sums[k] = sums[k] + column.weight * parts[k];
        }
        const Real share = Real(1.0f) / (height * width);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) sums[k] = sums[k] * share;
        finish(image, y, x, channel, sums);
    }
}

// Some columns of a source whose sums stand in shared memory: those of a pixel's values are `of_pixel` apart from those
// of the next one's, and `of_channel` from each other; the first one's are at `first`.
struct Columns {
    int begin, end, of_pixel, of_channel, first;
};

__device__ __forceinline__ int limited(int place, int length) { return min(max(place, 0), length - 1); }

// Weighted sums of lines, WORD bytes of each at a time; the first line's are at `from`, lines are `pitch` bytes apart.
__device__ __forceinline__ void sum_words(Address from, long long pitch, const Axis& down, const Start& top, int words,
                                          Shared& shared) {
    for (int word = threadIdx.x; word < words; word += THREADS) {
        Real sums[WORD];
#pragma unroll
        for (int k = 0; k < WORD; k++) sums[k] = 0.0f;
#pragma unroll 4
        for (int j = 0; j < down.taps; j++) {
            const int place = limited(top.place + j, down.length);
            const unsigned bytes = __ldg((const unsigned*)(from + (Address)(place * pitch) + (Address)(word * WORD)));
            const Real weight = shared.down[j];
#pragma unroll
            for (int k = 0; k < WORD; k++) sums[k] = sums[k] + weight * Real((float)(bytes >> 8 * k & 255));
        }
#pragma unroll
        for (int k = 0; k < WORD; k++) shared.sums[word * WORD + k] = sums[k];
    }
}

// The same of one value at a time, whatever lies where.
__device__ __forceinline__ void sum_values(const Image& image, const Axis& down, const Start& top, const Columns& columns,
                                           Shared& shared) {
    const long long* strides = image.item.in_strides;
    const int count = columns.end - columns.begin, side_by_side = columns.of_channel == 1;
    for (int e = threadIdx.x; e < count * TOGETHER; e += THREADS) {
        const int column = side_by_side ? e / TOGETHER : e % count, channel = side_by_side ? e % TOGETHER : e / count;
        const Address from = image.from(0, columns.begin + column) + (Address)(channel * strides[4]);
        Real sum = 0.0f;
#pragma unroll 4
        for (int j = 0; j < down.taps; j++) {
            const int place = limited(top.place + j, down.length);
            sum = sum + shared.down[j] * load<IN>(from + (Address)(place * strides[2]));
        }
        shared.sums[e] = sum;
    }
}

// Some columns of a tile's result, one for each thread.
__device__ __forceinline__ void make(const Image& image, const Tile& tile, const Axis& across, const Axis& down, int left,
                                     int count, Shared& shared) {
    const long long* strides = image.item.in_strides;
    const Start one = start_of(across, left), other = start_of(across, left + count - 1);
    const int x = left + min((int)threadIdx.x, count - 1);
    const Start own = start_of(across, x);
    Columns columns = {limited(min(one.place, other.place), across.length),
                       limited(max(one.place, other.place) + across.taps - 1, across.length) + 1, TOGETHER, 1, 0};
    const bool side_by_side = strides[4] == sizeof(typename Typed<IN>::T) && strides[3] == TOGETHER * strides[4];
    const bool by_words = IN == 0 && side_by_side && image.in % WORD == 0 && strides[2] % WORD == 0;
    if (!side_by_side) columns.of_pixel = 1, columns.of_channel = columns.end - columns.begin;
    if (by_words) columns.first = columns.begin * TOGETHER % WORD;
    const int words = ((columns.end - columns.begin) * TOGETHER + columns.first + WORD - 1) / WORD;
    __syncthreads();
    Real width = 0.0f;
    for (int e = threadIdx.x; e < count * across.taps; e += THREADS) {
        const int i = e / count;
        shared.across[e] = tap_of(across, start_of(across, left + e % count), i).weight;
    }
    __syncthreads();
    for (int i = 0; i < across.taps; i++) width = width + shared.across[i * count + (x - left)];
    for (int y = tile.top; y < tile.top + tile.tall; y++) {
        const Start top = start_of(down, y);
        __syncthreads();
        for (int j = threadIdx.x; j < down.taps; j += THREADS) shared.down[j] = tap_of(down, top, j).weight;
        __syncthreads();
        if (by_words)
            sum_words(image.in + (Address)(columns.begin * TOGETHER - columns.first), strides[2], down, top, words, shared);
        else
            sum_values(image, down, top, columns, shared);
        Real height = 0.0f, pixel[TOGETHER];
        for (int j = 0; j < down.taps; j++) height = height + shared.down[j];
        __syncthreads();
        if (threadIdx.x >= count) continue;
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) pixel[k] = 0.0f;
#pragma unroll 2
        for (int i = 0; i < across.taps; i++) {
            const int place = limited(own.place + i, across.length) - columns.begin;
            const Real* const sums = shared.sums + columns.first + place * columns.of_pixel;
            const Real weight = shared.across[i * count + (x - left)];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] + weight * sums[k * columns.of_channel];
        }
        const Real share = Real(1.0f) / (height * width);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] * share;
        finish(image, y, x, 0, pixel);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) each(const __grid_constant__ Job job) {
    __shared__ Shared shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    const Tile tile = tile_of(image.item, blockIdx.x);
    const Axis across = axis_of(AXES(image.row), 0, image.item.in_width);
    const Axis down = axis_of(AXES(image.row), 1, image.item.in_height);
    // how many columns of the result there is room for at once
    const long long room = (SUMS - WORD) / TOGETHER - across.taps - 2, step = across.step < 0 ? -across.step : across.step;
    const bool fits = CHANNELS && room >= 0 && down.taps <= DOWN && ACROSS / across.taps > 0;
    const int most = !fits ? 0 : step * (WIDE - 1) >> 32 <= room - 1 ? min(WIDE, ACROSS / across.taps)
                                                               : min((int)((room << 32) / step) + 1, ACROSS / across.taps);
    if (most < 1) {
        for (int e = threadIdx.x; e < tile.tall * tile.wide; e += THREADS)
            make(image, across, down, tile.top + e / tile.wide, tile.left + e % tile.wide);
        return;
    }
    for (int left = 0; left < tile.wide; left += most)
        make(image, tile, across, down, tile.left + left, min(most, tile.wide - left), shared);
}
