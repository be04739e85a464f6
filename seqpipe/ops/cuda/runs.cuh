// Runs of pixels in a row as whole words, at any byte offset: the unit that moved.cuh copies.
#if CHANNELS
constexpr int PIXEL = CHANNELS * ELEMENT_BYTES;           // bytes
constexpr int RUN = PIXEL <= 4 ? 4 : PIXEL <= 8 ? 2 : 1;  // pixels
constexpr int WORDS = RUN * PIXEL / (int)sizeof(unsigned);
static_assert(WORDS * sizeof(unsigned) == RUN * PIXEL, "a run must be whole words");

struct Run {
    unsigned words[WORDS];
};

// Reads a run that begins at any byte, and only words that contain a part of it.
__device__ __forceinline__ void read(Address at, Run& run) {
    const unsigned aside = at % sizeof(unsigned);
    const unsigned* from = (const unsigned*)(at - aside);
#pragma unroll
    for (int k = 0; k < WORDS; k++) run.words[k] = __ldg(from + k);
    if (aside == 0) return;
    const unsigned last = __ldg(from + WORDS), order = 0x3210u + 0x1111u * aside;
#pragma unroll
    for (int k = 0; k < WORDS; k++)
        run.words[k] = __byte_perm(run.words[k], k + 1 < WORDS ? run.words[k + 1] : last, order);
}

// Reverses the pixels of a run; the source of each byte is known at compile time.
__device__ __forceinline__ void reverse(Run& run) {
    const Run given = run;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        unsigned word = 0;
#pragma unroll
        for (int from = 0; from < WORDS; from++) {
            unsigned order = 0;
            bool any = false;
#pragma unroll
            for (int byte = 0; byte < 4; byte++) {
                const int at = 4 * k + byte, was = (RUN - 1 - at / PIXEL) * PIXEL + at % PIXEL;
                order |= (was / 4 == from ? 4u + was % 4 : (unsigned)byte) << 4 * byte;
                any = any || was / 4 == from;
            }
            if (any) word = __byte_perm(word, given.words[from], order);
        }
        run.words[k] = word;
    }
}

// Whether the values of a pixel, and the pixels of a row, are contiguous.
__device__ __forceinline__ bool packed(const long long* strides) {
    return strides[3] == PIXEL && (CHANNELS == 1 || strides[4] == ELEMENT_BYTES);
}
#endif
