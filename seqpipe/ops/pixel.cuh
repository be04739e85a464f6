// Every pixel by itself, all of its values together.
__device__ __forceinline__ void change(Real (&pixel)[CHANNELS], const Row& row) {
    BODY
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    Real pixel[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
    if (image.row.acts) change(pixel, image.row);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), pixel[channel]);
}

FOR_EVERY_PIXEL(make)
