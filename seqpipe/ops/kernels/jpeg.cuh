// A block makes TALL by WIDE pixels, each of its threads first two squares of four beside each other: of its tile 32
// blocks of luminance and 8 of each colour difference, at half the resolution, come to be in shared memory. Then a thread
// does rows of a block, or columns, as a whole. jpeg.py says what is done, and in which order; the operator's text is
// the transform.
#include "words.cuh"

constexpr int LUMINANCE = TALL / 8 * (WIDE / 8), BLOCKS = LUMINANCE * 3 / 2, BLUE = LUMINANCE, RED = LUMINANCE * 5 / 4;
constexpr int LINE = 9, BLOCK = 8 * LINE;  // 9, so that threads with neighbouring rows meet no bank twice
static_assert(THREADS * 8 == TALL * WIDE, "");

// What a block has in shared memory: `parts` are the rounded reciprocals of the steps.
struct Shared {
    Real values[BLOCKS * BLOCK], steps[128], parts[128];
};

// Of numbers below 2²² the nearest whole one, half to even, quicker than by a conversion.
__device__ __forceinline__ Real whole(Real x) { return x + Real(12582912.0f) - Real(12582912.0f); }

__device__ __forceinline__ Real level(Real value) { return whole(fminf(fmaxf(value.v, 0.0f), 255.0f)); }

struct Colour {
    Real red, green, blue;
    __device__ __forceinline__ Real weighted(float r, float g, float b) const { return red * r + green * g + blue * b; }
};

__device__ __forceinline__ Colour colour_at(const Image& image, int y, int x) {
    const Address at = image.from(min(y, image.item.in_height - 1), min(x, image.item.in_width - 1));
    const Address step = (Address)image.item.in_strides[4];
    const Real scale = image.row.scale;
    return {level(load<IN>(at) * scale), level(load<IN>(at + step) * scale), level(load<IN>(at + 2 * step) * scale)};
}

// Whether four pixels of a row, from every fourth on, are whole words.
__device__ __forceinline__ bool rows_are_words(Address at, const long long* strides) {
    return (at % sizeof(unsigned) == 0) & (strides[2] % sizeof(unsigned) == 0) & (strides[3] == 3) & (strides[4] == 1);
}

// The values of two squares: luminance of eight pixels, less 128, and their differences added up.
struct Squares {
    Real luminance[8], blue[2], red[2];
    __device__ __forceinline__ void add(int number, const Colour& colour, const Colour& of_differences) {
        // of levels from 0 to 255 only differences are ever beyond that, by a half at the upper end
        luminance[number] = whole(colour.weighted(0.299f, 0.587f, 0.114f)) - 128.0f;
        Real &blues = blue[number % 4 / 2], &reds = red[number % 4 / 2];
        blues = blues + fminf(whole(of_differences.weighted(-0.168735892f, -0.331264108f, 0.5f) + 128.0f).v, 255.0f);
        reds = reds + fminf(whole(of_differences.weighted(0.5f, -0.418687589f, -0.081312411f) + 128.0f).v, 255.0f);
    }
};

// Beyond the image its last pixels come again, in each plane of its own size.
__device__ __forceinline__ Squares squares_at(const Image& image, int y, int x) {
    Squares squares;
#pragma unroll
    for (int k = 0; k < 2; k++) squares.blue[k] = squares.red[k] = 0.0f;
    const bool whole_inside = (y + 2 <= image.item.in_height) & (x + FOUR <= image.item.in_width);
    if (IN == 0 && (whole_inside & rows_are_words(image.in, image.item.in_strides))) {
        Words<0, 3> words;
#pragma unroll
        for (int line = 0; line < 2; line++) {
            Real values[FOUR * 3];
            words.read(image.from(y + line, x), 0);
            words.give(values);
#pragma unroll
            for (int k = 0; k < FOUR; k++) {
                const Colour colour = {values[3 * k], values[3 * k + 1], values[3 * k + 2]};
                squares.add(line * FOUR + k, colour, colour);
            }
        }
        return squares;
    }
    const int half = min(y / 2, (image.item.in_height - 1) / 2) * 2;
#pragma unroll
    for (int k = 0; k < 2 * FOUR; k++) {
        const Colour colour = colour_at(image, y + k / FOUR, x + k % FOUR);
        squares.add(k, colour, half == y ? colour : colour_at(image, half + k / FOUR, x + k % FOUR));
    }
    return squares;
}

