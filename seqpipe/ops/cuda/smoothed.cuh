// Values blended with the mean of the 3 × 3 values around them, in which the center has the weight 5; borders are unchanged.
//
// For bytes in whole words, a thread computes a word in each of some lines, and keeps its sums from line to line.
#include "words.cuh"

__device__ __forceinline__ Real blended(const Image& image, int y, int x, Address aside, Real value) {
    Real total = value * Real(4.0f);  // sums of whole numbers, which are exact in any order
#pragma unroll
    for (int k = 0; k < 9; k++) total = total + load<IN>(image.from(y + k / 3 - 1, x + k % 3 - 1) + aside);
    const Real smooth = rintf((total / Real(13.0f)).v);
    return smooth + (value - smooth) * image.row.amount;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const bool within = y > 0 && x > 0 && y < image.item.height - 1 && x < image.item.width - 1;
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address aside = (Address)(channel * image.item.in_strides[4]);
        const Real value = load<IN>(in + aside);
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]),
                   within && image.row.acts ? blended(image, y, x, aside, value) : value);
    }
}

#if CHANNELS && IN == 0 && OUT == 0
constexpr int LINES = 16;

// Four bytes as halves of two words, which have room for sums of them: the first and the third, and the others.
struct Halves {
    unsigned even, odd;
    __device__ __forceinline__ Halves(unsigned even, unsigned odd) : even(even), odd(odd) {}
    __device__ __forceinline__ explicit Halves(unsigned word) : even(word & 0x00ff00ffu), odd(word >> 8 & 0x00ff00ffu) {}
    __device__ __forceinline__ unsigned get(int byte) const { return (byte & 1 ? odd : even) >> (byte & 2 ? 16 : 0) & 0xffffu; }
};
__device__ __forceinline__ Halves operator+(Halves a, Halves b) { return {a.even + b.even, a.odd + b.odd}; }

// A word of a line, and the sums of its bytes with those of the pixels beside them.
struct Summed {
    unsigned word;
    Halves sums;
};
__device__ __forceinline__ Summed summed_at(const unsigned* line, int number, int words) {
    const unsigned word = __ldg(line + number);
    const unsigned before = number > 0 ? __ldg(line + number - 1) : 0, after = number < words - 1 ? __ldg(line + number + 1) : 0;
    const unsigned left = CHANNELS == 4 ? before : __funnelshift_r(before, word, 32 - 8 * CHANNELS);
    const unsigned right = CHANNELS == 4 ? after : __funnelshift_r(word, after, 8 * CHANNELS);
    return {word, Halves(left) + Halves(word) + Halves(right)};
}

__device__ __forceinline__ unsigned blended(unsigned word, Halves total, Real amount) {
    Real made[4];
#pragma unroll
    for (int byte = 0; byte < 4; byte++) {
        // a thirteenth is never right between two whole numbers, so that the nearest one is found by whole numbers
        const Real value = byte_of(word, byte), smooth = (float)((total.get(byte) + 6) / 13);
        made[byte] = smooth + (value - smooth) * amount;
    }
    return word_of(made[0], made[1], made[2], made[3]);
}

// The bytes of a word that are of the first or the last pixel of a line.
__device__ __forceinline__ unsigned at_border(int number, int width) {
    unsigned mask = 0;
#pragma unroll
    for (int byte = 0; byte < 4; byte++) {
        const int x = (4 * number + byte) / CHANNELS;
        if (x == 0 || x == width - 1) mask |= 255u << 8 * byte;
    }
    return mask;
}

// A word of each of some lines.
__device__ __forceinline__ void make_words(const Image& image, int top, int number, int words) {
    const int height = image.item.height, bottom = min(top + LINES, height);
    const Real amount = image.row.amount;
    const unsigned stays = at_border(number, image.item.width);
    const unsigned* const lines = (const unsigned*)image.in;
    const auto line = [=](int y) { return summed_at(lines + min(max(y, 0), height - 1) * words, number, words); };
    Summed above = line(top - 1), here = line(top);
#pragma unroll 4
    for (int y = top; y < bottom; y++) {
        const Summed below = line(y + 1);
        const Halves five = {4 * Halves(here.word).even, 4 * Halves(here.word).odd};
        const unsigned made = blended(here.word, above.sums + here.sums + below.sums + five, amount);
        const unsigned mask = y > 0 && y < height - 1 && image.row.acts ? stays : ~0u;
        ((unsigned*)image.out)[y * words + number] = (here.word & mask) | (made & ~mask);
        above = here, here = below;
    }
}
#endif

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const unsigned first = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
#if CHANNELS && IN == 0 && OUT == 0
    const int words = image.item.width * CHANNELS / 4, strips = (image.item.height + LINES - 1) / LINES;
    if (is_contiguous(image, CHANNELS, CHANNELS) && 4 * words == image.item.width * CHANNELS) {
        for (unsigned k = first; k < words * strips; k += threads) make_words(image, k / words * LINES, k % words, words);
        return;
    }
#endif
    for_fours(image, false, first, threads, [](const Image&, unsigned) {},
              [](const Image& image, int y, int x) { make(image, y, x); });
}
