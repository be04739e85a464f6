// Values mixed with those of another sample of the batch at the same place. The operator's statements set `value` from
// what is at `in`, and at `theirs`; `row.step` says how many samples away the other one is.
__device__ __forceinline__ Real mixed(Address in, Address theirs, int y, int x, const Row& row) {
    Real value;
    BODY
    return value;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const Address away = (Address)(image.row.step * image.item.in_strides[0]);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address at = in + (Address)(channel * image.item.in_strides[4]);
        const Real value = image.row.acts ? mixed(at, at + away, y, x, image.row) : load<IN>(at);
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), value);
    }
}

FOR_EVERY_PIXEL(make)
