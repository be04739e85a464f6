// Every value, with that of the same place some frames before.
__device__ __forceinline__ Real changed(Real value, Real earlier, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address before = image.from(y, x), out = image.to(y, x);
    const Address in = before + (Address)(image.row.lag * image.item.in_strides[1]);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address aside = (Address)(channel * image.item.in_strides[4]);
        const Real value = load<IN>(in + aside), earlier = load<IN>(before + aside);
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), changed(value, earlier, image.row));
    }
}

FOR_EVERY_PIXEL(make)
