// A window's values, mirrored or not, each less the mean of its channel, times a factor, plus a shift.
__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Row& row = image.row;
    const Address in = image.from(row.top + y, row.left + row.step * x), out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const int k = min(channel, 3);  // of more than four channels, all have the same
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? (value - row.mean[k]) * row.gain[k] + row.shift : value);
    }
}

FOR_EVERY_PIXEL(make)
