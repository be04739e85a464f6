// Mixes values with those of another sample of the batch at the same position. The operator's statements compute `value` from
// `own` and `other`; `row.step` is the distance of the other sample in the batch.
#include "words.cuh"

__device__ __forceinline__ Real mixed(Real own, Real other, int y, int x, const Row& row) {
    Real value;
    BODY
    return value;
}

__device__ __forceinline__ Address away(const Image& image) { return (Address)(image.row.step * image.item.in_strides[0]); }

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address at = in + (Address)(channel * image.item.in_strides[4]);
        const Real own = load<IN>(at);
        const Real value = image.row.acts ? mixed(own, load<IN>(at + away(image)), y, x, image.row) : own;
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), value);
    }
}

#if CHANNELS
__device__ __forceinline__ bool contiguous(const Image& image) {
    return is_contiguous(image, CHANNELS, CHANNELS) && image.item.in_strides[0] % sizeof(unsigned) == 0;
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words, others;
    words.read(image.in, four);
    if (image.row.acts) {
        const unsigned width = image.item.width;
        unsigned y = four * FOUR / width, x = four * FOUR - y * width;
        Real values[FOUR * CHANNELS], theirs[FOUR * CHANNELS];
        others.read(image.in + away(image), four);
        words.unpack(values);
        others.unpack(theirs);
#pragma unroll
        for (int number = 0; number < FOUR; number++) {
#pragma unroll
            for (int k = number * CHANNELS; k < (number + 1) * CHANNELS; k++)
                values[k] = mixed(values[k], theirs[k], y, x, image.row);
            if (++x == width) x = 0, y++;
        }
        words.pack(values);
    }
    words.write(image.out, four);
}
#endif

FOR_EVERY_FOUR(no_op, contiguous, make_four, make)
