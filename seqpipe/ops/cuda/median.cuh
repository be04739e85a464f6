// The median of the square window around each value. Values are compared as unsigned integers of the same order.
//
// Row has window_size, up to MOST_SIDE, and reach, the number of the kernel that it needs: for a size of 3 a warp computes a
// strip, otherwise a block computes a tile.
#include "sortable.cuh"
constexpr int WAVES = 2;  // for it waits for memory more than it computes
#include "window.cuh"

// Orders have ORDER_BITS bits.
enum { ORDER_BITS = IN == 0 ? 8 : IN < 3 ? 16 : 32 };
__device__ __forceinline__ unsigned ordered(Real value) {
    if (IN < 3) return (unsigned)((int)value.v + (IN == 2 ? 32768 : 0));
    return place_of(value.v);
}
__device__ __forceinline__ Real unordered(unsigned order) {
    if (IN < 3) return (float)((int)order - (IN == 2 ? 32768 : 0));
    return value_at(order);
}

// Of three by three. Whole numbers lie two by two in a word, and so are compared.
struct Near {
    static constexpr int PACKS = IN < 3 ? 2 : PER_LANE, REACH = STEP, LEAD = (REACH + EACH - 1) / EACH * EACH;
    typedef Typed<OUT>::T Made;
    static constexpr int ROWS = rows_of(2 * Seen<1, LEAD, REACH>::PITCH * sizeof(unsigned) + STRIP * sizeof(Made));

    Seen<ROWS, LEAD, REACH> seen[2];
    Made aside[ROWS][STRIP];

    static __device__ __forceinline__ unsigned least(unsigned a, unsigned b) {
        if constexpr (IN < 3)
            return __vminu2(a, b);
        else
            return a < b ? a : b;
    }
    static __device__ __forceinline__ unsigned most(unsigned a, unsigned b) {
        if constexpr (IN < 3)
            return __vmaxu2(a, b);
        else
            return a < b ? b : a;
    }
    static __device__ __forceinline__ unsigned middle(unsigned a, unsigned b, unsigned c) {
        return most(least(a, b), least(most(a, b), c));
    }

    // Three beside each other in order, for each of a thread's own.
    struct Ordered {
        unsigned low[PACKS], mid[PACKS], high[PACKS];
    };

    // OWN values, the first of which is value `first` of these words.
    static __device__ __forceinline__ void packed_values(const unsigned* words, int first, unsigned (&packs)[PACKS]) {
        const unsigned* const from = words + first / EACH;
        const unsigned phase = 0x3210 + 0x1111 * (first % EACH * SIZE);
        if constexpr (IN == 0) {
            const unsigned four = first % EACH ? __byte_perm(from[0], from[1], phase) : from[0];
            packs[0] = four & 0x00ff00ff, packs[1] = four >> 8 & 0x00ff00ff;
        } else if constexpr (IN < 3) {
#pragma unroll
            for (int k = 0; k < PACKS; k++)
                packs[k] = (first % EACH ? __byte_perm(from[k], from[k + 1], phase) : from[k]) ^ (IN == 2 ? 0x80008000 : 0);
        } else {
#pragma unroll
            for (int k = 0; k < PACKS; k++) packs[k] = place_of(__uint_as_float(from[k]));
        }
    }
    static __device__ __forceinline__ void values_of(const unsigned (&packs)[PACKS], unsigned (&bits)[PER_LANE]) {
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            if constexpr (IN == 0)
                bits[k] = packs[k % 2] >> k / 2 * 16;
            else if constexpr (IN < 3)
                bits[k] = (packs[k / 2] ^ (IN == 2 ? 0x80008000 : 0)) >> k % 2 * 16;
            else
                bits[k] = rounded_bits<OUT>(value_at(packs[k]));
        }
    }

    static __device__ __forceinline__ Ordered in_order(const unsigned* from) {
        constexpr int COUNT = (LEAD + REACH + PER_LANE - 1) / EACH + 1;
        from += threadIdx.x % LANES * (PER_LANE / EACH);
        unsigned words[COUNT + 1], left[PACKS], own[PACKS], right[PACKS];
#pragma unroll
        for (int k = 0; k < COUNT; k++) words[k] = from[k];
        words[COUNT] = 0;
        packed_values(words, LEAD - REACH, left);
        packed_values(words, LEAD, own);
        packed_values(words, LEAD + REACH, right);
        Ordered found;
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            const unsigned small = least(left[k], own[k]), large = most(left[k], own[k]);
            found.low[k] = least(small, right[k]), found.high[k] = most(large, right[k]);
            found.mid[k] = most(small, least(large, right[k]));
        }
        return found;
    }

    // The middle one of the greatest first, the middle second, the least third.
    static __device__ __forceinline__ void medians(const Ordered& a, const Ordered& b, const Ordered& c, unsigned (&bits)[PER_LANE]) {
        unsigned found[PACKS];
#pragma unroll
        for (int k = 0; k < PACKS; k++)
            found[k] = middle(most(most(a.low[k], b.low[k]), c.low[k]), middle(a.mid[k], b.mid[k], c.mid[k]),
                              least(least(a.high[k], b.high[k]), c.high[k]));
        values_of(found, bits);
    }

    __device__ __forceinline__ void make(const ImageInfo& info, const Strip& strip) {
        const unsigned own = strip.first_value() < info.output.length ? strip.tall : 0;
        Ordered lines[2 + ROWS];
        lines[0] = lines[1] = Ordered{};
        int turn = 0;
        __syncwarp();
        seen[turn].prefetch(info, strip, strip.top - 1);
#pragma unroll 1
        for (int line = -2; line < strip.tall; line += ROWS, turn ^= 1) {
            seen[turn].wait(info, strip, strip.top + line + 1);
            if (line + ROWS < strip.tall) seen[turn ^ 1].prefetch(info, strip, strip.top + line + 1 + ROWS);
            Address to = info.output.contiguous_at(strip.channel, strip.top + line, strip.first_value());
            const bool aligned = info.aligned;
            const Address step = info.output.line;
#pragma unroll
            for (int k = 0; k < ROWS; k++, to += step) {
                lines[k + 2] = in_order(seen[turn].line(k));
                if ((unsigned)(line + k) >= own) continue;
                unsigned bits[PER_LANE];
                medians(lines[k], lines[k + 1], lines[k + 2], bits);
                if (opaque(aligned))
                    store_bits(to, bits);
                else
#pragma unroll
                    for (int i = 0; i < PER_LANE; i++) aside[k][strip.first_value() - strip.left + i] = of_bits<OUT>(bits[i]);
            }
            if (!aligned) store_unaligned<ROWS>(info, strip, line, [&](int k, int x, Real) { return value_of<OUT>(aside[k][x]); });
            lines[0] = lines[ROWS], lines[1] = lines[ROWS + 1];
        }
    }
};

