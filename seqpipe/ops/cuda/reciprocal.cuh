// Quotients by the steps of CUDA, without those for extreme numbers: they are correctly rounded if no intermediate number is
// extreme.

// 1 / value, of what is from 2⁻¹²⁶ to 2¹²⁵.
__device__ __forceinline__ Real reciprocal(Real value) {
#ifdef __CUDACC__
    float about;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(about) : "f"(value.v));
    return fmaf(about, fmaf(-value.v, about, 1.0f), about);
#else
    return Real(1.0f) / value;
#endif
}

// value / divisor, whose reciprocal is `part`.
__device__ __forceinline__ Real quotient(Real value, Real divisor, Real part) {
#ifdef __CUDACC__
    const float about = value.v * part.v, nearer = fmaf(part.v, fmaf(-divisor.v, about, value.v), about);
    return fmaf(part.v, fmaf(-divisor.v, nearer, value.v), nearer);
#else
    return value / divisor;
#endif
}
