// Poisson noise. For bytes with a small mean, the counts come from tables, which each block computes first; see
// numbers.py. A thread computes the table of one value.
#if IN == 0
#include "noisy.cuh"

constexpr int LEVELS = 256, SLOTS = 35;
constexpr unsigned FULL = (1u << 26) - 1;
static_assert(THREADS == LEVELS, "");
__shared__ unsigned tables[LEVELS * SLOTS];  // SLOTS is odd, so that threads side by side meet no bank twice
__shared__ int many;                         // the first level of which many are expected, and no table made

// How many places each count is to have.
__device__ __forceinline__ void find_places(Real mean, unsigned* own) {
    Real probability = exponential(-mean);
    unsigned missing = SLOTS * FULL;
#pragma unroll
    for (int count = 0; count < SLOTS; count++) {
        const unsigned places = (unsigned)(probability * (float)(SLOTS * FULL)).v;
        own[count] = places, missing -= places;
        probability = probability * (mean * (1.0f / (float)(count + 1)));
    }
    own[(int)mean.v] += missing;
}

// What a count that has more than a slot of places has too many fills slots that are not full: one in each step.
__device__ __forceinline__ void sweep(unsigned* own) {
    int begin = 0;
    while (own[begin] < FULL) begin++;
    int end = begin;
    while (end < SLOTS && own[end] >= FULL) end++;
    int light = begin ? 0 : end, heavy = begin;
    unsigned rest = own[heavy];
#pragma unroll 3
    for (int step = 0; step < SLOTS; step++) {
        const bool is_spent = rest <= FULL;
        heavy += is_spent;
        const unsigned other = own[is_spent ? heavy : light];
        own[is_spent ? heavy - 1 : light] = (is_spent ? rest : other) * 64 + heavy;
        rest += other - FULL;
        light += !is_spent;
        if (light == begin) light = end;
    }
}

__device__ __forceinline__ void begin(const Image& image) {
    const int level = threadIdx.x;
    const Real factor = image.row.factor, mean = Real((float)level) / factor;
    if (!image.row.acts || !(factor > 0.0f)) return;
    if (level == 0) many = LEVELS;
    __syncthreads();
    if (mean < FEW) {
        find_places(mean, tables + level * SLOTS);
        sweep(tables + level * SLOTS);
        if (level == 0) tables[0] = 0;  // there are none, ever
        if (level + 1 < LEVELS && !(Real((float)(level + 1)) / factor < FEW)) many = level + 1;
    } else {
        *(Expected*)(tables + level * SLOTS) = Expected(mean);  // in its table's place
    }
    __syncthreads();
    if (many < LEVELS) find_lines();
}

__device__ __forceinline__ Real of_few(unsigned level, unsigned bits) {
    const unsigned long long place = (unsigned long long)bits * SLOTS;
    const unsigned slot = (unsigned)(place >> 32), entry = tables[level * SLOTS + slot];
    return (float)((unsigned)place < entry ? slot : entry & 63u);
}

__device__ __forceinline__ Real of_many(unsigned level, unsigned bits) {
    return expanded(*(const Expected*)(tables + level * SLOTS), normal(bits));
}

__device__ __forceinline__ Real noisy(Real value, unsigned bits, const Row& row) {
    if (!(row.factor > 0.0f)) return value;
    const unsigned level = (unsigned)value.v;
    return ((int)level < many ? of_few(level, bits) : of_many(level, bits)) * row.factor;
}

#if CHANNELS
// The word of memory of four values, which have the bits of one counter.
template <bool ALL_FEW> __device__ __forceinline__ unsigned drawn(unsigned word, unsigned counter, const Row& row) {
    const Random random = random_of(counter, row);
    Real values[FOUR];
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        const unsigned level = word >> 8 * k & 255u, bits = random.words[k];
        values[k] = (ALL_FEW || (int)level < many ? of_few(level, bits) : of_many(level, bits)) * row.factor;
    }
    return word_of(values[0], values[1], values[2], values[3]);
}

__device__ __forceinline__ void make_four(const Image& image, unsigned four) {
    const Row& row = image.row;
    const unsigned first = four * CHANNELS;
    if (row.acts && row.factor > 0.0f && many < LEVELS) {
#pragma unroll 1
        for (unsigned k = first; k < first + CHANNELS; k++)
            ((unsigned*)image.out)[k] = drawn<false>(__ldg((const unsigned*)image.in + k), k, row);
        return;
    }
    Words<IN, CHANNELS> words;
    words.read(image.in, four);
    if (row.acts && row.factor > 0.0f)
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) words.words[k] = drawn<true>(words.words[k], first + k, row);
    words.write(image.out, four);
}

FOR_EVERY_FOUR_IN(3, begin, contiguous, make_four, make, no_op)
#else
FOR_EVERY_PIXEL_AFTER(4, begin, make)
#endif
#else
#include "noise.cuh"
#endif
