// Values weighted along rows and columns: columns of pixels are summed up first, and then those sums along the row.
//
// A block makes a tile of the result, some rows at a time. Its threads sum up the columns of the source that these are
// made of, several neighbours each, into shared memory; then each makes pixels of them. Sums are those of `make`, in the same
// order, which does it for one pixel alone where an axis is scaled so much that shared memory is too small.
//
// As the head of a chain: AXES says where in a row of parameters the axes are, MADE as what type the pixel is rounded
// before `change` takes it on.
#include "taps.cuh"
#include "tile.cuh"
#include "bytes.cuh"

BODY

#ifndef AXES
#define AXES(row) (row)
#endif

constexpr int SUMS = 6144, ACROSS = 3840, DOWN = 512, WORD = 4;

// What a block has in shared memory.
struct __align__(16) Shared {
    Real sums[SUMS];             // of columns, for some rows of the result
    Real across[ACROSS];         // weights along the row, at tap * columns + column
    Real down[DOWN];             // weights of the columns, for each of those rows
    long long lines[DOWN];       // how far from the first line the lines are that they belong to
    Real widths[WIDE], heights[TALL];  // sums of weights
    int places[WIDE];            // of the first taps
};

// A row of parameters that is short is better kept in registers than read for every pixel.
template <bool IS_SHORT> struct Kept { typedef const Row T; };
template <> struct Kept<false> { typedef const Row& T; };
typedef Kept<(sizeof(Row) <= 256)>::T KeptRow;

__device__ __forceinline__ void finish(const Image& image, const Row& row, int y, int x, int channel, Real (&pixel)[TOGETHER]) {
#ifdef MADE
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) pixel[k] = rounded<MADE>(pixel[k]);
    change(pixel, row);
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
        finish(image, image.row, y, x, channel, sums);
    }
}

// What a block does at a time: some columns of the source, whose sums for a row of the result begin at `first` of that
// row's part of shared memory. Sums of a pixel's values are `of_pixel` apart from those of the next one's, and
// `of_channel` from each other. `count` columns of the result are made of them.
struct Part {
    int begin, end, of_pixel, of_channel, first, count;
    bool by_words;
};

__device__ __forceinline__ int limited(int place, int length) { return min(max(place, 0), length - 1); }

// The weights of the columns for some rows of the result.
__device__ __forceinline__ void weigh_down(const Image& image, const Axis& down, int y, int rows, Shared& shared) {
    for (int e = threadIdx.x; e < rows * down.taps; e += THREADS) {
        const Tap tap = tap_of(down, start_of(down, y + e / down.taps), e % down.taps);
        shared.down[e] = tap.weight;
        shared.lines[e] = tap.place * image.item.in_strides[2];
    }
    __syncthreads();
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        Real height = 0.0f;
        for (int j = 0; j < down.taps; j++) height = height + shared.down[row * down.taps + j];
        shared.heights[row] = height;
    }
}

// The weights along the row.
__device__ __forceinline__ void weigh_across(const Axis& across, int left, int count, Shared& shared) {
    for (int x = threadIdx.x; x < count; x += THREADS) {
        const Start start = start_of(across, left + x);
        Real width = 0.0f;
        for (int i = 0; i < across.taps; i++) {
            const Real weight = tap_of(across, start, i).weight;
            shared.across[i * count + x] = weight;
            width = width + weight;
        }
        shared.widths[x] = width;
        shared.places[x] = start.place;
    }
}

// n / d, for numbers from 0 to SUMS; `part` is 1 / d.
__device__ __forceinline__ int quotient(int n, float part) { return (int)(((float)n + 0.5f) * part); }

// Weighted sums of lines, WORD bytes of each at a time.
__device__ __forceinline__ void sum_words(const Image& image, const Part& part, int taps, int rows, int pitch, Shared& shared) {
    const Address from = image.in + (Address)(part.begin * TOGETHER - part.first);
    const int words = pitch / WORD;
    const float part_of_row = 1.0f / words;
    for (int e = threadIdx.x; e < rows * words; e += THREADS) {
        const int row = quotient(e, part_of_row), word = e - row * words;
        const Address column = from + (Address)(word * WORD);
        Real sums[WORD];
#pragma unroll
        for (int k = 0; k < WORD; k++) sums[k] = 0.0f;
#pragma unroll 4
        for (int j = row * taps; j < (row + 1) * taps; j++) {
            const unsigned bytes = __ldg((const unsigned*)(column + (Address)shared.lines[j]));
            const Weight weight = shared.down[j];
#pragma unroll
            for (int k = 0; k < WORD; k++) sums[k] = sums[k] + weight.times(bytes, k);
        }
#pragma unroll
        for (int k = 0; k < WORD; k++) shared.sums[e * WORD + k] = sums[k];
    }
}

