// Colors of a coded unit as luminance and chrominance, as in JFIF, and back: 16 × 16 pixels of luminance, and 8 × 8 of each
// chrominance channel, at half the resolution. A warp computes it, and a thread has two adjacent squares of four pixels.
#include "bytes.cuh"

constexpr int SIDE = 16, FOUR = 4, ACROSS = SIDE / FOUR;  // threads beside each other
// Blocks of 8 × 8 values of two adjacent units: four blocks of luminance of each unit, then blue and red of each. A block has a
// line more than it needs, so that threads with the same column of several blocks access different banks.
constexpr int UNITS = 2, BLOCKS = UNITS * 6, BLOCK_LINES = 8 + 1;

// A line of a block: eight numbers, two to a word, and in the end as many bytes.
union __align__(16) Line {
    unsigned words[4];
    short numbers[8];
    unsigned char bytes[8];
};
struct __align__(8) Two {
    unsigned words[2];
};

// Where the squares of a thread are: pixels in the unit; line and column in its blocks.
struct Place {
    int y, x;
    __device__ __forceinline__ Place() : y(threadIdx.x % 32 / ACROSS * 2), x(threadIdx.x % ACROSS * FOUR) {}
    __device__ __forceinline__ int luminance_line(int unit) const {
        return (unit * 4 + y / 8 * 2 + x / 8) * BLOCK_LINES + y % 8;
    }
    __device__ __forceinline__ int difference_line(int unit) const { return (UNITS * 4 + unit * 2) * BLOCK_LINES + y / 2; }
    __device__ __forceinline__ int luminance_column() const { return x % 8; }
    __device__ __forceinline__ int difference_column() const { return x / 2; }
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
    __device__ __forceinline__ void put_luminance(Line* to, int column) const {
#pragma unroll
        for (int y = 0; y < 2; y++) {
            unsigned found[FOUR];
#pragma unroll
            for (int x = 0; x < FOUR; x++) found[x] = luminance_of(colors[y][x]);
            *(Two*)(to[y].numbers + column) = {{upper_halves(found[0], found[1]), upper_halves(found[2], found[3])}};
        }
    }
    // Means that lie at a half are rounded down and up in turn.
    template <class Below> __device__ __forceinline__ unsigned means(Below below) const {
        unsigned sum = (4 * 255 + 1) | (4 * 255 + 2) << 16;
#pragma unroll
        for (int k = 0; k < 4; k++) sum -= upper_halves(below(colors[k / 2][k % 2]), below(colors[k / 2][k % 2 + 2]));
        return sum >> 2 & 0xFF00FF;
    }
    __device__ __forceinline__ void put_differences(Line* to, int column) const {
        *(unsigned*)(to[0].numbers + column) = means(blue_below);
        *(unsigned*)(to[BLOCK_LINES].numbers + column) = means(red_below);
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

// The colors of a thread's squares of a unit, by lines as words.
__device__ __forceinline__ void put_colors(const Line* lines, const Place& place, int unit, unsigned* words, int pitch) {
    const Line *const luminance = lines + place.luminance_line(unit), *const difference = lines + place.difference_line(unit);
    const unsigned blue = *(const unsigned short*)(difference[0].bytes + place.difference_column());
    const unsigned red = *(const unsigned short*)(difference[BLOCK_LINES].bytes + place.difference_column());
    const Added added[2] = {Added(blue & 255, red & 255), Added(blue >> 8, red >> 8)};
#pragma unroll
    for (int y = 0; y < 2; y++, words += pitch) {
        const unsigned luminances = *(const unsigned*)(luminance[y].bytes + place.luminance_column());
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
