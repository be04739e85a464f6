// Values as counts of photons: see noisy.cuh. How many there are depends on the level and the random bits only. Of bytes,
// each block makes tables first, for the levels of which less than 15 photons are expected: for each number of photons
// from which place between 0 and 1 on there are more, and for parts of the places how many there are at least. Places
// are given by their odds, as the logarithm, base 2; parts are halves, so small that at most one more photon comes within
// one. What is so near to such a place that it could be on either side is left to `make_open`.
#include "noisy.cuh"

#if CHANNELS && IN == 0 && OUT == 0
constexpr int LEVELS = 256, MOST = 32, STRIDE = MOST + 1, PARTS = 49, ASK = MOST;
constexpr float ALL = 16777216.0f;  // places are whole numbers and a half, up to this
constexpr float NEAR_BY = 2e-4f;    // of odds: those of a rounded place are 7.4e-5 off at most, those of the tables 1e-5
static_assert(THREADS == LEVELS, "");

struct Shared {
    float odds[LEVELS * STRIDE];          // from which on there are more photons, a level's after another's
    unsigned char least[LEVELS * PARTS];  // photons; ASK where the tables do not say
    int expanded, many;                   // the first levels of which 10 and 15 photons are expected
};
__shared__ Shared shared;

__device__ __forceinline__ float infinite() { return __uint_as_float(0x7F800000u); }

__device__ __forceinline__ float odds_of(float place) { return quick_log2(place) - quick_log2(ALL - place); }

// As `poisson` adds them up.
__device__ __forceinline__ void add_up(Real mean, float* odds) {
    Real probability = exponential(-mean), total = probability;
#pragma unroll
    for (int count = 0; count < MOST; count++) {
        odds[count] = probability > 1e-10f && total < 1.0f ? odds_of(total.v * ALL) : infinite();
        probability = probability * divided(mean, (float)(count + 1), 1.0f / (float)(count + 1));
        total = total + probability;
    }
}

// From which odds on the expansion is so many photons: its inverse, by Newton's rule, from above it.
__device__ __forceinline__ float odds_of_expanded(float mean, float photons) {
    const float by_root = quick_by_root(mean), scale = mean * by_root, of_third = by_root * by_root;
    float w = (photons - (float)(1 / 3.) - mean) * by_root;
#pragma unroll 1
    for (int step = 0; step < 3; step++) {
        w = fminf(fmaxf(w, -5.0f), 5.0f);
        const float square = w * w;
        const float sum = mean + scale * w + square * (float)(1 / 6.) + (float)(1 / 3.) -
                          w * ((float)(1 / 36.) + square * (float)(1 / 72.)) * by_root +
                          ((float)(-8 / 405.) + square * ((float)(7 / 810.) + square * (float)(1 / 270.))) * of_third;
        const float slope = scale + w * (float)(1 / 3.) - ((float)(1 / 36.) + square * (float)(1 / 24.)) * by_root +
                            w * ((float)(7 / 405.) + square * (float)(2 / 135.)) * of_third;
        w = w - (sum - photons) / slope;
    }
    const float tail = 0.5f * erfcf(fabsf(w) * 0.707106781f);
    return copysignf(quick_log2(tail) - quick_log2(1.0f - tail), w);
}

__device__ __forceinline__ bool is_below(int level, Real factor, float photons) {
    return level < LEVELS && Real((float)level) / factor < photons;
}

__device__ __forceinline__ void find_counts(const Row& row) {
    const int level = threadIdx.x;
    const bool few = is_below(level, row.factor, 10.0f), some = is_below(level, row.factor, 15.0f);
    if (level == 0) shared.expanded = shared.many = LEVELS;
    __syncthreads();
    if (few && !is_below(level + 1, row.factor, 10.0f)) shared.expanded = level + 1;
    if (some && !is_below(level + 1, row.factor, 15.0f)) shared.many = level + 1;
    if (few) add_up(Real((float)level) / row.factor, shared.odds + level * STRIDE);
    __syncthreads();
    for (int e = shared.expanded * MOST + threadIdx.x; e < shared.many * MOST; e += THREADS)
        shared.odds[e / MOST * STRIDE + e % MOST] =
            odds_of_expanded((float)(e / MOST) / row.factor.v, (float)(e % MOST + 1));
    __syncthreads();
    const float* const odds = shared.odds + level * STRIDE;
    int first = 0, last = 0;
    for (int part = 0; some && part < PARTS; part++) {
        const float middle = 0.5f * (part - PARTS / 2);  // a part is taken to be a little wider than it is
        while (first < MOST && part > 0 && odds[first] < middle - 0.251f) first++;
        while (last < MOST && (part == PARTS - 1 || odds[last] < middle + 0.251f)) last++;
        const bool is_exact = few || part > 0;  // at the lower end of the expansion places are not even nearly
        shared.least[level * PARTS + part] = is_exact && last - first <= 1 && last < MOST ? first : ASK;
    }
    __syncthreads();
    if (level == 0) {  // there are none, ever
        for (int part = 0; part < PARTS; part++) shared.least[part] = 0;
        shared.odds[0] = infinite();
    }
    __syncthreads();
}

