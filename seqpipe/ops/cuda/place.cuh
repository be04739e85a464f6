// The source position of a pixel of the result by a projective map, as by coordinates_of in interpolate.py.

// Coordinates are limited so that they fit into integers of 32 bits; NaN becomes one far outside.
__device__ __forceinline__ Real sum_at(const Real* line, Real x, Real y) { return line[0] * x + line[1] * y + line[2]; }
__device__ __forceinline__ Real clamp_coordinate(Real place) { return fminf(fmaxf(place.v, -16777216.0f), 16777216.0f); }
__device__ __forceinline__ Real coordinate_at(const Real* line, Real x, Real y, Real divisor) {
    const Real sum = sum_at(line, x, y);
    return clamp_coordinate(divisor.v == 1.0f ? sum : sum / divisor);
}
