// Interpolated values at the positions of a projective map, as by interpolate.py.
//
// Neighboring threads compute the pixels of a square, whose sources are close together for any rotation. Bytes of contiguous
// pixels are read as words, a row of taps at once, unless some are beyond the border.
#include "tile.cuh"
#include "bytes.cuh"
#include "place.cuh"
#include "reciprocal.cuh"

constexpr int LANES = 32, BROAD = 8, HIGH = LANES / BROAD;  // the pixels that the threads of a warp make at once

// The pixels that a thread makes, and where they are.
constexpr int PIXELS = WIDE / BROAD * (TALL / (THREADS / BROAD));
__device__ __forceinline__ int line_of(Tile tile, int number) {
    const int lane = threadIdx.x % LANES;
    return tile.top + threadIdx.x / LANES * HIGH + lane / BROAD + number / (WIDE / BROAD) * (THREADS / BROAD);
}
__device__ __forceinline__ int column_of(Tile tile, int number) {
    return tile.left + threadIdx.x % BROAD + number % (WIDE / BROAD) * BROAD;
}

struct Taps {
    int first;
    Real part;  // of a pixel, behind the tap before
    Real weights[4];
};

__device__ __forceinline__ Real cubic(Real u) {
    const Real near = (Real(1.5f) * u - Real(2.5f)) * u * u + Real(1.0f);
    const Real far = ((Real(2.5f) - Real(0.5f) * u) * u - Real(4.0f)) * u + Real(2.0f);
    return u.v < 1.0f ? near : u.v < 2.0f ? far : Real(0.0f);
}

__device__ __forceinline__ Real cubic_weight(Real part, int number) { return cubic(fabsf((part - Real((float)(number - 1))).v)); }

__device__ __forceinline__ Taps taps_at(Real place, int kind) {
    if (kind == 0) return {(int)floorf(place.v), 0.0f, {1.0f, 0.0f, 0.0f, 0.0f}};
    const Real moved = place - Real(0.5f);
    const int first = (int)floorf(moved.v);
    const Real part = moved - Real((float)first);
    if (kind == 1) return {first, part, {Real(1.0f) - part, part, 0.0f, 0.0f}};
    Taps taps = {first - 1, part};
#pragma unroll
    for (int k = 0; k < 4; k++) taps.weights[k] = cubic_weight(part, k);
    return taps;
}

__device__ __forceinline__ Real weight_of(const Taps& taps, int number) {
    const Real low = number & 1 ? taps.weights[1] : taps.weights[0], high = number & 1 ? taps.weights[3] : taps.weights[2];
    return number & 2 ? high : low;
}

__device__ __forceinline__ bool is_inside(int place, int length) { return place >= 0 && place < length; }

__device__ __forceinline__ int limited(int place, int length) { return min(max(place, 0), length - 1); }

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Real column = (float)x + 0.5f, line = (float)y + 0.5f;
    const Real* m = image.row.matrix;
    const Real divisor = m[6] * column + m[7] * line + m[8], fill = image.row.fill;
    const int kind = image.row.kind, count = kind == 2 ? 4 : kind + 1;
    const Taps across = taps_at(coordinate_at(m, column, line, divisor), kind);
    const Taps down = taps_at(coordinate_at(m + 3, column, line, divisor), kind);
    const int width = image.item.in_width, height = image.item.in_height;
    const bool repeats = fill.v != fill.v;
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        const Address plane = image.in + (Address)(channel * image.item.in_strides[4]);
        Real totals[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) totals[k] = 0.0f;
#pragma unroll 1
        for (int j = 0; j < count; j++) {
            const int row = down.first + j;
            const Real weight = weight_of(down, j);
            Real sums[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) sums[k] = 0.0f;
#pragma unroll 1
            for (int i = 0; i < count; i++) {
                const int at = across.first + i;
                const Real share = weight_of(across, i);
                const bool known = repeats || (is_inside(at, width) && is_inside(row, height));
                const Address from = plane + (Address)(limited(row, height) * image.item.in_strides[2] +
                                                       limited(at, width) * image.item.in_strides[3]);
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    const Real value = known ? load<IN>(from + (Address)(k * image.item.in_strides[4])) : fill;
                    sums[k] = sums[k] + share * value;
                }
            }
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) totals[k] = totals[k] + weight * sums[k];
        }
        const Address to = image.to(y, x) + (Address)(channel * image.item.out_strides[4]);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) store<OUT>(to + (Address)(k * image.item.out_strides[4]), totals[k]);
    }
}

// The numbers of the pixels that are in the image.
__device__ __forceinline__ unsigned every_pixel(const Image& image, Tile tile) {
    unsigned found = 0;
    for (int k = 0; k < PIXELS; k++)
        if (column_of(tile, k) < image.item.width && line_of(tile, k) < image.item.height) found |= 1u << k;
    return found;
}

#if CHANNELS && IN == 0
// What every pixel needs of an image, taken out of memory once.
struct Plain {
    Real m[9], fill;
    int width, height, line_step;
    long long plane;
    __device__ __forceinline__ explicit Plain(const Image& image)
        : fill(image.row.fill), width(image.item.in_width), height(image.item.in_height),
          line_step((int)image.item.in_strides[2]), plane(image.item.out_strides[4]) {
#pragma unroll
        for (int k = 0; k < 9; k++) m[k] = image.row.matrix[k];
    }
};