// The same of one value at a time, whatever lies where.
__device__ __forceinline__ void sum_values(const Image& image, const Part& part, int taps, int rows, int pitch, Shared& shared) {
    const int count = part.end - part.begin;
    for (int e = threadIdx.x; e < rows * pitch; e += THREADS) {
        const int row = e / pitch, at = e - row * pitch, of_pixel = part.of_pixel;
        const int column = of_pixel == 1 ? at % count : at / of_pixel, channel = of_pixel == 1 ? at / count : at % of_pixel;
        const Address from = image.from(0, part.begin + column) + (Address)(channel * image.item.in_strides[4]);
        Real sum = 0.0f;
#pragma unroll 4
        for (int j = row * taps; j < (row + 1) * taps; j++)
            sum = sum + shared.down[j] * load<IN>(from + (Address)shared.lines[j]);
        shared.sums[e] = sum;
    }
}

// Some rows of a part of the result.
__device__ __forceinline__ void make(const Image& image, const Part& part, const Axis& across, int top, int left, int rows,
                                     int pitch, const Shared& shared) {
    const KeptRow parameters = image.row;
    const float part_of_row = 1.0f / part.count;
    for (int e = threadIdx.x; e < rows * part.count; e += THREADS) {
        const int row = quotient(e, part_of_row), x = e - row * part.count, first = shared.places[x];
        const Real* const sums = shared.sums + row * pitch + part.first;
        Real pixel[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) pixel[k] = 0.0f;
        const auto add = [&](int column, int i) {
            const Real* const at = sums + (column - part.begin) * part.of_pixel;
            const Real weight = shared.across[i * part.count + x];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] + weight * at[k * part.of_channel];
        };
        if (first >= 0 && first + across.taps <= across.length)
#pragma unroll 2
            for (int i = 0; i < across.taps; i++) add(first + i, i);
        else
#pragma unroll 1
            for (int i = 0; i < across.taps; i++) add(limited(first + i, across.length), i);
        const Real share = Real(1.0f) / (shared.heights[row] * shared.widths[x]);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) pixel[k] = pixel[k] * share;
        finish(image, parameters, top + row, left + x, 0, pixel);
    }
}

// Where the columns of the source lie that some columns of the result are made of.
__device__ __forceinline__ Part part_of(const Image& image, const Axis& across, int left, int count) {
    const long long* strides = image.item.in_strides;
    const int one = start_of(across, left).place, other = start_of(across, left + count - 1).place;
    const bool side_by_side = strides[4] == sizeof(typename Typed<IN>::T) && strides[3] == TOGETHER * strides[4];
    Part part = {limited(min(one, other), across.length), limited(max(one, other) + across.taps - 1, across.length) + 1};
    part.of_pixel = side_by_side ? TOGETHER : 1;
    part.of_channel = side_by_side ? 1 : part.end - part.begin;
    part.by_words = IN == 0 && side_by_side && image.in % WORD == 0 && strides[2] % WORD == 0;
    part.first = part.by_words ? part.begin * TOGETHER % WORD : 0;
    part.count = count;
    return part;
}

// Some columns of a tile.
__device__ __forceinline__ void make(const Image& image, const Tile& tile, const Axis& across, const Axis& down, int left,
                                     int count, Shared& shared) {
    const Part part = part_of(image, across, left, count);
    const int values = (part.end - part.begin) * TOGETHER + part.first;
    const int pitch = part.by_words ? (values + WORD - 1) / WORD * WORD : values;
    const int most = max(1, min(TALL, min(SUMS / pitch, DOWN / down.taps)));
    __syncthreads();
    weigh_across(across, left, count, shared);
    for (int row = 0; row < tile.tall; row += most) {
        const int top = tile.top + row, rows = min(most, tile.tall - row);
        __syncthreads();
        weigh_down(image, down, top, rows, shared);
        if (part.by_words)
            sum_words(image, part, down.taps, rows, pitch, shared);
        else
            sum_values(image, part, down.taps, rows, pitch, shared);
        __syncthreads();
        make(image, part, across, top, left, rows, pitch, shared);
    }
}

#if CHANNELS
// How many columns of the result there is room for at once.
__device__ __forceinline__ int columns_at_once(const Axis& across, const Axis& down) {
    const long long room = (SUMS - WORD) / TOGETHER - across.taps - 2, step = across.step < 0 ? -across.step : across.step;
    if (room < 0 || down.taps > DOWN) return 0;
    const int weighed = min(WIDE, ACROSS / across.taps);
    return step * (WIDE - 1) >> 32 < room ? weighed : min((int)((room << 32) / step) + 1, weighed);
}
#else
__device__ __forceinline__ int columns_at_once(const Axis&, const Axis&) { return 0; }
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 2) each(const __grid_constant__ Job job) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    const Tile tile = tile_of(image.item, blockIdx.x);
    __shared__ Axis across, down;  // of all threads, whose registers are few
    if (threadIdx.x == 0) {
        across = axis_of(AXES(image.row), 0, image.item.in_width);
        down = axis_of(AXES(image.row), 1, image.item.in_height);
    }
    __syncthreads();
    const int most = columns_at_once(across, down);
    if (most < 1) {
        for (int e = threadIdx.x; e < tile.tall * tile.wide; e += THREADS)
            make(image, across, down, tile.top + e / tile.wide, tile.left + e % tile.wide);
        return;
    }
#if CHANNELS
    __shared__ Shared shared;
    for (int left = 0; left < tile.wide; left += most)
        make(image, tile, across, down, tile.left + left, min(most, tile.wide - left), shared);
#endif
}
