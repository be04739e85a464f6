// Every value from those around it; the operator's statements set `value`, at first what is there, by `around(rows_below, columns_right)`.
struct Around {
    const Image& image;
    int y, x;
    Address channel;
    __device__ __forceinline__ Real operator()(int down, int right) const {
        const int border = (int)image.row.edge.v;
        const int line = bordered(y + down, image.item.in_height, border);
        const int column = bordered(x + right, image.item.in_width, border);
        return line < 0 || column < 0 ? image.row.beyond : load<IN>(image.from(line, column) + channel);
    }
};

// Whole numbers of 0 or more in the order of values, of ORDER_BITS bits, and back.
enum { ORDER_BITS = IN == 0 ? 8 : IN < 3 ? 16 : 32 };
__device__ __forceinline__ unsigned ordered(Real value) {
    if (IN < 3) return (unsigned)((int)value.v + (IN == 2 ? 32768 : 0));
    union { float value; unsigned bits; } both = {value.v};
    return both.bits & 0x80000000u ? ~both.bits : both.bits | 0x80000000u;
}
__device__ __forceinline__ Real unordered(unsigned order) {
    if (IN < 3) return (float)((int)order - (IN == 2 ? 32768 : 0));
    union { unsigned bits; float value; } both = {order & 0x80000000u ? order & 0x7fffffffu : ~order};
    return both.value;
}

__device__ __forceinline__ Real changed(Real value, const Around& around, const Row& row) {
    BODY
    return value;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address step = (Address)(channel * image.item.in_strides[4]);
        const Around around = {image, y, x, step};
        const Real value = load<IN>(in + step);
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, image.row.acts ? changed(value, around, image.row) : value);
    }
}

FOR_EVERY_PIXEL(make)