// The result of COUNT by COUNT taps whose weights are not negative; sums need not begin at 0, for no product is -0.
template <int COUNT> __device__ __forceinline__ void weigh(Address from, int step, Taps across, Taps down, Real* totals) {
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        Bytes<COUNT * CHANNELS> bytes;
        bytes.read(from + (Address)((long long)j * step));
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) {
            Real sum = bytes.times(across.weights[0], k);
#pragma unroll
            for (int i = 1; i < COUNT; i++) sum = sum + bytes.times(across.weights[i], i * CHANNELS + k);
            totals[k] = j ? totals[k] + down.weights[j] * sum : down.weights[j] * sum;
        }
    }
}
// The same of four by four. They need so many registers that weights are made where they are used.
__device__ __forceinline__ void weigh_cubic(Address from, int step, Taps across, Real part, Real* totals) {
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) totals[k] = 0.0f;
#pragma unroll 1
    for (int j = 0; j < 4; j++, from += (Address)(long long)step) {
        Bytes<4 * CHANNELS> bytes;
        bytes.read(from);
        const Real weight = cubic_weight(part, j);
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) {
            Real sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 4; i++) sum = sum + across.weights[i] * bytes.get(i * CHANNELS + k);
            totals[k] = totals[k] + weight * sum;
        }
    }
}

template <int COUNT> __device__ __forceinline__ void weigh(Real fill, Taps across, Taps down, Real* totals) {
    Real sum = across.weights[0] * fill;
#pragma unroll
    for (int i = 1; i < COUNT; i++) sum = sum + across.weights[i] * fill;
    Real total = down.weights[0] * sum;
#pragma unroll
    for (int j = 1; j < COUNT; j++) total = total + down.weights[j] * sum;
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) totals[k] = total;
}

// Stores values that are `step` bytes apart; three bytes are made at once.
__device__ __forceinline__ void store_pixel(Address to, long long step, const Real (&values)[CHANNELS]) {
    if constexpr (OUT == 0 && CHANNELS == 3) {
        const unsigned bytes = word_of(values[0], values[1], values[2], 0.0f);
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) *(unsigned char*)(to + (Address)(k * step)) = bytes >> 8 * k;
    } else {
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) store<OUT>(to + (Address)(k * step), values[k]);
    }
}

constexpr float NEAR_ZERO = 1.0f / (1ll << 40);  // divisors down to which, and up to the reciprocal, quotients need no care

// Makes the pixels of a thread whose taps are all within the image, or all outside of it; returns which the others are.
//
// FLAT: the map has no perspective.
template <int KIND, bool FLAT> __device__ __forceinline__ unsigned make_plain(const Image& image, Tile tile) {
    constexpr int COUNT = KIND == 2 ? 4 : KIND + 1;
    const Plain plain(image);
    unsigned left = 0;
#pragma unroll 1
    for (int k = 0; k < PIXELS; k++) {
        const int x = column_of(tile, k), y = line_of(tile, k);
        if (x >= image.item.width || y >= image.item.height) continue;
        const Real *m = plain.m, column = (float)x + 0.5f, line = (float)y + 0.5f;
        Real from_x = sum_at(m, column, line), from_y = sum_at(m + 3, column, line);
        if (!FLAT) {
            const Real divisor = sum_at(m + 6, column, line), part = reciprocal(divisor);
            from_x = quotient(from_x, divisor, part), from_y = quotient(from_y, divisor, part);
            if (!(fabsf(divisor.v) > NEAR_ZERO && fabsf(divisor.v) < 1.0f / NEAR_ZERO)) {
                left |= 1u << k;
                continue;
            }
        }
        const Taps across = taps_at(clamp_coordinate(from_x), KIND), down = taps_at(clamp_coordinate(from_y), KIND);
        const int right = across.first + COUNT - 1, bottom = down.first + COUNT - 1;
        Real totals[CHANNELS];
        if (is_inside(across.first, plain.width - COUNT + 1) && is_inside(down.first, plain.height - COUNT + 1)) {
            const Address from = image.in + (Address)((long long)down.first * plain.line_step + across.first * CHANNELS);
            if constexpr (KIND == 2)
                weigh_cubic(from, plain.line_step, across, down.part, totals);
            else
                weigh<COUNT>(from, plain.line_step, across, down, totals);
        } else if (KIND < 2 && plain.fill.v >= 0.0f && (right < 0 || bottom < 0 || across.first >= plain.width || down.first >= plain.height)) {
            weigh<COUNT>(plain.fill, across, down, totals);
        } else {
            left |= 1u << k;
            continue;
        }
        store_pixel(image.to(y, x), plain.plane, totals);
    }
    return left;
}

template <int KIND> __device__ __forceinline__ unsigned make_plain(const Image& image, Tile tile) {
    const Real* m = image.row.matrix;
    const bool flat = m[6].v == 0.0f && m[7].v == 0.0f && m[8].v == 1.0f;
    if (flat) return make_plain<KIND, true>(image, tile);
    if constexpr (KIND < 2) return make_plain<KIND, false>(image, tile);
    return every_pixel(image, tile);  // a thread would have too few registers
}

__device__ __forceinline__ unsigned make_plain(const Image& image, Tile tile) {
    const long long* strides = image.item.in_strides;
    const bool beside = strides[4] == 1 && strides[3] == CHANNELS && strides[2] == (int)strides[2];
    if (!beside) return every_pixel(image, tile);
    if (image.row.kind == 1) return make_plain<1>(image, tile);
    return image.row.kind ? make_plain<2>(image, tile) : make_plain<0>(image, tile);
}
#else
__device__ __forceinline__ unsigned make_plain(const Image& image, Tile tile) { return every_pixel(image, tile); }
#endif

#include "shifted.cuh"
#include "staged.cuh"

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    const Tile tile = tile_of(image.item, blockIdx.x);
    if (is_shifted(image)) return shift(image, tile);
    if (make_tile(image, tile)) return;
    const unsigned left = make_plain(image, tile);
#pragma unroll 1
    for (int k = 0; k < PIXELS; k++)
        if (left >> k & 1) make(image, line_of(tile, k), column_of(tile, k));
}
