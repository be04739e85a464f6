// The DCT of libjpeg and its inverse, in integers, and quantization between them; jpeg.py documents the steps. A transform of
// eight values is a product with a matrix, whose sums are rounded once; so they equal those of libjpeg's butterflies.
#include "reciprocal.cuh"

constexpr int BITS = 13, KEPT = 2;              // fraction bits of the weights; additional bits between the two passes
__device__ const int WEIGHTS[][8] = {NUMBERS};  // of each frequency

// Replaces eight values by their frequencies, rounded to units of 2 to the power of BELOW, in the upper halves of the integers.
// Weights of even frequencies are symmetric, and those of frequencies 0 and 4 also in either half; others are antisymmetric.
template <int BELOW> __device__ __forceinline__ void find_frequencies(int (&x)[8]) {
    int sums[4], differences[4];
#pragma unroll
    for (int k = 0; k < 4; k++) sums[k] = x[k] + x[7 - k], differences[k] = x[k] - x[7 - k];
    const int inner[2][2] = {{sums[0] + sums[3], sums[1] + sums[2]}, {sums[0] - sums[3], sums[1] - sums[2]}};
#pragma unroll
    for (int frequency = 0; frequency < 8; frequency++) {
        x[frequency] = 1 << 15;
#pragma unroll
        for (int k = 0; k < (frequency % 2 ? 4 : 2); k++)
            x[frequency] += WEIGHTS[frequency][k] * (1 << (16 - BELOW)) *
                            (frequency % 2 ? differences[k] : inner[frequency / 2 % 2][k]);
    }
}

// Replaces eight frequencies by their values, rounded to units of 2 to the power of BELOW.
template <int BELOW> __device__ __forceinline__ void find_values(int (&x)[8]) {
    constexpr int HALF = 1 << (BELOW - 1);
    int even[4], odd[4];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int outer = x[0] * WEIGHTS[0][k] + x[4] * WEIGHTS[4][k] + HALF;
        const int inner = x[2] * WEIGHTS[2][k] + x[6] * WEIGHTS[6][k];
        even[k] = outer + inner, even[3 - k] = outer - inner;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        odd[k] = x[1] * WEIGHTS[1][k] + x[3] * WEIGHTS[3][k] + x[5] * WEIGHTS[5][k] + x[7] * WEIGHTS[7][k];
#pragma unroll
    for (int k = 0; k < 4; k++) x[k] = (even[k] + odd[k]) >> BELOW, x[7 - k] = (even[k] - odd[k]) >> BELOW;
}

// The step of a coefficient, and its reciprocal for coefficients that are 8 times as large. It is greater by 2⁻¹⁴, which is
// less than from one coefficient to the next, so that halves are rounded away from 0.
struct __align__(8) Step {
    float part;
    int size;
    __device__ __forceinline__ void set(int step) {
        part = (reciprocal((float)(8 * step)) * Real(1.0f + 1.0f / (1 << 14))).v, size = step;
    }
    __device__ __forceinline__ int quantized(int coefficient) const {
        return __float2int_rn((float)coefficient * part) * size;
    }
};

// Steps of 64 coefficients of luminance, and of chrominance.
struct Steps {
    Step steps[2][64];
    // All threads of a block take part.
    __device__ __forceinline__ void set(const Row& row) {
        for (int e = threadIdx.x; e < 128; e += THREADS)
            steps[e / 64][e % 64].set((unsigned)row.steps[e / 4] >> e % 4 * 8 & 255u);
        __syncthreads();
    }
};

// The numbers of a line.
__device__ __forceinline__ void read(const Line& from, int (&x)[8]) {
    const Line line = from;
#pragma unroll
    for (int k = 0; k < 4; k++) x[2 * k] = (short)line.words[k], x[2 * k + 1] = (int)line.words[k] >> 16;
}

// Transforms, quantizes and transforms back a block of numbers from 0 to 255, from which 128 is subtracted in between. Eight
// threads do it, each with a line, a column, and a line.
__device__ __forceinline__ void quantize(const Step* steps, Line* lines) {
    const int own = threadIdx.x % 8;
    int x[8];
    read(lines[own], x);
    find_frequencies<BITS - KEPT>(x);
    x[0] -= 8 * 128 << (KEPT + 16);
    lines[own] = {{upper_halves(x[0], x[1]), upper_halves(x[2], x[3]), upper_halves(x[4], x[5]), upper_halves(x[6], x[7])}};
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] = lines[k].numbers[own];
    find_frequencies<BITS + KEPT>(x);
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] = steps[k * 8 + own].quantized(x[k] >> 16);
    find_values<BITS - KEPT>(x);
#pragma unroll
    for (int k = 0; k < 8; k++) lines[k].numbers[own] = (short)x[k];
    __syncwarp();
    read(lines[own], x);
    x[0] += 128 << (KEPT + 3);
    find_values<BITS + KEPT + 3>(x);
    *(Two*)lines[own].bytes = {{word_of(x[0], x[1], x[2], x[3]), word_of(x[4], x[5], x[6], x[7])}};
}
