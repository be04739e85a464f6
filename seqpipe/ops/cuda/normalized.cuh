// Values of a window, optionally mirrored, each changed by the operator's statements.
__device__ __forceinline__ Real changed(Real value, int channel, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Row& row = image.row;
    const Address in = image.from(row.top + y, row.left + row.step * x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? changed(value, channel, row) : value);
    }
}

FOR_EVERY_PIXEL(make)
