// Sets pixels inside any of some boxes (top, left, bottom, right) to the values of the row; all others are unchanged.
#include "words.cuh"

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const Row& row = image.row;
    bool inside = false;
    for (int k = 0; k < row.count && row.acts; k++) {
        const int* box = row.boxes + 4 * k;
        inside = inside || (y >= box[0] && x >= box[1] && y < box[2] && x < box[3]);
    }
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), inside ? row.levels[channel & 3] : value);
    }
}

#if CHANNELS
__device__ __forceinline__ bool contiguous(const Image& image) { return is_contiguous(image, CHANNELS, CHANNELS); }

// Which pixels of four are within: the lowest bit is for the first. Those from `wrapped` on lie in the next line.
__device__ __forceinline__ unsigned erased(const Row& row, int y, int x, int width) {
    unsigned found = 0;
    for (int k = 0; k < row.count; k++) {
        const int top = row.boxes[4 * k], bottom = row.boxes[4 * k + 2];
        for (int line = y, left = x; left > -FOUR; line++, left -= width) {
            if (line < top || line >= bottom) continue;
            const int first = max(row.boxes[4 * k + 1], 0) - left, end = min(row.boxes[4 * k + 3], width) - left;
            if (first < end && first < FOUR && end > 0) found |= (1u << min(end, FOUR)) - (1u << max(first, 0));
        }
    }
    return found;
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    const unsigned width = image.item.width, y = four * FOUR / width, x = four * FOUR - y * width;
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
    const unsigned inside = image.row.acts ? erased(image.row, y, x, width) : 0;
    if (inside) {
        Real values[FOUR * CHANNELS];
        words.unpack(values);
#pragma unroll
        for (int k = 0; k < FOUR * CHANNELS; k++)
            if (inside >> k / CHANNELS & 1u) values[k] = image.row.levels[k % CHANNELS];
        words.pack(values);
    }
    words.write(image.out, four);
}
#endif

FOR_EVERY_FOUR(no_op, contiguous, make_four, make)