__device__ __forceinline__ void take_squares(const Image& image, int top, int left, Real* values) {
    const int y = threadIdx.x / (WIDE / FOUR) * 2, x = threadIdx.x % (WIDE / FOUR) * FOUR;
    if (left + x >= image.item.in_width + 15 || top + y >= image.item.in_height + 15) return;  // of no block of it
    const Squares squares = squares_at(image, top + y, left + x);
    Real* const at = values + (y / 8 * (WIDE / 8) + x / 8) * BLOCK + y % 8 * LINE + x % 8;
#pragma unroll
    for (int k = 0; k < 2 * FOUR; k++) at[k / FOUR * LINE + k % FOUR] = squares.luminance[k];
    Real* const half = values + (y / 16 * (WIDE / 16) + x / 16) * BLOCK + y / 2 % 8 * LINE + x / 2 % 8;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const float turn = (float)(1 + k);
        half[BLUE * BLOCK + k] = Real(floorf(((squares.blue[k] + turn) * 0.25f).v)) - 128.0f;
        half[RED * BLOCK + k] = Real(floorf(((squares.red[k] + turn) * 0.25f).v)) - 128.0f;
    }
}

// Eight values as frequencies, or back. Products with factors that differ in their sign only are made once.
template <bool BACK> __device__ __forceinline__ void turn(Real (&values)[8]) {
    constexpr float cosines[] = {BODY};
    Real found[8];
#pragma unroll
    for (int to = 0; to < 8; to++) {
        found[to] = values[0] * cosines[BACK ? to : to * 8];
#pragma unroll
        for (int k = 1; k < 8; k++) {
            const float factor = cosines[BACK ? k * 8 + to : to * 8 + k];
            found[to] = factor < 0.0f ? found[to] - values[k] * -factor : found[to] + values[k] * factor;
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) values[k] = found[k];
}

// Numbers rounded to multiples of the steps, `step` and 8 apart. The quotients by whole numbers of 8 bits are those that
// division gives: the remainder is exact, and none of them lies so near to the middle of two floats.
__device__ __forceinline__ void round_to(const Shared& shared, int first, Real (&line)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const Real step = shared.steps[first + 8 * k], part = shared.parts[first + 8 * k], near = line[k] * part;
        line[k] = whole(fmaf(fmaf(-near.v, step.v, line[k].v), part.v, near.v)) * step;
    }
}

// Calls `make` for a row of a block of luminance, or a column, and for one of a colour difference if there are any for
// the thread: with how far it is to that block's values, and to its steps. What has nothing of the image is left out.
struct Lines {
    bool luminance, difference;
    template <class Make> __device__ __forceinline__ void make(Make make) const {
        if (luminance) make(0, 0);
        if (difference) make(LUMINANCE * BLOCK, 64);
        __syncthreads();
    }
};
static_assert(THREADS == LUMINANCE * 8, "");

__device__ __forceinline__ Lines lines_of(const Image& image, int top, int left) {
    const int block = threadIdx.x / 8, half = block % (LUMINANCE / 4);
    const int width = image.item.in_width - left, height = image.item.in_height - top;  // of what there is of the image
    const bool luminance = block % (WIDE / 8) * 8 < width && block / (WIDE / 8) * 8 < height;
    const bool difference = half % (WIDE / 16) * 16 < width && half / (WIDE / 16) * 16 < height;
    return {luminance, block < LUMINANCE / 2 && difference};
}

