// A block makes TALL by WIDE pixels, each of its threads first two squares of four beside each other: of its tile 32
// blocks of luminance and 8 of each colour difference, at half the resolution, come to be in shared memory. Then a thread
// does rows of a block, or columns, as a whole. jpeg.py says what is done, all of it in whole numbers.
#include "words.cuh"
#include "tile.cuh"

constexpr int LUMINANCE = TALL / 8 * (WIDE / 8), BLOCKS = LUMINANCE * 3 / 2, BLUE = LUMINANCE, RED = LUMINANCE * 5 / 4;
constexpr int LINE = 9, BLOCK = 8 * LINE;  // 9, so that threads with neighbouring rows meet no bank twice
constexpr int BITS = 13, KEPT = 2;         // of the transform's factors, and more than a level has between its passes
static_assert(THREADS * 8 == TALL * WIDE, "");

// What a block has in shared memory: `parts` are the rounded reciprocals of 8 times the steps.
struct Shared {
    int values[BLOCKS * BLOCK], steps[128];
    float parts[128];
};

__device__ __forceinline__ int level(int x) { return min(max(x, 0), 255); }

struct Colour {
    int red, green, blue;
    __device__ __forceinline__ int luminance() const {
        return (red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16;
    }
    __device__ __forceinline__ int difference_of_blue() const {
        return (red * -11059 + green * -21709 + blue * 32768 + (128 << 16) + 32767) >> 16;
    }
    __device__ __forceinline__ int difference_of_red() const {
        return (red * 32768 + green * -27439 + blue * -5329 + (128 << 16) + 32767) >> 16;
    }
};

__device__ __forceinline__ int level_at(Address at, Real scale) { return stored<0>(load<IN>(at) * scale); }

__device__ __forceinline__ Colour colour_at(const Image& image, int y, int x) {
    const Address at = image.from(min(y, image.item.in_height - 1), min(x, image.item.in_width - 1));
    const Address step = (Address)image.item.in_strides[4];
    const Real scale = image.row.scale;
    return {level_at(at, scale), level_at(at + step, scale), level_at(at + 2 * step, scale)};
}

__device__ __forceinline__ int level_of(const Words<0, 3>& words, int number) {
    return __byte_perm(words.words[number / 4], 0, 0x4440 + number % 4);
}
__device__ __forceinline__ Colour colour_of(const Words<0, 3>& words, int pixel) {
    return {level_of(words, 3 * pixel), level_of(words, 3 * pixel + 1), level_of(words, 3 * pixel + 2)};
}

// Whether four pixels of a row, from every fourth on, are whole words.
__device__ __forceinline__ bool rows_are_words(Address at, const long long* strides) {
    return (at % sizeof(unsigned) == 0) & (strides[2] % sizeof(unsigned) == 0) & (strides[3] == 3) & (strides[4] == 1);
}

// Where in shared memory the two squares of a thread are: luminance, less 128, and both differences.
struct Squares {
    int *luminance, *half;
    __device__ __forceinline__ Squares(int* values, int y, int x)
        : luminance(values + (y / 8 * (WIDE / 8) + x / 8) * BLOCK + y % 8 * LINE + x % 8),
          half(values + (y / 16 * (WIDE / 16) + x / 16) * BLOCK + y / 2 % 8 * LINE + x / 2 % 8) {}
    __device__ __forceinline__ void put_luminance(int square, const Colour (&colours)[4]) const {
#pragma unroll
        for (int k = 0; k < 4; k++) luminance[k / 2 * LINE + 2 * square + k % 2] = colours[k].luminance() - 128;
    }
    // Means that lie at a half are rounded down and up in turn.
    __device__ __forceinline__ void put_differences(int square, const Colour (&colours)[4]) const {
        int blue = 1 + square, red = 1 + square;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            blue += colours[k].difference_of_blue();
            red += colours[k].difference_of_red();
        }
        half[BLUE * BLOCK + square] = (blue >> 2) - 128;
        half[RED * BLOCK + square] = (red >> 2) - 128;
    }
};

