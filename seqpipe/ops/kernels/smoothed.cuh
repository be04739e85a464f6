// Values blended with the mean of the 3 by 3 around them, of which the centre counts five times; borders stay.
__device__ __forceinline__ Real blended(const Image& image, int y, int x, Address aside, Real value) {
    Real total = value * Real(4.0f);  // sums of whole numbers, which are exact in any order
#pragma unroll
    for (int k = 0; k < 9; k++) total = total + load<IN>(image.from(y + k / 3 - 1, x + k % 3 - 1) + aside);
    const Real smooth = rintf((total / Real(13.0f)).v);
    return smooth + (value - smooth) * image.row.amount;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const bool within = y > 0 && x > 0 && y < image.item.height - 1 && x < image.item.width - 1;
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address aside = (Address)(channel * image.item.in_strides[4]);
        const Real value = load<IN>(in + aside);
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]),
                   within && image.row.acts ? blended(image, y, x, aside, value) : value);
    }
}

FOR_EVERY_PIXEL(make)
