// As separable.cuh, with all weights equal.
constexpr bool WEIGHED = false;
constexpr int WAVES = 2;  // for it waits for memory more than it computes

// A sum over a count, of which `part` is the share of one. Of bytes, whose sums are below 2²², two steps of correction
// are as exact as a division: so it was found of every sum of every window.
__device__ __forceinline__ Real mean_of(Real sum, Real count, Real part) {
    if (IN != 0) return sum / count;
    const Real about = sum * part;
    return fmaf(fmaf(-about.v, count.v, sum.v), part.v, about.v);
}
#include "summed.cuh"
