// The DCT of libjpeg and its inverse, in integers, by products of matrices of halves. jpeg.py documents the steps; the sums
// here are equal bit for bit, because none is rounded before it is complete.
//
// A transform of eight values is a product with a matrix of 14-bit weights, but halves hold 11 bits. So each weight is split
// into an upper part, a multiple of a power of 2, and a lower part, whose products are summed separately. The other factors
// are bytes as the bits of halves, i.e. multiples of 2⁻²⁴, the UNIT; longer values are two bytes. Sums start near 0.75: from
// 0.5 to 1 floats are multiples of the unit, too, so that the lowest 23 bits of a sum are an integer, and both sums are
// combined as integers. No sum leaves that range, in any order: see tests/ops/test_jpeg.py.
//
// Values stay in registers between the four passes: results by lines and columns are the input by columns and lines.
#include "product.cuh"
#include "reciprocal.cuh"

constexpr int LANES = 32, BITS = 13, KEPT = 2;  // of the weights, and more than a level has between the passes
__device__ const int WEIGHTS[] = {NUMBERS};     // of each frequency eight, in steps of 2⁻¹³
constexpr float UNIT = 1.0f / (1 << 24), WHOLE = 12582912.0f;  // 1.5 * 2²³: what is added to it is rounded to whole numbers
constexpr unsigned BEGIN = 0x3F400000;                         // 0.75

// Of either way: how many bits the lower parts of weights have, by passes, and what is added to the first pass's results so
// that they are positive: whole bytes, for it is taken from their upper bytes. These results are the upper halves of sums
// that are made so much LARGER.
constexpr int LOWER[2][2] = {{6, 7}, {5, 8}}, BIAS[2] = {16 << 8, 33 << 8}, LARGER = 16 - BITS + KEPT;
constexpr int PER_THREAD = 6;  // words of weights, for either way

// What a block knows, in shared memory. Of each thread, for both ways: its weights, and where sums begin, of the first pass
// and of upper and lower parts in the second. And of the two coefficients of a block that it rounds, the steps, and their
// rounded reciprocals, those of luminance first.
struct __align__(8) Weights {
    unsigned words[2];
};
struct __align__(16) Begin {
    float sums[4];
};
struct __align__(16) Steps {
    float parts[2], steps[2];
};
struct Cosine {
    Weights weights[2][PER_THREAD / 2][LANES];
    Begin begins[2][3][LANES];
    Steps steps[2][LANES];
};

// An upper part of a weight, in steps of 2 to the power of `bits`, or what is left below it.
__device__ __forceinline__ int part_of(int weight, int bits, bool upper) {
    const int above = (weight + (1 << (bits - 1))) >> bits;
    return upper ? above : weight - (above << bits);
}

// Weights of a thread: for the first pass, on the left, upper parts and lower ones; for the second, on the right, upper parts
// for upper bytes and for lower bytes, then lower parts.
__device__ __forceinline__ unsigned weights_of(bool back, int number, int lane) {
    const int second = number > 1, bits = LOWER[back][second];
    const bool upper = second ? number < 4 : number == 0;
    const int scale = second ? (number % 2 ? 1 : 256) << (back && upper) : upper ? 1 : 1 << LARGER;
    float found[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int line = lane / 4, column = lane % 4 * 2 + k;
        found[k] = (float)(part_of(WEIGHTS[back ? column * 8 + line : line * 8 + column], bits, upper) * scale);
    }
    return halves_of(found[0], found[1]);
}

// Steps for coefficients that are 8 times as large. Their parts are by 2⁻¹⁴ larger, which is less than from one coefficient to
// the next, but takes halves away from 0.
__device__ __forceinline__ void find_steps(const Row& row, int table, int lane, Steps& to) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int at = table * 64 + (lane % 4 * 2 + k) * 8 + lane / 4;
        const int step = (unsigned)row.steps[at / 4] >> at % 4 * 8 & 255u;
        to.parts[k] = (reciprocal((float)(8 * step)) * Real(1.0f + 1.0f / (1 << 14))).v;
        to.steps[k] = (float)step * UNIT;
    }
}

// A float that has a number as its lowest bits.
__device__ __forceinline__ float lifted(int number) { return __uint_as_float(BEGIN + number); }

// So that results are rounded and positive, and have nothing of the begins. Luminance and differences are 128 less than
// their bytes; at last levels are 128 more. There, upper parts have steps of two units, which floats from 1 on are multiples
// of, and what made the first pass's results positive is taken away, from either sum what it has of it.
__device__ __forceinline__ void find_begins(bool back, int lane, Begin (&to)[3][LANES]) {
    constexpr int LARGE = 0x3F800000, SHIFT = BITS + KEPT + 3;  // 1; of the last pass
    const int shift = LOWER[back][0] + LARGER, bits = LOWER[back][1];
    const int first = (int)((1u << 15) + (BIAS[back] << 16) - BEGIN) >> shift;
    const int darker = back || lane / 4 ? 0 : 128 << (BITS + 3 + LARGER - shift);
    const unsigned last = (128u << SHIFT) + (1u << (SHIFT - 1)) - BEGIN - ((unsigned)LARGE << bits);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int above = 0, below = 0;
#pragma unroll
        for (int frequency = 0; frequency < 8; frequency++) {
            const int weight = WEIGHTS[frequency * 8 + lane % 4 * 2 + k % 2];
            above += part_of(weight, bits, true), below += part_of(weight, bits, false);
        }
        to[0][lane].sums[k] = lifted(k < 2 ? first - darker : 0);
        to[1][lane].sums[k] = back ? __uint_as_float(LARGE + (int)(last >> bits) - above * BIAS[back])
                           : lifted(1 << (BITS + KEPT - 1 - bits));
        to[2][lane].sums[k] = lifted(back ? -below * BIAS[back] : 0);
    }
}