struct Value {
    Real value;
    bool known;
};

// Where the expansion is taken, the lowest bit says at which end the place is, and the others how far it is from there.
__device__ __forceinline__ Value of_few(unsigned level, unsigned bits, unsigned expanded, Real factor) {
    const bool by_ends = level >= expanded;
    const float odds_of_bits = odds_of(((float)(bits >> 8) + 0.5f) * (by_ends ? 0.5f : 1.0f));
    const float odds = __uint_as_float(__float_as_uint(odds_of_bits) ^ (by_ends ? ~bits << 31 : 0u));
    const unsigned part = __float_as_uint(fmaf(__saturatef(fmaf(odds, 1 / 24.0f, 0.5f)), PARTS - 1, 8388608.0f)) & 63u;
    const unsigned least = shared.least[level * PARTS + part];
    const float beyond = odds - shared.odds[level * STRIDE + least];
    return {Real((float)(least + (beyond > 0.0f))) * factor, bool((least != ASK) & (fabsf(beyond) > NEAR_BY))};
}

// Where both ends of what it may be are rounded to the same byte, so is the number.
__device__ __forceinline__ Value of_many(float level, unsigned bits, Real factor, float by_factor) {
    const Near near = normal<Near>(bits);
    const Span found = expanded(level * by_factor, near.value, near.off) * factor;
    const float low = fminf(found.low.v, 511.0f) + 12582912.0f, high = fminf(found.high.v, 511.0f) + 12582912.0f;
    return {found.low, bool(near.known & (low == high))};
}

// All values of four pixels by the tables, and where the tables do not say, all of them again the other way: without
// branches they are made side by side.
__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    constexpr int MANY = FOUR * CHANNELS;
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
    const Row& row = image.row;
    unsigned which = 0;
    if (row.acts && row.factor > 0.0f) {
        const unsigned expanded = shared.expanded, least_of_many = shared.many;
        const auto level_at = [&](int k) { return words.words[k / 4] >> k % 4 * 8 & 255u; };
        Real values[MANY];
        unsigned bits[MANY];
        bool many = false;
#pragma unroll
        for (int number = 0; number < FOUR; number++) {
            const Random random = philox(four * FOUR + number, 0, row.frame, row.key[0], row.key[1]);
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++) {
                const int k = number * CHANNELS + channel;
                bits[k] = word_of(random, channel);
                const Value found = of_few(level_at(k), bits[k], expanded, row.factor);
                values[k] = found.value;
                which |= found.known ? 0u : 1u << k;
                many |= level_at(k) >= least_of_many;
            }
        }
        if (many) {
            const float by_factor = 1.0f / row.factor.v;
#pragma unroll
            for (int k = 0; k < MANY; k++) {
                const Value found = of_many((float)level_at(k), bits[k], row.factor, by_factor);
                if (level_at(k) >= least_of_many) {
                    values[k] = found.value;
                    which = found.known ? which & ~(1u << k) : which | 1u << k;
                }
            }
        }
        words.take(values);
    }
    words.write(image.out, four);
    for (; which; which &= which - 1) leave_open(four * OF_FOUR + __ffs(which) - 1);
}

__device__ __forceinline__ void begin(const Image& image) {
    begin_open(image);
    if (image.row.acts && image.row.factor > 0.0f) find_counts(image.row);
}

FOR_EVERY_FOUR_IN(2, begin, together, make_four, make, make_open<1>)
#else
FOR_EVERY_PIXEL_IN(4, make)
#endif
