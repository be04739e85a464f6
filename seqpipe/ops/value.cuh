// Every value by itself; an operator whose body is "placed" also looks at where it is.
__device__ __forceinline__ Real changed(Real value, int y, int x, int channel, const Row& row) {
    BODY
    return value;
}

#if CHANNELS
__device__ __forceinline__ void change(const Image& image, int y, int x, Real (&pixel)[CHANNELS]) {
    if (!image.row.acts) return;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) pixel[channel] = changed(pixel[channel], y, x, channel, image.row);
}

#include "fours.cuh"
#else
__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    for (int channel = 0; channel < image.item.channels; channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, image.row.acts ? changed(value, y, x, channel, image.row) : value);
    }
}

FOR_EVERY_PIXEL(make)
#endif
