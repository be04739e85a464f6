// Values interpolated where a projective map says, as _interpolate.py does.

struct Taps {
    int first;
    Real weights[4];
};

__device__ __forceinline__ Real cubic(Real u) {
    const Real near = (Real(1.5f) * u - Real(2.5f)) * u * u + Real(1.0f);
    const Real far = ((Real(2.5f) - Real(0.5f) * u) * u - Real(4.0f)) * u + Real(2.0f);
    return u.v < 1.0f ? near : u.v < 2.0f ? far : Real(0.0f);
}

// Places are so near that they are whole numbers of 32 bits; what is none is far outside.
__device__ __forceinline__ Real place_at(const Real* line, Real x, Real y, Real divisor) {
    const Real sum = line[0] * x + line[1] * y + line[2], place = divisor.v == 1.0f ? sum : sum / divisor;
    return fminf(fmaxf(place.v, -16777216.0f), 16777216.0f);
}

__device__ __forceinline__ Taps taps_at(Real place, int kind) {
    if (kind == 0) return {(int)floorf(place.v), {1.0f, 0.0f, 0.0f, 0.0f}};
    const Real moved = place - Real(0.5f), first = floorf(moved.v), part = moved - first;
    if (kind == 1) return {(int)first.v, {Real(1.0f) - part, part, 0.0f, 0.0f}};
    Taps taps = {(int)first.v - 1};
#pragma unroll
    for (int k = 0; k < 4; k++) taps.weights[k] = cubic(fabsf((part - Real((float)(k - 1))).v));
    return taps;
}

__device__ __forceinline__ bool is_inside(int place, int length) { return place >= 0 && place < length; }

__device__ __forceinline__ int limited(int place, int length) { return min(max(place, 0), length - 1); }

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Real column = (float)x + 0.5f, line = (float)y + 0.5f;
    const Real* m = image.row.matrix;
    const Real divisor = m[6] * column + m[7] * line + m[8], fill = image.row.fill;
    const int kind = image.row.kind, count = kind == 2 ? 4 : kind + 1;
    const Taps across = taps_at(place_at(m, column, line, divisor), kind);
    const Taps down = taps_at(place_at(m + 3, column, line, divisor), kind);
    const int width = image.item.in_width, height = image.item.in_height;
    const bool repeats = fill.v != fill.v;
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        const Address plane = image.in + (Address)(channel * image.item.in_strides[4]);
        Real totals[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) totals[k] = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j >= count) break;
            const int row = down.first + j;
            Real sums[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) sums[k] = 0.0f;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (i >= count) break;
                const int at = across.first + i;
                const bool known = repeats || (is_inside(at, width) && is_inside(row, height));
                const Address from = plane + (Address)(limited(row, height) * image.item.in_strides[2] +
                                                       limited(at, width) * image.item.in_strides[3]);
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    const Real value = known ? load<IN>(from + (Address)(k * image.item.in_strides[4])) : fill;
                    sums[k] = sums[k] + across.weights[i] * value;
                }
            }
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) totals[k] = totals[k] + down.weights[j] * sums[k];
        }
        const Address to = image.to(y, x) + (Address)(channel * image.item.out_strides[4]);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) store<OUT>(to + (Address)(k * image.item.out_strides[4]), totals[k]);
    }
}

FOR_EVERY_PIXEL_IN(3, make)