// Beyond the image its last pixels come again, in each plane of its own size.
__device__ __forceinline__ void take_squares(const Image& image, int top, int left, int* values) {
    const int own_y = threadIdx.x / (WIDE / FOUR) * 2, own_x = threadIdx.x % (WIDE / FOUR) * FOUR;
    const int y = top + own_y, x = left + own_x, height = image.item.in_height, width = image.item.in_width;
    if (x >= width + 15 || y >= height + 15) return;  // of no block of it
    const Squares squares(values, own_y, own_x);
    const bool whole_inside = (y + 2 <= height) & (x + FOUR <= width);
    if (IN == 0 && (whole_inside & rows_are_words(image.in, image.item.in_strides))) {
        Words<0, 3> lines[2];
        lines[0].read(image.from(y, x), 0);
        lines[1].read(image.from(y + 1, x), 0);
#pragma unroll
        for (int square = 0; square < 2; square++) {
            Colour colours[4];
#pragma unroll
            for (int k = 0; k < 4; k++) colours[k] = colour_of(lines[k / 2], 2 * square + k % 2);
            squares.put_luminance(square, colours);
            squares.put_differences(square, colours);
        }
        return;
    }
    const int half = min(y / 2, (height - 1) / 2) * 2;
#pragma unroll 1
    for (int square = 0; square < 2; square++) {
        Colour colours[4];
#pragma unroll
        for (int k = 0; k < 4; k++) colours[k] = colour_at(image, y + k / 2, x + 2 * square + k % 2);
        squares.put_luminance(square, colours);
        if (half != y)
#pragma unroll
            for (int k = 0; k < 4; k++) colours[k] = colour_at(image, half + k / 2, x + 2 * square + k % 2);
        squares.put_differences(square, colours);
    }
}

template <int COUNT> __device__ __forceinline__ int rounded_off(int x) { return (x + (1 << (COUNT - 1))) >> COUNT; }

// The part of four values that both ways of the transform have in common.
struct Odd {
    int a, b, c, d;
    __device__ __forceinline__ Odd(int p, int q, int r, int s) {
        const int common = (p + q + r + s) * 9633, outer = (p + s) * -7373, inner = (q + r) * -20995;
        const int even = (p + r) * -16069 + common, odd = (q + s) * -3196 + common;
        a = p * 2446 + outer + even, b = q * 16819 + inner + odd;
        c = r * 25172 + inner + even, d = s * 12299 + outer + odd;
    }
};

// Eight values as frequencies, by the first pass or the second.
template <bool SECOND> __device__ __forceinline__ void find_frequencies(int (&x)[8]) {
    constexpr int COUNT = SECOND ? BITS + KEPT : BITS - KEPT;
    const int a = x[0] + x[7], b = x[1] + x[6], c = x[2] + x[5], d = x[3] + x[4];
    const Odd odd(x[3] - x[4], x[2] - x[5], x[1] - x[6], x[0] - x[7]);
    const int outer = a - d, inner = b - c, common = (outer + inner) * 4433;
    x[0] = SECOND ? rounded_off<KEPT>(a + d + (b + c)) : (a + d + (b + c)) * (1 << KEPT);
    x[4] = SECOND ? rounded_off<KEPT>(a + d - (b + c)) : (a + d - (b + c)) * (1 << KEPT);
    x[2] = rounded_off<COUNT>(common + outer * 6270);
    x[6] = rounded_off<COUNT>(common - inner * 15137);
    x[7] = rounded_off<COUNT>(odd.a), x[5] = rounded_off<COUNT>(odd.b);
    x[3] = rounded_off<COUNT>(odd.c), x[1] = rounded_off<COUNT>(odd.d);
}

// The way back, which then takes away so many bits.
template <int COUNT> __device__ __forceinline__ void find_places(int (&x)[8]) {
    const int common = (x[2] + x[6]) * 4433, low = common - x[6] * 15137, high = common + x[2] * 6270;
    const int sum = (x[0] + x[4]) * (1 << BITS), difference = (x[0] - x[4]) * (1 << BITS);
    const Odd odd(x[7], x[5], x[3], x[1]);
    const int even[] = {sum + high, difference + low, difference - low, sum - high}, own[] = {odd.d, odd.c, odd.b, odd.a};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        x[k] = rounded_off<COUNT>(even[k] + own[k]);
        x[7 - k] = rounded_off<COUNT>(even[k] - own[k]);
    }
}

// Coefficients rounded to multiples of the steps, 8 apart. The sum with 1.5·2²³ is rounded to a whole number; a quarter
// more, away from 0, is less than from one quotient to the next, but takes halves away from 0.
__device__ __forceinline__ void round_to(const Shared& shared, int first, int (&line)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const float size = (float)line[k], more = size + copysignf(0.25f, size);
        const int kept = (int)__float_as_uint(fmaf(more, shared.parts[first + 8 * k], 12582912.0f)) - 0x4B400000;
        line[k] = kept * shared.steps[first + 8 * k];
    }
}