__device__ __forceinline__ void squeeze(const Image& image, int top, int left, Shared& shared) {
    const int block = threadIdx.x / 8, place = threadIdx.x % 8;
    Real *const row = shared.values + block * BLOCK + place * LINE, *const column = shared.values + block * BLOCK + place;
    const Lines lines = lines_of(image, top, left);
    for (int e = threadIdx.x; e < 128; e += THREADS) {
        const Real step = (float)((unsigned)image.row.steps[e / 4] >> e % 4 * 8 & 255u);
        shared.steps[e] = step;
        shared.parts[e] = Real(1.0f) / step;
    }
    __syncthreads();
    lines.make([&](int aside, int) {
        Real line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = row[aside + k];
        turn<false>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) row[aside + k] = line[k];
    });
    lines.make([&](int aside, int steps) {
        Real line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = column[aside + k * LINE];
        turn<false>(line);
        round_to(shared, steps + place, line);
        turn<true>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) column[aside + k * LINE] = line[k];
    });
    lines.make([&](int aside, int) {
        Real line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = row[aside + k];
        turn<true>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) row[aside + k] = level(line[k] + 128.0f);
    });
}

// Red, green and blue of four pixels, before they are rounded.
__device__ __forceinline__ void colours_of(const Real* values, int y, int x, Real (&found)[FOUR * 3]) {
    const Real* const luminance = values + (y / 8 * (WIDE / 8) + x / 8) * BLOCK + y % 8 * LINE + x % 8;
    const Real* const half = values + (y / 16 * (WIDE / 16) + x / 16) * BLOCK + y / 2 % 8 * LINE + x / 2 % 8;
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        const Real blue = half[BLUE * BLOCK + k / 2] - 128.0f, red = half[RED * BLOCK + k / 2] - 128.0f;
        found[3 * k] = luminance[k] + red * 1.402f;
        found[3 * k + 1] = luminance[k] + (blue * -0.344136286f + red * -0.714136286f);
        found[3 * k + 2] = luminance[k] + blue * 1.772f;
    }
}

__device__ __forceinline__ void give(const Image& image, int top, int left, const Real* values) {
    const Row& row = image.row;
    const bool by_words = IN == 0 && OUT == 0 && rows_are_words(image.in, image.item.in_strides) &&
                          rows_are_words(image.out, image.item.out_strides);
    for (int e = threadIdx.x; e < TALL * WIDE / FOUR; e += THREADS) {
        const int y = e / (WIDE / FOUR), x = e % (WIDE / FOUR) * FOUR, rest = image.item.width - left - x;
        if (top + y >= image.item.height || rest <= 0) continue;
        Real found[FOUR * 3];
        if (row.acts) colours_of(values, y, x, found);
        if (IN == 0 && OUT == 0 && by_words && rest >= FOUR) {
            Words<0, 3> words;
            if (row.acts)
                words.take(found);
            else
                words.read(image.from(top + y, left + x), 0);
            words.write(image.to(top + y, left + x), 0);
            continue;
        }
#pragma unroll
        for (int k = 0; k < FOUR * 3; k++) {
            if (k / 3 >= rest) break;
            const Address in = image.from(top + y, left + x + k / 3) + (Address)(k % 3 * image.item.in_strides[4]);
            const Address out = image.to(top + y, left + x + k / 3) + (Address)(k % 3 * image.item.out_strides[4]);
            store<OUT>(out, row.acts ? level(found[k]) / row.scale : load<IN>(in));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ Shared shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const int across = (image.item.width + WIDE - 1) / WIDE;
    const int top = blockIdx.x / across * TALL, left = blockIdx.x % across * WIDE;
    if (top >= image.item.height) return;
    if (image.row.acts) {
        take_squares(image, top, left, shared.values);
        squeeze(image, top, left, shared);
    }
    give(image, top, left, shared.values);
}
