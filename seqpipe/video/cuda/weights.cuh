// Filter weights along one axis of a plane: the samples that contribute to an output pixel, and their weights.
//
// The filter equals that of the CPU path: a triangle with pixel centers at half integers, widened for downscaling (as
// swscale's bilinear scaler, which repeats the edge samples of the visible part), applied to chroma that is interpolated
// linearly at the stream's siting. Both steps are linear and combined into one weight. All arithmetic is in integers, in
// units of which 2 * size separate adjacent visible samples; a weight is the quotient of two integers, rounded once.
//
// For scaled windows (ENDS), visible samples outside the window contribute too, and edge samples are not repeated.

#if WIDE
typedef long long Whole;
typedef double Number;
#else
typedef int Whole;  // all sums are below 2^24 and exact in float
typedef float Number;
#endif

struct Axis {
    int shown, size;                 // number of visible samples, and of output pixels
    int samples;                     // number of samples of the plane
    int begin, step_bits, unit_bits; // visible sample k lies at (begin + (k << step_bits)) / (1 << unit_bits) in the plane
    int taps;                        // largest number of samples per pixel
    int first;                       // first output pixel
    int left, length;                // first visible sample of the window, and their number; only with ENDS
};

// Number of scaled samples, and half-width of the triangle.
__device__ __forceinline__ int length_of(const Axis& axis) { return ENDS ? axis.length : axis.shown; }
__device__ __forceinline__ int reach_of(const Axis& axis) { return 2 * max(length_of(axis), axis.size); }

// The filter of one output pixel.
struct Span {
    int center, first;  // position among the visible samples; first contributing sample
    Number total;       // sum of the weights
};

__device__ __forceinline__ int limited(int value, int least, int most) {
    return min(max(value, least), most);
}

// Sum of the triangle at `distance` from its center, at distance + 2 * size, and so on.
__device__ __forceinline__ Whole tail_sum(const Axis& axis, int distance) {
    const int rest = reach_of(axis) - distance;
    if (rest <= 0) return 0;
    const Whole more = (unsigned)rest / (2u * axis.size);
    return (more + 1) * rest - more * (more + 1) * axis.size;
}

// Triangle weight of visible sample k; the first and the last include those of the repeated samples beyond them.
__device__ __forceinline__ Whole triangle_weight(const Axis& axis, int center, int k) {
    const int spacing = 2 * axis.size, distance = (int)((unsigned)spacing * k - center);
    Whole sum = max(0, reach_of(axis) - abs(distance));
    if (ENDS) return sum;
    if (k == 0) sum += tail_sum(axis, spacing - distance);
    if (k == axis.shown - 1) sum += tail_sum(axis, spacing + distance);
    return sum;
}

// Filter of an output pixel, counted from axis.first; pixels after the last have the filter of the last.
__device__ __forceinline__ Span span_of(const Axis& axis, int made) {
    const unsigned spacing = 2u * axis.size;
    const int pixel = min(axis.first + made, axis.size - 1);
    const int center = (2 * pixel + 1) * length_of(axis) - axis.size + (ENDS ? (int)spacing * axis.left : 0);
    const int near = (int)((center + spacing) / spacing) - 1, behind = (int)(center - spacing * near);
    const int before = (unsigned)(reach_of(axis) - 1 - behind) / spacing;
    const int lowest = limited(near - before, 0, axis.shown - 1);
    const int place = (axis.begin + (lowest << axis.step_bits)) >> axis.unit_bits;
    Whole total = tail_sum(axis, behind) + tail_sum(axis, (int)spacing - behind);
    if (ENDS) total -= tail_sum(axis, center + (int)spacing) + tail_sum(axis, (int)spacing * axis.shown - center);
    return {center, limited(place, 0, axis.samples - 1), (Number)(total << axis.unit_bits)};
}

// Weight of a sample of the plane: 0 if it does not contribute or does not exist.
__device__ __forceinline__ float weight_of(const Axis& axis, const Span& span, int sample) {
    const int unit = 1 << axis.unit_bits, at = sample << axis.unit_bits, last = (axis.samples - 1) << axis.unit_bits;
    // visible samples less than one sample away; those beyond the plane's border use the border sample
    const int from = at > 0 ? max(((at - unit - axis.begin) >> axis.step_bits) + 1, 0) : 0;
    const int to = at < last ? min((at + unit - axis.begin - 1) >> axis.step_bits, axis.shown - 1) : axis.shown - 1;
    Whole sum = 0;
#pragma unroll 1
    for (int k = from; k <= to; k++) {
        const int place = limited(axis.begin + (k << axis.step_bits), 0, last);
        sum += triangle_weight(axis, span.center, k) * max(0, unit - abs(place - at));
    }
    return (float)((Number)sum / span.total);
}
