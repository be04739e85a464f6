// Convolution: sums of products of the values around each value, and weights.
//
// Row has window[2] and anchor[2], rows and columns, and weights[MOST_WEIGHTS] in reading order; and reach, the number of the
// kernel that its window needs. For centered windows of 3 × 3 or 5 × 5 a warp computes a strip, and its threads keep sums from
// line to line. Otherwise blocks copy what a window of up to MOST_SIDE rows and columns covers into shared memory.
constexpr int WAVES = 1;
#include "window.cuh"

template <int SIDE> struct Near {
    static constexpr int REACH = SIDE / 2 * STEP, LEAD = (REACH + EACH - 1) / EACH * EACH, COUNT = PER_LANE + 2 * REACH;
    typedef typename Typed<OUT>::T Made;
    static constexpr int ROWS = rows_of(2 * Seen<1, LEAD, REACH>::PITCH * sizeof(unsigned) + STRIP * sizeof(Made));
    static constexpr int FIRST = LEAD - REACH, BEGIN = FIRST / EACH, END = (FIRST + COUNT - 1) / EACH + 1;

    typedef typename Weighs<SIDE == 3>::T By;  // more do not fit into registers

    Seen<ROWS, LEAD, REACH> seen[2];
    Made aside[ROWS][STRIP];

    // What a line adds to the sums of a thread's own values: the first weights to that of the line SIDE / 2 below.
    template <int LENGTH>
    __device__ __forceinline__ void add_line(const unsigned* from, int line, const By (&weights)[SIDE * SIDE],
                                             Real (&running)[PER_LANE][LENGTH]) const {
        from += threadIdx.x % LANES * (PER_LANE / EACH);
        unsigned words[END];
        Real values[COUNT];
#pragma unroll
        for (int k = BEGIN; k < END; k++) words[k] = from[k];
#pragma unroll
        for (int k = 0; k < COUNT; k++) values[k] = factor_in(words[(FIRST + k) / EACH], (FIRST + k) % EACH, By());
#pragma unroll
        for (int k = 0; k < SIDE * SIDE; k++)
#pragma unroll
            for (int own = 0; own < PER_LANE; own++) {
                Real& sum = running[own][line + SIDE - 1 - k / SIDE];
                const Real part = product(values[own + k % SIDE * STEP], weights[k]);
                sum = k ? sum + part : part;
            }
    }

    __device__ __forceinline__ void make(const ImageInfo& info, const Row& of_image, const Strip& strip) {
        const unsigned lines = strip.first_value() < info.output.length ? strip.tall : 0;
        By weights[SIDE * SIDE];
        Real running[PER_LANE][SIDE - 1 + ROWS];
#pragma unroll
        for (int k = 0; k < SIDE * SIDE; k++) weights[k] = By(of_image.weights[k]);
#pragma unroll
        for (int k = 0; k < PER_LANE * (SIDE - 1); k++) running[k % PER_LANE][k / PER_LANE] = 0.0f;
        int turn = 0;
        __syncwarp();
        seen[turn].prefetch(info, strip, strip.top - SIDE / 2);
#pragma unroll 1
        for (int line = 1 - SIDE; line < strip.tall; line += ROWS, turn ^= 1) {
            const int first = strip.top + line + SIDE / 2;
            seen[turn].wait(info, strip, first);
            if (line + ROWS < strip.tall) seen[turn ^ 1].prefetch(info, strip, first + ROWS);
            Address to = info.output.contiguous_at(strip.channel, strip.top + line, strip.first_value());
            const bool aligned = info.aligned;
            const Address step = info.output.line;
#pragma unroll
            for (int k = 0; k < ROWS; k++, to += step) {
                add_line(seen[turn].line(k), k, weights, running);
                if ((unsigned)(line + k) >= lines) continue;
                const Real values[PER_LANE] = {running[0][k], running[1][k], running[2][k], running[3][k]};
                if (opaque(aligned))
                    store_values(to, values);
                else
#pragma unroll
                    for (int i = 0; i < PER_LANE; i++) aside[k][strip.first_value() - strip.left + i] = of_bits<OUT>(rounded_bits<OUT>(values[i]));
            }
            if (!aligned)
                store_unaligned<ROWS>(info, strip, line, [&](int k, int x, Real) { return value_of<OUT>(aside[k][x]); });
#pragma unroll
            for (int k = 0; k < PER_LANE * (SIDE - 1); k++) running[k % PER_LANE][k / PER_LANE] = running[k % PER_LANE][k / PER_LANE + ROWS];
        }
    }
};
template <int SIDE> __device__ __forceinline__ void make_near(const Image& image, const ImageInfo& info, WarpMemory& memory) {
    typedef Near<SIDE> Here;
    static_assert(sizeof(Here) <= BYTES, "fits");
    Here& here = *(Here*)&memory;
    for_strips<Here::ROWS, SIDE - 1>(info, [&](const Strip& strip) { here.make(info, image.row, strip); });
}

