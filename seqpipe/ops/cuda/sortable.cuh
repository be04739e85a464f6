// Floats as unsigned integers of the same order, and back: negative ones are inverted and come first.
__device__ __forceinline__ unsigned place_of(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_at(unsigned place) {
    return __uint_as_float(place & 0x80000000u ? place & 0x7fffffffu : ~place);
}