// All threads of a block make what it knows.
__device__ __forceinline__ void prepare(const Row& row, Cosine& to) {
    for (int e = threadIdx.x; e < 2 * LANES * PER_THREAD; e += THREADS) {
        const bool back = e >= LANES * PER_THREAD;
        const int number = e / LANES % PER_THREAD, lane = e % LANES;
        to.weights[back][number / 2][lane].words[number % 2] = weights_of(back, number, lane);
    }
    for (int e = threadIdx.x; e < 2 * LANES; e += THREADS) {
        find_begins(e / LANES, e % LANES, to.begins[e / LANES]);
        find_steps(row, e / LANES, e % LANES, to.steps[e / LANES][e % LANES]);
    }
    __syncthreads();
}

// Third and fourth bytes of two words, which have less than 31 bits, as halves.
__device__ __forceinline__ unsigned third_bytes(unsigned first, unsigned second) {
#ifdef __CUDACC__
    unsigned both;
    asm("prmt.b32 %0, %1, %2, 0xf6b2;" : "=r"(both) : "r"(first), "r"(second));  // b and f repeat a sign, which is 0
    return both;
#else
    return (first >> 16 & 255) | (second & 0xFF0000);
#endif
}
__device__ __forceinline__ unsigned fourth_bytes(unsigned first, unsigned second) {
#ifdef __CUDACC__
    unsigned both;
    asm("prmt.b32 %0, %1, %2, 0xf7b3;" : "=r"(both) : "r"(first), "r"(second));
    return both;
#else
    return first >> 24 | (second >> 24 << 16);
#endif
}

// The forward or the inverse (BACK) transform of two neighboring blocks: the part of one thread.
template <bool BACK> struct Transform {
    static constexpr int LOWER_FIRST = LOWER[BACK][0] + LARGER, LOWER_SECOND = LOWER[BACK][1];
    Weights left, upper, lower;
    Begin first, above, below;

    __device__ __forceinline__ explicit Transform(const Cosine& cosine) {
        const int lane = threadIdx.x % LANES;
        left = cosine.weights[BACK][0][lane], upper = cosine.weights[BACK][1][lane], lower = cosine.weights[BACK][2][lane];
        first = cosine.begins[BACK][0][lane], above = cosine.begins[BACK][1][lane], below = cosine.begins[BACK][2][lane];
    }

    // `halves` are two values of a block. The results are four numbers for two frequencies, or two pixels, of a block.
    __device__ __forceinline__ void make(const unsigned (&halves)[2], unsigned (&to)[4]) const {
        unsigned bytes[4];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            float sums[4];
            product(sums, left.words, {halves[k]}, first.sums);
            const unsigned one = (__float_as_uint(sums[0]) << LOWER_FIRST) + __float_as_uint(sums[2]);
            const unsigned other = (__float_as_uint(sums[1]) << LOWER_FIRST) + __float_as_uint(sums[3]);
            bytes[k] = fourth_bytes(one, other), bytes[k + 2] = third_bytes(one, other);
        }
        float sums[2][4];
        product(sums[0], bytes, upper.words, above.sums);
        product(sums[1], bytes, lower.words, below.sums);
#pragma unroll
        for (int k = 0; k < 4; k++)
            to[k] = (__float_as_uint(sums[0][k]) << LOWER_SECOND) + __float_as_uint(sums[1][k]);
    }
};

// Sums of the second pass as coefficients, rounded to steps.
__device__ __forceinline__ void round_to(const Steps& steps, const unsigned (&sums)[4], unsigned (&to)[2]) {
    constexpr int SHIFT = BITS + KEPT;
    constexpr unsigned BEGUN = (BEGIN << LOWER[0][1]) + BEGIN;
    // of the first frequency of columns, the sum of all weights has what made results positive
    const int first = threadIdx.x % 4 ? 0 : BIAS[0] << (BITS + 3 - SHIFT);
    const float lifted[2] = {8388608.0f + (float)((int)(BEGUN >> SHIFT) + first), 8388608.0f + (float)(BEGUN >> SHIFT)};
    float found[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        // a float of 2²³ and more has the sum, shifted, as its lowest bits
        const float large = __uint_as_float(__funnelshift_r(sums[k], 0x4B000000u >> (32 - SHIFT), SHIFT));
        const float whole = fmaf((Real(large) - lifted[k % 2]).v, steps.parts[k % 2], WHOLE);
        found[k] = fmaf(whole, steps.steps[k % 2], -WHOLE * steps.steps[k % 2]);
    }
    to[0] = halves_of(found[0], found[1]), to[1] = halves_of(found[2], found[3]);
}
