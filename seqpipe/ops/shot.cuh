// Values as counts of photons: see noisy.cuh. How many there are depends on the level and the random bits only. Of bytes,
// each block makes tables first, for the levels of which less than 10 photons are expected: from which place between 0
// and 1 on there are one, two and more, and for parts of the places how many there are at least. Those parts are equal in
// the logarithm of the odds, in halves of a power of 2, and so small that at most one more photon comes within one.
#include "noisy.cuh"

#if CHANNELS && IN == 0 && OUT == 0
constexpr int LEVELS = 256, MOST = 24, STRIDE = MOST + 1, PARTS = 49, ASK = 255;
constexpr float ALL = 16777216.0f;  // places are whole numbers, or half of them more, up to this
static_assert(THREADS == LEVELS, "");

struct Shared {
    float totals[LEVELS * STRIDE + ASK];      // places, a level's after another's
    unsigned char least[LEVELS * PARTS];      // photons; ASK where the tables do not say
    float begins[PARTS], ends[PARTS];         // of parts of the places, a little wider than they are
    int many;                                 // the first level of which 10 photons are expected
};
__shared__ Shared shared;

// The part that a place lies in.
__device__ __forceinline__ unsigned part_of(float place) {
    const float odds = quick_log2(place) - quick_log2(ALL - place);
    return __float_as_uint(fmaf(__saturatef(fmaf(odds, 1 / 24.0f, 0.5f)), PARTS - 1, 8388608.0f)) & 63u;
}

// The places from which on there are more photons, as `poisson` adds them up.
__device__ __forceinline__ void add_up(Real mean, float* totals) {
    Real probability = exponential(-mean), total = probability;
#pragma unroll
    for (int count = 0; count < MOST; count++) {
        totals[count] = probability > 1e-10f ? total.v * ALL : __uint_as_float(0x7F800000u);
        probability = probability * divided(mean, (float)(count + 1), 1.0f / (float)(count + 1));
        total = total + probability;
    }
}

__device__ __forceinline__ void find_counts(const Image& image) {
    const int level = threadIdx.x;
    if (level < PARTS) {
        const float odds = 0.5f * (level - PARTS / 2);
        shared.begins[level] = level == 0 ? 0.0f : ALL / (1.0f + exp2f(0.2501f - odds));
        shared.ends[level] = level == PARTS - 1 ? 2 * ALL : ALL / (1.0f + exp2f(-0.2501f - odds));
    }
    if (level == 0) shared.many = LEVELS;
    __syncthreads();
    const Real factor = image.row.factor, mean = Real((float)level) / factor;
    const bool few = mean < 10.0f;
    float* const totals = shared.totals + level * STRIDE;
    if (few) add_up(mean, totals);
    if (!few && (level == 0 || Real((float)(level - 1)) / factor < 10.0f)) shared.many = level;
    int first = 0, last = 0;
    for (int part = 0; few && part < PARTS; part++) {
        while (first < MOST && totals[first] < shared.begins[part]) first++;
        while (last < MOST && totals[last] < shared.ends[part]) last++;
        shared.least[level * PARTS + part] = level == 0 ? 0 : last - first <= 1 && last < MOST ? first : ASK;
    }
    if (level == 0) totals[0] = __uint_as_float(0x7F800000u);
    __syncthreads();
}

struct Value {
    Real value;
    bool known;
};

__device__ __forceinline__ Value of_few(unsigned level, unsigned bits, Real factor) {
    const float place = (float)(bits >> 8) + 0.5f;
    const unsigned least = shared.least[level * PARTS + part_of(place)];
    const unsigned count = least + (shared.totals[level * STRIDE + least] < place);
    return {Real((float)count) * factor, least != ASK};
}

// Where both ends of what it may be are rounded to the same byte, so is the number.
__device__ __forceinline__ Value of_many(float level, unsigned bits, Real factor, float by_factor) {
    const Near near = normal<Near>(bits);
    const Span found = expanded(level * by_factor, near.value, near.off) * factor;
    const float low = fminf(found.low.v, 511.0f) + 12582912.0f, high = fminf(found.high.v, 511.0f) + 12582912.0f;
    return {found.low, bool(near.known & (low == high))};
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
    const Row& row = image.row;
    unsigned open = 0;
    if (row.acts && row.factor > 0.0f) {
        const float by_factor = 1.0f / row.factor.v;
        const unsigned many = shared.many;
        Real values[FOUR * CHANNELS];
#pragma unroll
        for (int number = 0; number < FOUR; number++) {
            const Random random = philox(four * FOUR + number, 0, row.frame, row.key[0], row.key[1]);
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++) {
                const int k = number * CHANNELS + channel;
                const unsigned level = words.words[k / 4] >> k % 4 * 8 & 255u, bits = word_of(random, channel);
                const Value found = level < many ? of_few(level, bits, row.factor) : of_many((float)level, bits, row.factor, by_factor);
                values[k] = found.value;
                open |= found.known ? 0u : 1u << k;
            }
        }
        words.take(values);
    }
    words.write(image.out, four);
    for (; open; open &= open - 1) make_value(image, four * FOUR * CHANNELS + __ffs(open) - 1);
}

__device__ __forceinline__ void begin(const Image& image) {
    if (image.row.acts && image.row.factor > 0.0f) find_counts(image);
}

FOR_EVERY_FOUR_IN(3, begin, together, make_four, make)
#else
FOR_EVERY_PIXEL_IN(4, make)
#endif
