/* The JPEG distortion of jpeg.py in C: macroblocks of 16×16 pixels, in the same integer arithmetic. */

#include <stdint.h>

enum { KEPT = 2, BITS = 13 };
enum { BLOCK = 64, BLUE = 4 * BLOCK, RED = 5 * BLOCK, SQUARE = 6 * BLOCK }; /* offsets in a macroblock: luma first */

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t level(int32_t x) { return x < 0 ? 0 : x > 255 ? 255 : x; }
static int32_t rounded(int32_t x, int bits) { return (x + (1 << (bits - 1))) >> bits; }

/* The odd part, which the forward and the inverse transform share. */
static void odd(int32_t a, int32_t b, int32_t c, int32_t d, int32_t *out) {
    const int32_t common = (a + b + c + d) * 9633, outer = (a + d) * -7373, inner = (b + c) * -20995;
    const int32_t even = (a + c) * -16069 + common, other = (b + d) * -3196 + common;
    out[0] = a * 2446 + outer + even;
    out[1] = b * 16819 + inner + other;
    out[2] = c * 25172 + inner + even;
    out[3] = d * 12299 + outer + other;
}

/* Forward transform of eight values, `step` apart; first pass, or second. */
static void find_frequencies(int32_t *x, int step, int second) {
    int32_t sums[4], differences[4], parts[4];
    for (int k = 0; k < 4; k++) {
        sums[k] = x[k * step] + x[(7 - k) * step];
        differences[k] = x[k * step] - x[(7 - k) * step];
    }
    const int bits = second ? BITS + KEPT : BITS - KEPT;
    const int32_t first = sums[0] + sums[3] + sums[1] + sums[2], middle = sums[0] + sums[3] - sums[1] - sums[2];
    const int32_t outer = sums[0] - sums[3], inner = sums[1] - sums[2], common = (outer + inner) * 4433;
    odd(differences[3], differences[2], differences[1], differences[0], parts);
    x[0] = second ? rounded(first, KEPT) : first * (1 << KEPT);
    x[4 * step] = second ? rounded(middle, KEPT) : middle * (1 << KEPT);
    x[2 * step] = rounded(common + outer * 6270, bits);
    x[6 * step] = rounded(common - inner * 15137, bits);
    for (int k = 0; k < 4; k++)
        x[(7 - 2 * k) * step] = rounded(parts[k], bits);
}

/* Inverse transform. */
static void find_places(int32_t *x, int step, int bits) {
    int32_t parts[4];
    const int32_t common = (x[2 * step] + x[6 * step]) * 4433;
    const int32_t low = common - x[6 * step] * 15137, high = common + x[2 * step] * 6270;
    const int32_t sum = (x[0] + x[4 * step]) * (1 << BITS), difference = (x[0] - x[4 * step]) * (1 << BITS);
    const int32_t even[4] = {sum + high, difference + low, difference - low, sum - high};
    odd(x[7 * step], x[5 * step], x[3 * step], x[step], parts);
    for (int k = 0; k < 4; k++) {
        x[k * step] = rounded(even[k] + parts[3 - k], bits);
        x[(7 - k) * step] = rounded(even[k] - parts[3 - k], bits);
    }
}

/* Quantizes a block of 8×8 values, minus 128. */
static void squeeze(int32_t *block, const uint8_t *steps) {
    for (int row = 0; row < 8; row++)
        find_frequencies(block + 8 * row, 1, 0);
    for (int column = 0; column < 8; column++)
        find_frequencies(block + column, 8, 1);
    for (int k = 0; k < 64; k++) {
        const int32_t step = steps[k], size = block[k] < 0 ? -block[k] : block[k];
        const int32_t kept = (size + 4 * step) / (8 * step) * step;
        block[k] = block[k] < 0 ? -kept : kept;
    }
    for (int column = 0; column < 8; column++)
        find_places(block + column, 8, BITS - KEPT);
    for (int row = 0; row < 8; row++)
        find_places(block + 8 * row, 1, BITS + KEPT + 3);
    for (int k = 0; k < 64; k++)
        block[k] = level(block[k] + 128);
}

/* Offset of a pixel in the luma blocks of a macroblock. */
static int place_of(int y, int x) { return (y / 8 * 2 + x / 8) * BLOCK + y % 8 * 8 + x % 8; }

/* Loads the blocks of luma and of both chroma planes of a macroblock; edge pixels are repeated beyond the image. */
static void take(const uint8_t *in, int32_t height, int32_t width, int32_t top, int32_t left, int32_t *square) {
    const int32_t last_half = (height - 1) / 2;
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++) {
            const int32_t column = least(left + x, width - 1);
            const uint8_t *rgb = in + ((int64_t)least(top + y, height - 1) * width + column) * 3;
            square[place_of(y, x)] = ((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) >> 16) - 128;
        }
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) {
            const int32_t half = 2 * least(top / 2 + y, last_half);
            int32_t blue = 1 + x % 2, red = 1 + x % 2;
            for (int k = 0; k < 4; k++) {
                const int32_t row = least(half + k / 2, height - 1), column = least(left + 2 * x + k % 2, width - 1);
                const uint8_t *rgb = in + ((int64_t)row * width + column) * 3;
                blue += (rgb[0] * -11059 + rgb[1] * -21709 + rgb[2] * 32768 + (128 << 16) + 32767) >> 16;
                red += (rgb[0] * 32768 + rgb[1] * -27439 + rgb[2] * -5329 + (128 << 16) + 32767) >> 16;
            }
            square[BLUE + 8 * y + x] = (blue >> 2) - 128;
            square[RED + 8 * y + x] = (red >> 2) - 128;
        }
}

static void give(const int32_t *square, int32_t height, int32_t width, int32_t top, int32_t left, uint8_t *out) {
    for (int y = 0; y < 16 && top + y < height; y++)
        for (int x = 0; x < 16 && left + x < width; x++) {
            const int32_t luminance = square[place_of(y, x)], half = y / 2 * 8 + x / 2;
            const int32_t blue = square[BLUE + half] - 128, red = square[RED + half] - 128;
            uint8_t *rgb = out + ((int64_t)(top + y) * width + left + x) * 3;
            rgb[0] = (uint8_t)level(luminance + ((red * 91881 + 32768) >> 16));
            rgb[1] = (uint8_t)level(luminance + ((blue * -22554 + red * -46802 + 32768) >> 16));
            rgb[2] = (uint8_t)level(luminance + ((blue * 116130 + 32768) >> 16));
        }
}

/* RGB images; quantization steps of the 64 coefficients of luma, and of chroma. */
void seqpipe_jpeg(const uint8_t *in, int64_t images, int32_t height, int32_t width, const uint8_t *steps, uint8_t *out) {
    int32_t square[SQUARE];
    for (; images > 0; images--, in += (int64_t)height * width * 3, out += (int64_t)height * width * 3)
        for (int32_t top = 0; top < height; top += 16)
            for (int32_t left = 0; left < width; left += 16) {
                take(in, height, width, top, left, square);
                for (int block = 0; block < 6; block++) {
                    const int beyond = block < 4 && (top + block / 2 * 8 >= height || left + block % 2 * 8 >= width);
                    if (!beyond)
                        squeeze(square + block * BLOCK, steps + (block < 4 ? 0 : BLOCK));
                }
                give(square, height, width, top, left, out);
            }
}
