// Colors of a coded unit as luminance and chrominance, as in JFIF, and back: 16 × 16 pixels of luminance, and 8 × 8 of each
// chrominance channel, at half the resolution. A warp computes it, and a thread has two adjacent squares of four pixels.
#include "bytes.cuh"

constexpr int SIDE = 16, FOUR = 4, ACROSS = SIDE / FOUR;  // threads beside each other
// Lines of a unit's planes: luminance, and differences beside it, blue above red. So long that threads meet no bank twice.
constexpr int LINE = SIDE + SIDE / 2, BLUE = SIDE, RED = SIDE + SIDE / 2 * LINE;

struct __align__(8) Two {
    unsigned words[2];
};
struct Planes {
    __align__(16) unsigned short given[SIDE * LINE];
    __align__(16) unsigned char found[SIDE * LINE];
};

// Where the squares of a thread are in a unit.
struct Place {
    int y, x;
    __device__ __forceinline__ Place() : y(threadIdx.x % 32 / ACROSS * 2), x(threadIdx.x % ACROSS * FOUR) {}
    __device__ __forceinline__ int luminance() const { return y * LINE + x; }
    __device__ __forceinline__ int difference() const { return y / 2 * LINE + x / 2; }
};

// The sum of products of unsigned bytes with bytes that have a sign.
__device__ __forceinline__ int sum_of(unsigned bytes, unsigned weights) {
#ifdef __CUDACC__
    int sum;
    asm("dp4a.u32.s32 %0, %1, %2, 0;" : "=r"(sum) : "r"(bytes), "r"(weights));
    return sum;
#else
    int sum = 0;
    for (int k = 0; k < 32; k += 8) sum += (int)(bytes >> k & 255) * (signed char)(weights >> k);
    return sum;
#endif
}

// Of a color, red in the lowest byte, in parts of 2¹⁶: luminance, and how far differences are below 255. Weights of 16 bits
// are two bytes, for products of four bytes are summed up in one step; the highest byte has no weight.
__device__ __forceinline__ unsigned luminance_of(unsigned color) {
    return __dp4a(color, 0x001D964Cu, 0u) * 256 + __dp4a(color, 0x002F468Bu, 32768u);
}
__device__ __forceinline__ unsigned blue_below(unsigned color) {
    return sum_of(color, 0x0080542Bu) * 256 + __dp4a(color, 0x0000CD33u, (128u << 16) - 32768);
}
__device__ __forceinline__ unsigned red_below(unsigned color) {
    return sum_of(color, 0x00146B80u) * 256 + __dp4a(color, 0x00D12F00u, (128u << 16) - 32768);
}
__device__ __forceinline__ unsigned upper_halves(unsigned first, unsigned second) { return __byte_perm(first, second, 0x7632); }

// The colors of two squares, by lines: of each three words.
struct Squares {
    unsigned colors[2][FOUR];
    __device__ __forceinline__ Squares(const unsigned* words, int pitch) {
#pragma unroll
        for (int y = 0; y < 2; y++, words += pitch) {
            colors[y][0] = words[0], colors[y][1] = __funnelshift_r(words[0], words[1], 24);
            colors[y][2] = __funnelshift_r(words[1], words[2], 16), colors[y][3] = words[2] >> 8;
        }
    }
    __device__ __forceinline__ void put_luminance(unsigned short* to) const {
#pragma unroll
        for (int y = 0; y < 2; y++) {
            unsigned found[FOUR];
#pragma unroll
            for (int x = 0; x < FOUR; x++) found[x] = luminance_of(colors[y][x]);
            *(Two*)(to + y * LINE) = {{upper_halves(found[0], found[1]), upper_halves(found[2], found[3])}};
        }
    }
    // Means that lie at a half are rounded down and up in turn.
    template <class Below> __device__ __forceinline__ unsigned means(Below below) const {
        unsigned sum = (4 * 255 + 1) | (4 * 255 + 2) << 16;
#pragma unroll
        for (int k = 0; k < 4; k++) sum -= upper_halves(below(colors[k / 2][k % 2]), below(colors[k / 2][k % 2 + 2]));
        return sum >> 2 & 0xFF00FF;
    }
    __device__ __forceinline__ void put_differences(unsigned short* to) const {
        *(unsigned*)(to + BLUE) = means(blue_below), *(unsigned*)(to + RED) = means(red_below);
    }
};

// What the differences of a square add to its luminances.
struct Added {
    unsigned red, green, blue;
    __device__ __forceinline__ Added(int of_blue, int of_red) {
        red = (of_red * 91881 + 32768 - 128 * 91881) >> 16;
        green = (of_blue * -22554 + of_red * -46802 + 32768 + 128 * (22554 + 46802)) >> 16;
        blue = (of_blue * 116130 + 32768 - 128 * 116130) >> 16;
    }
};

// The colors of a thread's squares, by lines as words.
__device__ __forceinline__ void put_colors(const unsigned char* found, const Place& place, unsigned* words, int pitch) {
    const unsigned blue = *(const unsigned short*)(found + BLUE + place.difference());
    const unsigned red = *(const unsigned short*)(found + RED + place.difference());
    const Added added[2] = {Added(blue & 255, red & 255), Added(blue >> 8, red >> 8)};
#pragma unroll
    for (int y = 0; y < 2; y++, words += pitch) {
        const unsigned luminances = *(const unsigned*)(found + place.luminance() + y * LINE);
        int levels[3 * FOUR];
#pragma unroll
        for (int x = 0; x < FOUR; x++) {
            const unsigned one = 1u << 8 * x;  // its product adds a byte
            levels[3 * x] = __dp4a(luminances, one, added[x / 2].red);
            levels[3 * x + 1] = __dp4a(luminances, one, added[x / 2].green);
            levels[3 * x + 2] = __dp4a(luminances, one, added[x / 2].blue);
        }
#pragma unroll
        for (int k = 0; k < 3; k++) words[k] = word_of(levels[4 * k], levels[4 * k + 1], levels[4 * k + 2], levels[4 * k + 3]);
    }
}
