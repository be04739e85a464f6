// Unchanged values from the positions of the mapping; 0 outside the image.
#include "runs.cuh"
#include "place.cuh"

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Real column = (float)x + 0.5f, line = (float)y + 0.5f;
    const Real* m = image.row.matrix;
    const Real divisor = m[6] * column + m[7] * line + m[8];
    // pixel i reaches from i to i + 1
    const int from_x = (int)floorf(coordinate_at(m, column, line, divisor).v);
    const int from_y = (int)floorf(coordinate_at(m + 3, column, line, divisor).v);
    const bool inside =
        from_x >= 0 && from_x < image.item.in_width && from_y >= 0 && from_y < image.item.in_height;
    const Address in = inside ? image.from(from_y, from_x) : 0, out = image.to(y, x);
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        *(Element*)to = inside ? *(const Element*)(in + (Address)(channel * image.item.in_strides[4])) : 0;
    }
}

#if CHANNELS
// The source of runs if images are mirrored or shifted by whole pixels, and nothing is outside.
struct RunSource {
    bool by_runs;
    int top, left, down, right;  // the source of the first pixel, and the steps to those of the next row and column
    __device__ __forceinline__ explicit RunSource(const Image& image) {
        const Item& item = image.item;
        const Real* m = image.row.matrix;
        down = m[4] < Real(0.0f) ? -1 : 1, right = m[0] < Real(0.0f) ? -1 : 1;
        top = (int)m[5].v - (down < 0), left = (int)m[2].v - (right < 0);
        by_runs = m[0].v == right && m[4].v == down && m[1].v == 0 && m[3].v == 0 && m[6].v == 0 && m[7].v == 0 &&
                   m[8].v == 1 && m[2].v == left + (right < 0) && m[5].v == top + (down < 0) &&
                   within(left, right * (item.width - 1), item.in_width) &&
                   within(top, down * (item.height - 1), item.in_height);
    }
    // Floats hold the halves of smaller numbers, so that the mapping of every pixel is exact.
    static __device__ __forceinline__ bool within(int first, int span, int length) {
        return first >= 0 && first < length && first + span >= 0 && first + span < length && length < 1 << 22;
    }
};

__device__ __forceinline__ bool fetch(const Image& image, const RunSource& source, int y, int x, Run& run) {
    const int from = source.left + source.right * x;
    read(image.from(source.top + source.down * y, source.right < 0 ? from - (RUN - 1) : from), run);
    if (source.right < 0) reverse(run);
    return true;
}
#endif

#include "moved.cuh"
