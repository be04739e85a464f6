// Adds noise to each value independently: the operator's statements change `value`. See noisy.cuh.
#include "noisy.cuh"

__device__ __forceinline__ Real noisy(Real value, unsigned bits, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ void begin(const Image&) { find_lines(); }

#if CHANNELS
// Four pixels, whose values, or each of which, have the words of so many counters.
template <bool EACH>
__device__ __forceinline__ void change(unsigned four, const Row& row, Real (&values)[FOUR * CHANNELS]) {
    constexpr int COUNTERS = EACH ? CHANNELS : 1, ALIKE_VALUES = CHANNELS / COUNTERS;
#pragma unroll
    for (int counter = 0; counter < COUNTERS; counter++) {
        const Random random = random_of(four * COUNTERS + counter, row);
#pragma unroll
        for (int k = 0; k < FOUR * ALIKE_VALUES; k++) {
            Real& value = values[counter * FOUR + k];
            value = noisy(value, random.words[k / ALIKE_VALUES], row);
        }
    }
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
    if (image.row.acts) {
        Real values[FOUR * CHANNELS];
        words.unpack(values);
        if (by_channel(image.row, 0))
            change<true>(four, image.row, values);
        else
            change<false>(four, image.row, values);
        words.pack(values);
    }
    words.write(image.out, four);
}

FOR_EVERY_FOUR_IN(3, begin, contiguous, make_four, make, no_op)
#else
FOR_EVERY_PIXEL_AFTER(4, begin, make)
#endif
