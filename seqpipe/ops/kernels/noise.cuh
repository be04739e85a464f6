// Values with noise, each by itself. See noisy.cuh.
#include "noisy.cuh"

#if CHANNELS && IN == 0 && OUT == 0
__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words;
    Real values[FOUR * CHANNELS];
    words.read(image.in, four);
    unsigned which = 0;
    if (image.row.acts) {
        const Row& row = image.row;
        words.give(values);
#pragma unroll
        for (int number = 0; number < FOUR; number++) {
            const Random random = philox(four * FOUR + number, 0, row.frame, row.key[0], row.key[1]);
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++) {
                const int k = number * CHANNELS + channel;
                const Near found = changed<Near>(values[k], word_of(random, channel), random.a, row);
                values[k] = found.value;
                which |= is_settled(found) ? 0u : 1u << k;
            }
        }
        words.take(values);
    }
    words.write(image.out, four);
    leave_open(four, which);
}

FOR_EVERY_FOUR_IN(2, begin_open, together, make_four, make, make_open)
#else
FOR_EVERY_PIXEL_IN(4, make)
#endif
