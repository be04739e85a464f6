// Each pixel times a matrix, plus an offset, with as many values as the result has.
#include "words.cuh"

// Of as many values as there may be. What does not act has as many as it is given.
__device__ __forceinline__ void convert(const Row& row, const Real (&pixel)[CHANNELS], Real (&made)[3]) {
#pragma unroll
    for (int to = 0; to < 3; to++) {
        Real level = row.offset[to];
#pragma unroll
        for (int from = 0; from < CHANNELS; from++) {
            const Real factor = row.matrix[3 * to + from];
            // whole numbers times 0 are nothing that is added; what floats may be is left out
            if (IN < 3 || factor.v != 0.0f) level = level + pixel[from] * factor;
        }
        made[to] = row.acts ? level : pixel[to < CHANNELS ? to : 0];
    }
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    Real pixel[CHANNELS], made[3];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
    convert(image.row, pixel, made);
#pragma unroll
    for (int to = 0; to < 3; to++)
        if (to < image.item.channels) store<OUT>(out + (Address)(to * image.item.out_strides[4]), made[to]);
}

__device__ __forceinline__ bool contiguous(const Image& image) { return is_contiguous(image, CHANNELS, image.item.channels); }

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> given;
    Real values[FOUR * CHANNELS], made[FOUR * 3];
    given.read(image.in, four);
    given.unpack(values);
#pragma unroll
    for (int number = 0; number < FOUR; number++) {
        Real pixel[CHANNELS], found[3];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) pixel[channel] = values[number * CHANNELS + channel];
        convert(image.row, pixel, found);
#pragma unroll
        for (int to = 0; to < 3; to++) made[number * 3 + to] = found[to];
    }
    if (image.item.channels == 3) {
        Words<OUT, 3> words;
        words.pack(made);
        words.write(image.out, four);
    } else {
        Words<OUT, 1> words;
        const Real first[FOUR] = {made[0], made[3], made[6], made[9]};
        words.pack(first);
        words.write(image.out, four);
    }
}

FOR_EVERY_FOUR(no_op, contiguous, make_four, make)
