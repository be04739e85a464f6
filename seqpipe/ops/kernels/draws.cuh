// Numbers for noise: `uniform`, `normal<T>` and `poisson<T>` make them of random bits; _noise.py says how, and gives the
// same, to the last bit. With T = Span they say between which two numbers a number is, of which a third of the work is
// enough; with T = Near where it is about, and how far it may be from the right one.
struct Random { unsigned a, b, c, d; };

__device__ __forceinline__ Random philox(unsigned pixel, unsigned group, unsigned frame, unsigned low, unsigned high) {
    Random w = {pixel, group, frame, 0};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned long long first = 0xD2511F53ull * w.a, second = 0xCD9E8D57ull * w.c;
        w = {(unsigned)(second >> 32) ^ w.b ^ low, (unsigned)second, (unsigned)(first >> 32) ^ w.d ^ high,
             (unsigned)first};
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
    return w;
}

__device__ __forceinline__ unsigned bits_of(float value) {
    union { float value; unsigned bits; } both = {value};
    return both.bits;
}
__device__ __forceinline__ float float_of(unsigned bits) {
    union { unsigned bits; float value; } both = {bits};
    return both.value;
}

template <int COUNT> __device__ __forceinline__ Real polynomial(const float (&coefficients)[COUNT], Real x) {
    Real found = coefficients[0];
#pragma unroll
    for (int k = 1; k < COUNT; k++) found = found * x + Real(coefficients[k]);
    return found;
}

__device__ __forceinline__ Real logarithm(Real x) {
    const unsigned bits = bits_of(x.v), fraction = bits & 0x7FFFFFu;
    const bool upper = fraction > 0x3504F3u;
    const Real rest = float_of(fraction | (upper ? 0x3F000000u : 0x3F800000u));
    const Real exponent = (float)((int)(bits >> 23) - 127 + upper);
    const Real s = (rest - 1.0f) / (rest + 1.0f);
    const float series[] = {(float)(2 / 9.), (float)(2 / 7.), (float)(2 / 5.), (float)(2 / 3.), 2.0f};
    return exponent * 0.693147182f + polynomial(series, s * s) * s;
}

__device__ __forceinline__ Real exponential(Real x) {
    const Real power = rintf((x * 1.44269502f).v);
    const Real rest = x - power * 0.693359375f + power * 2.12194440e-4f;
    const float series[] = {(float)(1 / 5040.), (float)(1 / 720.), (float)(1 / 120.), (float)(1 / 24.),
                            (float)(1 / 6.), 0.5f, 1.0f, 1.0f};
    return polynomial(series, rest) * float_of((unsigned)((int)power.v + 127) << 23);
}

__device__ __forceinline__ Real root(Real x) { return sqrtf(x.v); }

__device__ __forceinline__ Real uniform(unsigned bits) {
    return (Real((float)(bits >> 8)) + 0.5f) * 5.9604644775390625e-8f;
}

struct Span {
    Real low, high;
    __device__ __forceinline__ Span(Real value) : low(value), high(value) {}
    __device__ __forceinline__ Span(Real low, Real high) : low(low), high(high) {}
};
__device__ __forceinline__ Span operator+(Span a, Real b) { return {a.low + b, a.high + b}; }
__device__ __forceinline__ Span operator+(Real a, Span b) { return {a + b.low, a + b.high}; }
__device__ __forceinline__ Span operator*(Span a, Real b) { return {a.low * b, a.high * b}; }  // by 0 or more

#ifdef __CUDACC__
__device__ __forceinline__ float quick_log2(float x) {
    float found;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}
__device__ __forceinline__ float quick_by_root(float x) {
    float found;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}
#else
static inline float quick_log2(float x) { return log2f(x); }
static inline float quick_by_root(float x) { return 1.0f / sqrtf(x); }
#endif

// A number that may be `off` by so much from the right one, and is at `most` so large; not even that if it is not `known`.
struct Near {
    float value, most, off;
    bool known;
    __device__ __forceinline__ Near(Real value) : value(value.v), most(0.0f), off(0.0f), known(true) {}
    __device__ __forceinline__ Near(float value, float most, float off, bool known)
        : value(value), most(most), off(off), known(known) {}
};
constexpr float EPSILON = 1.2e-7f;  // the relative error of two roundings
__device__ __forceinline__ Near operator+(Near a, Real b) {
    const float most = a.most + fabsf(b.v);
    return {a.value + b.v, most, a.off + most * EPSILON, a.known};
}
__device__ __forceinline__ Near operator+(Real level, Near b) {  // that of a byte
    const float most = 255.0f + b.most;
    return {level.v + b.value, most, b.off + most * EPSILON, b.known};
}
__device__ __forceinline__ Near operator*(Near a, Real b) {
    const float size = fabsf(b.v), most = a.most * size;
    return {a.value * b.v, most, a.off * size + most * EPSILON, a.known};
}
// Whether the right number is rounded to the same byte: it is no other, or far from the middle of two whole numbers.
__device__ __forceinline__ bool is_settled(Near near) {
    const float upper = near.value + 12582912.0f, part = near.value - (upper - 12582912.0f);  // it is rounded by a sum
    return near.known & ((near.off == 0.0f) | (fabsf(part) < 0.5f - near.off));  // all of it: no branches
}

template <class T> __device__ T normal(unsigned bits);

