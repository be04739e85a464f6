// Values with noise, each by itself. See noisy.cuh. Of four pixels all values are left open if one is, for to tell which
// takes longer.
#include "noisy.cuh"

#if CHANNELS && IN == 0 && OUT == 0
// Whether all values are near enough.
template <bool BY_CHANNEL>
__device__ __forceinline__ bool change(unsigned four, const Row& row, Real (&values)[OF_FOUR]) {
    bool settled = true;
#pragma unroll
    for (int number = 0; number < FOUR; number++) {
        const Random random = philox(four * FOUR + number, 0, row.frame, row.key[0], row.key[1]);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) {
            Real& value = values[number * CHANNELS + channel];
            const Near found = changed<Near>(value, BY_CHANNEL ? word_of(random, channel) : random.a, row);
            value = found.value;
            settled &= is_settled(found);
        }
    }
    return settled;
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words;
    Real values[OF_FOUR];
    words.read(image.in, four);
    bool settled = true;
    if (image.row.acts) {
        words.give(values);
        settled = by_channel(image.row, 0) ? change<true>(four, image.row, values) : change<false>(four, image.row, values);
        words.take(values);
    }
    words.write(image.out, four);
    if (!settled) leave_open(four * OF_FOUR);
}

FOR_EVERY_FOUR_IN(3, begin_open, together, make_four, make, make_open<OF_FOUR>)
#else
FOR_EVERY_PIXEL_IN(4, make)
#endif
