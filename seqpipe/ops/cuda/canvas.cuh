// Values of a window that may extend beyond the image: outside, they are those of pixels inside, or a constant per channel.
#include "runs.cuh"

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

#if CHANNELS
struct RunSource {
    static constexpr bool by_runs = true;
    __device__ __forceinline__ explicit RunSource(const Image&) {}
};

__device__ __forceinline__ void fill(const Row& row, Run& run) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) run.words[k] = 0;
#pragma unroll
    for (int at = 0; at < RUN * PIXEL; at++) {
        const int channel = at % PIXEL / ELEMENT_BYTES, byte = at % ELEMENT_BYTES;
        const unsigned bits = row.fill[2 * channel + byte / 4];
        run.words[at / 4] |= (bits >> 8 * (byte % 4) & 255u) << 8 * (at % 4);
    }
}

__device__ __forceinline__ bool fetch(const Image& image, const RunSource&, int y, int x, Run& run) {
    const Row& row = image.row;
    const int from_y = bordered(row.top + y, image.item.in_height, row.border), from_x = row.left + x;
    if (from_y >= 0 && from_x >= 0 && from_x + RUN <= image.item.in_width) {
        read(image.from(from_y, from_x), run);
        return true;
    }
    if (from_y >= 0 && (row.border != CONSTANT || (from_x > -RUN && from_x < image.item.in_width))) return false;
    fill(row, run);
    return true;
}
#endif

#include "moved.cuh"