KERNEL(MANY_REGISTERS ? 2 : 3, few) {
    for_image(job, 0, [](const Image& image, const ImageInfo& info, WarpMemory& memory) {
        if (image.row.acts)
            make_near<3>(image, info, memory);
        else
            copy_strips(info);
    });
}

KERNEL(2, near) {
    for_image(job, 1, [](const Image& image, const ImageInfo& info, WarpMemory& memory) { make_near<5>(image, info, memory); });
}

constexpr int MOST_WEIGHTS = sizeof(Row::weights) / sizeof(Real), MOST_SIDE = TOGETHER == 4 ? 17 : 25;
constexpr int HIGH = 32, ROOM = HIGH + MOST_SIDE - 1, PITCH = ROOM | 1, PLANE = PITCH * (BROAD + MOST_SIDE - 1);
constexpr int SHARE = BROAD / GROUPS;  // columns of a thread

// For larger windows: each value is read again for each result.
__device__ __forceinline__ Real far_sum(const Image& image, int y, int x, Address channel) {
    const Row& row = image.row;
    const int columns = row.window[1], count = row.window[0] * columns, border = (int)row.edge.v;
    Real sum = -0.0f;
    for (int k = 0; k < count; k++) {
        const int line = bordered(y + k / columns - row.anchor[0], image.item.in_height, border);
        const int column = bordered(x + k % columns - row.anchor[1], image.item.in_width, border);
        const bool inside = line >= 0 && column >= 0;
        sum = sum + (inside ? load<IN>(image.from(line, column) + channel) : row.beyond) * row.weights[k];
    }
    return sum;
}

__device__ __forceinline__ void make_tile(const Image& image, int channel, Tile tile, Real* values, const Real* weights) {
    const Row& row = image.row;
    const int rows = row.window[0], columns = row.window[1];
    const Tile seen = {tile.top - row.anchor[0], tile.left - row.anchor[1], tile.tall + rows - 1, tile.wide + columns - 1};
    load_tile<TOGETHER, PITCH, PLANE, ROOM>(image, channel, seen, values, [](Real value) { return value; });
    const int y = threadIdx.x % LANES, x = threadIdx.x / LANES * SHARE;
    Real sums[TOGETHER][SHARE];
    if (y < tile.tall && x < tile.wide)
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            begin(sums[k]);
            for (int i = 0; i < rows; i++)
                add_products(sums[k], values + (k * PLANE + x * PITCH + y + i), PITCH, weights + i * columns, columns);
        }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TOGETHER; k++)
#pragma unroll
        for (int i = 0; i < SHARE; i++) values[k * PLANE + (x + i) * PITCH + y] = sums[k][i];
    __syncthreads();
    store_tile<TOGETHER, PITCH, PLANE>(image, channel, tile, values, [](Real value) { return value; });
}

__device__ __forceinline__ void make_far(const Image& image, int channel, Tile tile) {
    for (int e = threadIdx.x; e < tile.tall * BROAD; e += THREADS) {
        const int y = tile.top + e / BROAD, x = tile.left + e % BROAD;
        if (e % BROAD >= tile.wide) continue;
#pragma unroll 1
        for (int k = channel; k < channel + TOGETHER; k++) {
            const Real found = far_sum(image, y, x, (Address)(k * image.item.in_strides[4]));
            store<OUT>(image.to(y, x) + (Address)(k * image.item.out_strides[4]), found);
        }
    }
}

KERNEL(MANY_REGISTERS ? 2 : 3, far) {
    __shared__ Real values[TOGETHER * PLANE], weights[MOST_WEIGHTS];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const Row& row = image.row;
    if (row.reach != 2) return;
    const bool fits = row.window[0] <= MOST_SIDE && row.window[1] <= MOST_SIDE;
    for (int k = threadIdx.x; fits && k < row.window[0] * row.window[1]; k += THREADS) weights[k] = row.weights[k];
    for (int place = blockIdx.x; place < tiles_of<HIGH>(image.item); place += gridDim.x) {
        const Tile tile = tile_of<HIGH>(image.item, place);
        for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
            if (fits)
                make_tile(image, channel, tile, values, weights);
            else
                make_far(image, channel, tile);
        }
    }
}
