// Sums of products of a column and a row of weights. A block makes a tile: first the rows of all lines that it needs,
// then the columns. The operator's statements change `value`, the sum; `center` is what was there before.
//
// Row has taps[2 * TERMS] and weights[2 * TERMS][MOST_TAPS]: column and row of the first term, then of the second.
constexpr int TERMS = sizeof(Row::taps) / (2 * sizeof(int));
constexpr int MOST_TAPS = sizeof(Row::weights) / (2 * TERMS * sizeof(Real));
constexpr int TILE = 32, SHARE = TILE * TILE / THREADS;

__device__ __forceinline__ Real finished(Real value, Real center, const Row& row) {
    BODY
    return value;
}

// A value along a line, from its neighbours; `y` may lie beyond the border, `x` does not.
__device__ __forceinline__ Real swept(const Image& image, int y, int x, int channel, const Real* weights, int taps) {
    const Row& row = image.row;
    const int border = (int)row.edge.v, line = bordered(y, image.item.in_height, border);
    Real sum = 0.0f;
    for (int k = 0; k < taps; k++) {
        const int at = bordered(x - taps / 2 + k, image.item.in_width, border);
        const bool known = line >= 0 && at >= 0;
        const Address from = known ? image.from(line, at) + (Address)(channel * image.item.in_strides[4]) : 0;
        const Real part = (known ? load<IN>(from) : row.beyond) * weights[k];
        sum = k ? sum + part : part;
    }
    return sum;
}

__device__ __forceinline__ void make(const Image& image, int top, int left, int channel, Real* lines) {
    const Row& row = image.row;
    Real sums[SHARE];
#pragma unroll
    for (int term = 0; term < TERMS; term++) {
        const Real *column = row.weights + 2 * term * MOST_TAPS, *across = column + MOST_TAPS;
        const int tall = row.taps[2 * term], wide = row.taps[2 * term + 1];
        __syncthreads();
        for (int e = threadIdx.x; row.acts && e < (TILE + tall - 1) * TILE; e += THREADS) {
            const int y = top + e / TILE - tall / 2, x = left + e % TILE;
            if (x < image.item.width) lines[e] = swept(image, y, x, channel, across, wide);
        }
        __syncthreads();
#pragma unroll
        for (int share = 0; share < SHARE; share++) {
            const Real* at = lines + (threadIdx.x + share * THREADS);
            Real sum = 0.0f;
            for (int k = 0; row.acts && k < tall; k++) {
                const Real part = at[k * TILE] * column[k];
                sum = k ? sum + part : part;
            }
            sums[share] = term ? sums[share] + sum : sum;
        }
    }
#pragma unroll
    for (int share = 0; share < SHARE; share++) {
        const int e = threadIdx.x + share * THREADS, y = top + e / TILE, x = left + e % TILE;
        if (y >= image.item.height || x >= image.item.width) continue;
        const Real center = load<IN>(image.from(y, x) + (Address)(channel * image.item.in_strides[4]));
        const Address to = image.to(y, x) + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? finished(sums[share], center, row) : center);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ Real lines[(TILE + MOST_TAPS - 1) * TILE];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const int width = image.item.width, height = image.item.height;
    const int wide = (width + TILE - 1) / TILE, tiles = wide * ((height + TILE - 1) / TILE);
    const int blocks = ((unsigned)width * height + THREADS - 1) / THREADS;  // no more than there are
    if (blockIdx.x >= blocks) return;
    for (int tile = blockIdx.x; tile < tiles; tile += blocks)
        for (int channel = 0; channel < CHANNELS_OF(image); channel++)
            make(image, tile / wide * TILE, tile % wide * TILE, channel, lines);
}