// Calls `make` for a row of a block of luminance, or a column, and for one of a colour difference if there are any for
// the thread: with how far it is to that block's values, and to its steps. What has nothing of the image is left out.
struct Lines {
    bool luminance, difference;
    template <class Make> __device__ __forceinline__ void make(Make make) const {
#pragma unroll 1
        for (int n = 0; n < 2; n++)
            if (n ? difference : luminance) make(n * LUMINANCE * BLOCK, n * 64);
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
    int *const row = shared.values + block * BLOCK + place * LINE, *const column = shared.values + block * BLOCK + place;
    const Lines lines = lines_of(image, top, left);
    lines.make([&](int aside, int) {
        int line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = row[aside + k];
        find_frequencies<false>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) row[aside + k] = line[k];
    });
    lines.make([&](int aside, int steps) {
        int line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = column[aside + k * LINE];
        find_frequencies<true>(line);
        round_to(shared, steps + place, line);
        find_places<BITS - KEPT>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) column[aside + k * LINE] = line[k];
    });
    lines.make([&](int aside, int) {
        int line[8];
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = row[aside + k];
        find_places<BITS + KEPT + 3>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) row[aside + k] = level(line[k] + 128);
    });
}

// Red, green and blue of a pixel, before they are levels.
__device__ __forceinline__ Colour found_at(const int* values, int y, int x) {
    const int luminance = values[(y / 8 * (WIDE / 8) + x / 8) * BLOCK + y % 8 * LINE + x % 8];
    const int* const half = values + (y / 16 * (WIDE / 16) + x / 16) * BLOCK + y / 2 % 8 * LINE + x / 2 % 8;
    const int blue = half[BLUE * BLOCK] - 128, red = half[RED * BLOCK] - 128;
    return {luminance + ((red * 91881 + 32768) >> 16), luminance + ((blue * -22554 + red * -46802 + 32768) >> 16),
            luminance + ((blue * 116130 + 32768) >> 16)};
}

__device__ __forceinline__ void put(const Image& image, int y, int x, const Colour& colour) {
    const Address out = image.to(y, x), step = (Address)image.item.out_strides[4];
    store<OUT>(out, Real((float)level(colour.red)) / image.row.scale);
    store<OUT>(out + step, Real((float)level(colour.green)) / image.row.scale);
    store<OUT>(out + 2 * step, Real((float)level(colour.blue)) / image.row.scale);
}

__device__ __forceinline__ void give(const Image& image, int top, int left, const int* values) {
    const bool by_words = IN == 0 && OUT == 0 && rows_are_words(image.out, image.item.out_strides);
    for (int e = threadIdx.x; e < TALL * WIDE / FOUR; e += THREADS) {
        const int y = e / (WIDE / FOUR), x = e % (WIDE / FOUR) * FOUR, rest = image.item.width - left - x;
        if (top + y >= image.item.height || rest <= 0) continue;
        if (by_words && rest >= FOUR) {
            Colour found[FOUR];
#pragma unroll
            for (int k = 0; k < FOUR; k++) found[k] = found_at(values, y, x + k);
            Words<0, 3> words;
            words.words[0] = word_of(found[0].red, found[0].green, found[0].blue, found[1].red);
            words.words[1] = word_of(found[1].green, found[1].blue, found[2].red, found[2].green);
            words.words[2] = word_of(found[2].blue, found[3].red, found[3].green, found[3].blue);
            words.write(image.to(top + y, left + x), 0);
            continue;
        }
#pragma unroll 1
        for (int k = 0; k < min(rest, FOUR); k++) put(image, top + y, left + x + k, found_at(values, y, x + k));
    }
}

// What is given, as it is.
__device__ __forceinline__ void copy(const Image& image, int top, int left) {
    for (int e = threadIdx.x; e < TALL * WIDE; e += THREADS) {
        const int y = top + e / WIDE, x = left + e % WIDE;
        if (y >= image.item.height || x >= image.item.width) continue;
        const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll 1
        for (int channel = 0; channel < 3; channel++)
            store<OUT>(out + (Address)(channel * image.item.out_strides[4]),
                       load<IN>(in + (Address)(channel * image.item.in_strides[4])));
    }
}

__device__ __forceinline__ void find_steps(const Row& row, Shared& shared) {
    for (int e = threadIdx.x; e < 128; e += THREADS) {
        const int step = (unsigned)row.steps[e / 4] >> e % 4 * 8 & 255u;
        shared.steps[e] = step;
        shared.parts[e] = (Real(1.0f) / Real((float)(8 * step))).v;
    }
}

KERNEL(4, each) {
    __shared__ Shared shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (image.row.acts) find_steps(image.row, shared);
    for (int place = blockIdx.x; place < tiles_of(image.item); place += gridDim.x) {
        const Tile tile = tile_of(image.item, place);
        if (!image.row.acts) {
            copy(image, tile.top, tile.left);
            continue;
        }
        __syncthreads();  // the steps are there, and nobody needs the last tile
        take_squares(image, tile.top, tile.left, shared.values);
        __syncthreads();
        squeeze(image, tile.top, tile.left, shared);
        give(image, tile.top, tile.left, shared.values);
    }
}
