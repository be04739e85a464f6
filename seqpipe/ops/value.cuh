// Every value by itself; an operator whose body is "placed" also looks at where it is.
__device__ __forceinline__ Real changed(Real value, int y, int x, int channel, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, image.row.acts ? changed(value, y, x, channel, image.row) : value);
    }
}

FOR_EVERY_PIXEL(make)
