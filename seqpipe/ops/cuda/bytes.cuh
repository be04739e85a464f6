// Converts the bytes in words to numbers.
[[maybe_unused]] constexpr int WORD = sizeof(unsigned);

// A byte as the lowest bits of 2²³, which is quicker than the conversion.
constexpr unsigned LIFT = 0x4b000000;  // the bits of 2²³
__device__ __forceinline__ float lifted_byte(unsigned word, int number, unsigned lift = LIFT) {
    return __uint_as_float(__byte_perm(word, lift, 0x7440 + number));
}
__device__ __forceinline__ Real byte_of(unsigned word, int number) { return Real(lifted_byte(word, number)) - Real(8388608.0f); }

// A weight of bytes: what 2²³ adds to the product is taken away in the same step, so that the product is the exact one,
// rounded once.
struct Weight {
    Real weight, lifted;
    Weight() = default;
    __device__ __forceinline__ Weight(Real weight) : weight(weight), lifted(weight * Real(-8388608.0f)) {}
    __device__ __forceinline__ Real times(unsigned word, int number, unsigned lift = LIFT) const {
        return fmaf(weight.v, lifted_byte(word, number, lift), lifted.v);
    }
};

// Two numbers as bytes, by the rule of `stored`, below others: a GPU makes them in one step.
__device__ __forceinline__ unsigned pair_of(int a, int b, unsigned above = 0) {
#ifdef __CUDACC__
    unsigned word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %2, %1, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(above));
    return word;
#else
    return (unsigned)min(max(a, 0), 255) | (unsigned)min(max(b, 0), 255) << 8 | above << 16;
#endif
}
__device__ __forceinline__ unsigned word_of(int a, int b, int c, int d) { return pair_of(a, b, pair_of(c, d)); }
__device__ __forceinline__ unsigned word_of(Real a, Real b, Real c, Real d) {
#ifdef __CUDACC__
    return word_of(__float2int_rn(a.v), __float2int_rn(b.v), __float2int_rn(c.v), __float2int_rn(d.v));
#else
    return word_of(stored<0>(a), stored<0>(b), stored<0>(c), stored<0>(d));
#endif
}

// The lowest bytes of four words.
__device__ __forceinline__ unsigned lowest_bytes(const unsigned (&words)[4]) {
    return __byte_perm(__byte_perm(words[0], words[1], 0x0040), __byte_perm(words[2], words[3], 0x0040), 0x5410);
}

// So many bytes from anywhere on: the words that hold them, shifted. Of memory behind them only the rest of a word is read.
template <int BYTES> struct Bytes {
    static constexpr int COUNT = (BYTES + 3) / 4;
    unsigned words[COUNT];
    __device__ __forceinline__ void read(Address at) {
        const unsigned* const from = (const unsigned*)(at & ~(Address)3);
        const unsigned before = at & 3;
        unsigned taken[COUNT + 1];
#pragma unroll
        for (int k = 0; k <= COUNT; k++) taken[k] = 4 * k < before + BYTES ? __ldg(from + k) : 0;
#pragma unroll
        for (int k = 0; k < COUNT; k++) words[k] = __funnelshift_r(taken[k], taken[k + 1], 8 * before);
    }
    __device__ __forceinline__ Real get(int number) const { return byte_of(words[number / 4], number % 4); }
    __device__ __forceinline__ Real times(Weight weight, int number) const {
        return weight.times(words[number / 4], number % 4);
    }
};
