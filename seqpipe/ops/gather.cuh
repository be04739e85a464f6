// Values from where the mapping says, as they are; 0 where that is outside.
// The source pixel that a place lies in; pixel i reaches from i to i + 1.
__device__ __forceinline__ int pixel_at(const Real* line, Real x, Real y, Real divisor) {
    const Real place = line[0] * x + line[1] * y + line[2];
    return (int)floorf((divisor.v == 1.0f ? place : place / divisor).v);
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Real column = (float)x + 0.5f, line = (float)y + 0.5f;
    const Real* m = image.row.matrix;
    const Real divisor = m[6] * column + m[7] * line + m[8];
    const int from_x = pixel_at(m, column, line, divisor), from_y = pixel_at(m + 3, column, line, divisor);
    const bool inside =
        from_x >= 0 && from_x < image.item.in_width && from_y >= 0 && from_y < image.item.in_height;
    const Address in = inside ? image.from(from_y, from_x) : 0, out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        *(Element*)to = inside ? *(const Element*)(in + (Address)(channel * image.item.in_strides[4])) : 0;
    }
}

FOR_EVERY_PIXEL(make)
