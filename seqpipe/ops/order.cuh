// Frames of what is given, as they are.
__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x) + (Address)(image.row.shift * image.item.in_strides[1]);
    const Address out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        *(Element*)to = *(const Element*)(in + (Address)(channel * image.item.in_strides[4]));
    }
}

FOR_EVERY_PIXEL(make)
