// Values of a window that may reach beyond the images: there, those of pixels within, or a level for each channel.
constexpr int LEVELS = sizeof(Row::fill) / (2 * sizeof(int));

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Row& row = image.row;
    const int from_y = bordered(row.top + y, image.item.in_height, row.border);
    const int from_x = bordered(row.left + x, image.item.in_width, row.border);
    const bool inside = from_y >= 0 && from_x >= 0;
    const Address in = inside ? image.from(from_y, from_x) : 0, out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        if (inside) {
            *(Element*)to = *(const Element*)(in + (Address)(channel * image.item.in_strides[4]));
        } else {
            const int* bits = row.fill + 2 * min(channel, LEVELS - 1);  // low and high, whatever the type
            *(Element*)to = (Element)((Address)(unsigned)bits[0] | (Address)(unsigned)bits[1] << 32);
        }
    }
}

FOR_EVERY_PIXEL(make)