KERNEL(MANY_REGISTERS ? 2 : 3, few) {
    static_assert(sizeof(Near) <= BYTES, "fits");
    for_image(job, 0, [](const Image& image, const ImageInfo& info, WarpMemory& memory) {
        if (!image.row.acts) return copy_strips(info);
        Near& here = *(Near*)&memory;
        for_strips<Near::ROWS, 2>(info, [&](const Strip& strip) { here.make(info, strip); });
    });
}

constexpr int HIGH = 32, MOST_SIDE = 15, ROOM = HIGH + MOST_SIDE - 1, PITCH = ROOM | 1;
constexpr int PLANE = PITCH * (BROAD + MOST_SIDE - 1);
constexpr int SHARE = BROAD / GROUPS;  // columns of a thread

// From the highest bit on: the greatest order that no more values are below of than of the middle one.
__device__ __forceinline__ void medians(const unsigned* at, int size, unsigned (&found)[SHARE]) {
#pragma unroll
    for (int i = 0; i < SHARE; i++) found[i] = 0;
    for (unsigned bit = 1u << (ORDER_BITS - 1); bit; bit >>= 1) {
        int less[SHARE] = {};
        for (int x = 0; x < size + SHARE - 1; x++) {
            unsigned limits[SHARE];
#pragma unroll
            for (int i = 0; i < SHARE; i++) limits[i] = x >= i && x < i + size ? found[i] | bit : 0;
#pragma unroll 4
            for (int y = 0; y < size; y++) {
                const unsigned order = at[x * PITCH + y];
#pragma unroll
                for (int i = 0; i < SHARE; i++) less[i] += order < limits[i];
            }
        }
#pragma unroll
        for (int i = 0; i < SHARE; i++)
            if (less[i] <= size * size / 2) found[i] |= bit;
    }
}

__device__ __forceinline__ void make(const Image& image, int channel, Tile tile, unsigned* orders) {
    const int size = image.row.window_size, before = size / 2;
    const Tile seen = {tile.top - before, tile.left - before, tile.tall + size - 1, tile.wide + size - 1};
    load_tile<TOGETHER, PITCH, PLANE, ROOM>(image, channel, seen, orders, [](Real value) { return ordered(value); });
    const int y = threadIdx.x % LANES, x = threadIdx.x / LANES * SHARE;
    unsigned found[TOGETHER][SHARE];
    if (y < tile.tall && x < tile.wide)
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) medians(orders + (k * PLANE + x * PITCH + y), size, found[k]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TOGETHER; k++)
#pragma unroll
        for (int i = 0; i < SHARE; i++) orders[k * PLANE + (x + i) * PITCH + y] = found[k][i];
    __syncthreads();
    store_tile<TOGETHER, PITCH, PLANE>(image, channel, tile, orders, [](unsigned order) { return unordered(order); });
}

KERNEL(MANY_REGISTERS ? 3 : 4, far) {
    __shared__ unsigned orders[TOGETHER * PLANE];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (image.row.reach != 1) return;
    for (int place = blockIdx.x; place < tiles_of<HIGH>(image.item); place += gridDim.x)
        for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER)
            make(image, channel, tile_of<HIGH>(image.item, place), orders);
}
