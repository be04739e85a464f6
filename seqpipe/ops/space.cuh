// Every pixel by itself, times a matrix, plus a level: of as many values as the result has.
__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const Row& row = image.row;
    Real pixel[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
#pragma unroll
    for (int to = 0; to < 3; to++) {
        if (to >= image.item.channels) break;
        Real level = row.offset[to];
#pragma unroll
        for (int from = 0; from < CHANNELS; from++) {
            const Real factor = row.matrix[3 * to + from];
            if (factor.v != 0.0f) level = level + pixel[from] * factor;
        }
        // what does not act has as many values as it is given
        const Real still = pixel[to < CHANNELS ? to : 0];
        store<OUT>(out + (Address)(to * image.item.out_strides[4]), row.acts ? level : still);
    }
}

FOR_EVERY_PIXEL(make)