template <> __device__ __forceinline__ Real normal<Real>(unsigned bits) {
    const float central[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                             -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f};
    const float tail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                          -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f};
    const Real outside = (Real((float)(bits >> 1)) + 0.5f) * 4.656612873077392578125e-10f;
    const Real w = -logarithm(outside * (Real(2.0f) - outside));
    const Real factor = w < 5.0f ? polynomial(central, w - 2.5f) : polynomial(tail, root(w) - 3.0f);
    const Real found = factor * (Real(1.0f) - outside) * 1.41421356f;
    return bits & 1u ? -found : found;
}

// The same to some 1e-6 of itself where it is not in a tail; a tenth of what is allowed for.
template <> __device__ __forceinline__ Span normal<Span>(unsigned bits) {
    const float central[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                             -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f};
    const float outside = ((float)(bits >> 1) + 0.5f) * 4.656612873077392578125e-10f;
    const float w = -0.693147182f * quick_log2(outside * (2.0f - outside)), x = w - 2.5f;
    if (!(w < 4.99f)) return {-7.0f, 7.0f};
    float factor = central[0];
#pragma unroll
    for (int k = 1; k < 9; k++) factor = fmaf(factor, x, central[k]);
    const float size = factor * (1.0f - outside) * 1.41421356f, found = bits & 1u ? -size : size;
    return {found - size * 1e-5f, found + size * 1e-5f};
}

// The same by another polynomial, of the logarithm of 64 outside * (2 - outside), which was fitted to the inverse of the
// distribution: where it is not in a tail, less than 2.4e-6 off, even if that logarithm is twice as far off as it may be;
// 3.5e-6 is allowed for.
template <> __device__ __forceinline__ Near normal<Near>(unsigned bits) {
    const float series[] = {-1.4042080831444537e-09f, -1.8375834187622786e-08f, 7.288236503200096e-08f,
                            3.435593498579692e-06f,   3.52604802174028e-05f,    6.200800999067724e-05f,
                            -0.004962551407516003f,   -0.22158335149288177f,    2.679763078689575f};
    const float outside = (float)bits;  // in parts of 2³²
    const float x = quick_log2(fmaf(outside, -3.469446951953614e-18f, 2.9802322387695312e-08f) * outside);
    float factor = series[0];
#pragma unroll
    for (int k = 1; k < 9; k++) factor = fmaf(factor, x, series[k]);
    const float inside = fmaf(outside, -2.3283064365386963e-10f, 1.0f);
    // the lowest bit is added to that of the sign
    return {factor * __uint_as_float(__float_as_uint(inside) + (bits << 31)), 4.0f, 3.5e-6f, x > -6.2f};
}

// The rounded quotient of a number and a small whole number whose reciprocal is rounded (Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990), in a third of what division takes.
__device__ __forceinline__ Real divided(Real x, float by, float reciprocal) {
    const Real near = x * reciprocal;
    return fmaf(fmaf(-near.v, by, x.v), reciprocal, near.v);
}

// Of 10 events or more.
__device__ __forceinline__ Real expanded(Real mean, Real w) {
    const Real scale = root(mean), square = w * w;
    const Real first = mean + scale * w + (Real((float)(1 / 3.)) + square * (float)(1 / 6.));
    const Real second = (w * (float)(-1 / 36.) - square * w * (float)(1 / 72.)) / scale;
    const Real third = Real((float)(-8 / 405.)) + square * (float)(7 / 810.) + square * square * (float)(1 / 270.);
    return fmaxf(floorf((first + second + third / mean).v), 0.0f);
}
// Between which numbers it is for a number that is as far `around` w.
__device__ __forceinline__ Span expanded(float mean, float w, float around) {
    const float square = w * w, by_root = quick_by_root(mean), scale = mean * by_root;
    const float second = w * ((float)(-1 / 36.) - square * (float)(1 / 72.)) * by_root;
    const float third = (float)(-8 / 405.) + square * ((float)(7 / 810.) + square * (float)(1 / 270.));
    const float sum = mean + scale * w + square * (float)(1 / 6.) + (float)(1 / 3.) + second + third * by_root * by_root;
    // it grows by no more than scale + 3 for a step of w
    const float reach = around * (scale + 3.0f) + sum * 2e-6f;
    // rounded down by sums; what they round otherwise is a whole number, which is within reach of both
    const float low = sum - reach - 0.5f + 12582912.0f - 12582912.0f, high = sum + reach - 0.5f + 12582912.0f - 12582912.0f;
    return {fmaxf(low, 0.0f), sum < 4e6f ? fmaxf(high, 0.0f) : __uint_as_float(0x7F800000u)};
}
__device__ __forceinline__ Span expanded(Real mean, Span span) {
    return expanded(mean.v, 0.5f * (span.low.v + span.high.v), span.high.v - span.low.v);
}

template <class T> __device__ __forceinline__ T poisson(Real mean, unsigned bits) {
    constexpr int USUAL = 20;  // events, beyond which there hardly ever are more
    if (mean < 10.0f) {
        const Real place = uniform(bits);
        Real probability = exponential(-mean), total = probability;
#pragma unroll
        for (int count = 1; count <= USUAL; count++) {
            if (!(total < place && probability > 1e-10f)) return Real((float)(count - 1));
            probability = probability * divided(mean, (float)count, 1.0f / (float)count);
            total = total + probability;
        }
        Real count = (float)USUAL;
        while (total < place && probability > 1e-10f) {
            count = count + 1.0f;
            probability = probability * (mean / count);
            total = total + probability;
        }
        return count;
    }
    return expanded(mean, normal<T>(bits));
}
