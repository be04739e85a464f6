// Combines each value with the value at the same position some frames before.
#include "words.cuh"

__device__ __forceinline__ Real changed(Real value, Real earlier, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ Address later_frame(const Image& image) {
    return (Address)(image.row.lag * image.item.in_strides[1]);
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address before = image.from(y, x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address aside = (Address)(channel * image.item.in_strides[4]);
        const Real value = load<IN>(before + aside + later_frame(image)), earlier = load<IN>(before + aside);
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), changed(value, earlier, image.row));
    }
}

#if CHANNELS
__device__ __forceinline__ bool contiguous(const Image& image) {
    return is_contiguous(image, CHANNELS, CHANNELS) && image.item.in_strides[1] % sizeof(unsigned) == 0;
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> given, before;
    Words<OUT, CHANNELS> made;
    Real values[FOUR * CHANNELS], earlier[FOUR * CHANNELS];
    given.read(image.in + later_frame(image), four);
    before.read(image.in, four);
    given.unpack(values);
    before.unpack(earlier);
#pragma unroll
    for (int k = 0; k < FOUR * CHANNELS; k++) values[k] = changed(values[k], earlier[k], image.row);
    made.pack(values);
    made.write(image.out, four);
}
#endif

FOR_EVERY_FOUR(no_op, contiguous, make_four, make)
