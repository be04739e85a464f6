// Independent pixels: `change(image, pixel)` changes the values of one.
#include "words.cuh"

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    Real pixel[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
    change(image, pixel);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), pixel[channel]);
}

__device__ __forceinline__ bool contiguous(const Image& image) { return is_contiguous(image, CHANNELS, CHANNELS); }

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> given;
    Words<OUT, CHANNELS> made;
    Real values[FOUR * CHANNELS];
    given.read(image.in, four);
    given.unpack(values);
#pragma unroll
    for (int number = 0; number < FOUR; number++) {
        Real pixel[CHANNELS];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) pixel[channel] = values[number * CHANNELS + channel];
        change(image, pixel);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) values[number * CHANNELS + channel] = pixel[channel];
    }
    made.pack(values);
    made.write(image.out, four);
}

FOR_EVERY_FOUR(no_op, contiguous, make_four, make)
