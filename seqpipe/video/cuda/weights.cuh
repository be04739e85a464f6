// Along one axis of a plane: which samples make a pixel, and with what weights.
//
// They have the meaning of the CPU path: a triangle with pixel centers at half integers, widened to shrink (as swscale's
// bilinear scaler, which repeats the last sample of the part that is shown), upon chroma that is interpolated linearly at
// the stream's siting. Both steps are linear, so one weight does both. Everything here is a whole number, where one shown
// sample is 2 * size away from the next; a weight is the quotient of two of them, rounded once.
//
// Where a window is scaled (ENDS), shown samples beside it count as well, and nothing stands for those beyond the last.

#if WIDE
typedef long long Whole;
typedef double Number;
#else
typedef int Whole;  // all sums are less than 2^24, so that a float is one exactly
typedef float Number;
#endif

struct Axis {
    int shown, size;                 // samples that are shown, and pixels that are made of them
    int samples;                     // of the plane
    int begin, step_bits, unit_bits; // shown sample k lies at (begin + (k << step_bits)) / (1 << unit_bits) in the plane
    int taps;                        // the most samples that a pixel is made of
    int first;                       // the first of the pixels that is made
    int left, length;                // the first of the shown samples that is scaled, and how many are; only where ENDS
};

// Samples that are scaled, and how far the triangle reaches.
__device__ __forceinline__ int length_of(const Axis& axis) { return ENDS ? axis.length : axis.shown; }
__device__ __forceinline__ int reach_of(const Axis& axis) { return 2 * max(length_of(axis), axis.size); }

// What all weights of a pixel need.
struct Span {
    int center, first;  // where it lies among the shown samples; the first sample that it is made of
    Number total;       // of its weights
};

__device__ __forceinline__ int limited(int value, int least, int most) {
    return min(max(value, least), most);
}

// The sum of what the triangle gives at `distance` from its center, 2 * size further, and so on.
__device__ __forceinline__ Whole falling(const Axis& axis, int distance) {
    const int rest = reach_of(axis) - distance;
    if (rest <= 0) return 0;
    const Whole more = (unsigned)rest / (2u * axis.size);
    return (more + 1) * rest - more * (more + 1) * axis.size;
}

// What the triangle gives shown sample k; the first and the last stand for those beyond them, too.
__device__ __forceinline__ Whole share(const Axis& axis, int center, int k) {
    const int spacing = 2 * axis.size, distance = (int)((unsigned)spacing * k - center);
    Whole sum = max(0, reach_of(axis) - abs(distance));
    if (ENDS) return sum;
    if (k == 0) sum += falling(axis, spacing - distance);
    if (k == axis.shown - 1) sum += falling(axis, spacing + distance);
    return sum;
}

// Of a pixel, counted from the first one that is made; of the last one for those behind it.
__device__ __forceinline__ Span span_of(const Axis& axis, int made) {
    const unsigned spacing = 2u * axis.size;
    const int pixel = min(axis.first + made, axis.size - 1);
    const int center = (2 * pixel + 1) * length_of(axis) - axis.size + (ENDS ? (int)spacing * axis.left : 0);
    const int near = (int)((center + spacing) / spacing) - 1, behind = (int)(center - spacing * near);
    const int before = (unsigned)(reach_of(axis) - 1 - behind) / spacing;
    const int lowest = limited(near - before, 0, axis.shown - 1);
    const int place = (axis.begin + (lowest << axis.step_bits)) >> axis.unit_bits;
    Whole total = falling(axis, behind) + falling(axis, (int)spacing - behind);
    if (ENDS) total -= falling(axis, center + (int)spacing) + falling(axis, (int)spacing * axis.shown - center);
    return {center, limited(place, 0, axis.samples - 1), (Number)(total << axis.unit_bits)};
}

// The weight of a sample of the plane: 0 if the pixel is not made of it, or if there is none.
__device__ __forceinline__ float weight_of(const Axis& axis, const Span& span, int sample) {
    const int unit = 1 << axis.unit_bits, at = sample << axis.unit_bits, last = (axis.samples - 1) << axis.unit_bits;
    // shown samples less than one sample away; those beyond the plane's border count for the sample there
    const int from = at > 0 ? max(((at - unit - axis.begin) >> axis.step_bits) + 1, 0) : 0;
    const int to = at < last ? min((at + unit - axis.begin - 1) >> axis.step_bits, axis.shown - 1) : axis.shown - 1;
    Whole sum = 0;
#pragma unroll 1
    for (int k = from; k <= to; k++) {
        const int place = limited(axis.begin + (k << axis.step_bits), 0, last);
        sum += share(axis, span.center, k) * max(0, unit - abs(place - at));
    }
    return (float)((Number)sum / span.total);
}
