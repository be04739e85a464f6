// Random numbers for noise: `philox`, `uniform`, `normal` and `poisson` compute them from counters and random bits, equal bit
// for bit to philox.py and numbers.py. All threads of a block must call `find_lines` before
// `normal`.
#include "philox.cuh"

__device__ __forceinline__ Real uniform(unsigned bits) {
    return (Real((float)(bits >> 8)) + 0.5f) * 5.9604644775390625e-8f;
}

// Straight parts of the inverse of the normal distribution: the value of each at 0, and its slope.
__device__ const int PLACES[] = {NUMBERS};
constexpr int LINES = sizeof(PLACES) / sizeof(int) - 1, PARTS = 64, PART_BITS = 17, FIRST_POWER = 8;
struct __align__(8) Line {
    Real at_zero, slope;
};
__shared__ Line lines[LINES > 0 ? LINES : 1];

__device__ __forceinline__ void find_lines() {
    for (int number = threadIdx.x; number < LINES; number += THREADS) {
        const int place = PLACES[number], step = PLACES[number + 1] - place;
        const int power = number / PARTS + FIRST_POWER, part = number % PARTS;
        // a step of 2⁻²⁰ for 2^(power - 6)
        const float unit = __uint_as_float((unsigned)(127 - 20 + 6 - power) << 23);
        lines[number] = {(float)(place - step * (PARTS + part)) * 9.5367431640625e-7f, (float)step * unit};
    }
    __syncthreads();
}

__device__ __forceinline__ Real normal(unsigned bits) {
    const float place = (float)(int)((bits & 0xFFFFFE00u) | 0x100u);
    const unsigned place_bits = __float_as_uint(place);
    const Line line = lines[(place_bits << 1 >> (PART_BITS + 1)) - (FIRST_POWER + 127) * PARTS];
    const Real size = line.at_zero + line.slope * Real(fabsf(place));
    return __uint_as_float(__float_as_uint(size.v) ^ (place_bits & 0x80000000u));
}

__device__ __forceinline__ Real exponential(Real x) {
    const Real power = rintf((x * 1.44269502f).v);
    const Real rest = x - power * 0.693359375f + power * 2.12194440e-4f;
    const float series[] = {(float)(1 / 5040.), (float)(1 / 720.), (float)(1 / 120.), (float)(1 / 24.),
                            (float)(1 / 6.), 0.5f, 1.0f, 1.0f};
    Real found = series[0];
#pragma unroll
    for (int k = 1; k < 8; k++) found = found * rest + Real(series[k]);
    return found * __uint_as_float((unsigned)((int)power.v + 127) << 23);
}

// The rounded quotient of a number and a small whole number whose reciprocal is rounded (Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990), in a third of what division takes.
__device__ __forceinline__ Real divided(Real x, float by, float reciprocal) {
    const Real near = x * reciprocal;
    return fmaf(fmaf(-near.v, by, x.v), reciprocal, near.v);
}

constexpr float FEW = 13.0f;  // events, from which on the expansion is taken

// How many events are expected, with the root of that, and its reciprocal.
struct Expected {
    Real mean, root, by_root;
    Expected() = default;
    __device__ __forceinline__ explicit Expected(Real mean)
        : mean(mean), root(sqrtf(mean.v)), by_root(Real(1.0f) / root) {}
};

__device__ __forceinline__ Real expanded(const Expected& expected, Real w) {
    const Real by_root = expected.by_root, square = w * w;
    const Real first = expected.mean + expected.root * w + (Real((float)(1 / 3.)) + square * (float)(1 / 6.));
    const Real second = (w * (float)(-1 / 36.) - square * w * (float)(1 / 72.)) * by_root;
    const Real third = Real((float)(-8 / 405.)) + square * (float)(7 / 810.) + square * square * (float)(1 / 270.);
    return fmaxf(floorf((first + second + third * (by_root * by_root)).v), 0.0f);
}

__device__ __forceinline__ Real poisson(Real mean, unsigned bits) {
    constexpr int USUAL = 24;  // events, beyond which there hardly ever are more
    if (!(mean < FEW)) return expanded(Expected(mean), normal(bits));
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
