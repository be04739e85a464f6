// A block makes TALL by WIDE pixels, each of its threads first a square of four: of its tile sixteen blocks of luminance
// and four of each colour difference, at half the resolution, come to be in shared memory. Then a thread does a row of
// a block, or a column, as a whole. jpeg.py says what is done, and in which order; the operator's text is the transform.
constexpr int LUMINANCE = TALL / 8 * (WIDE / 8), BLOCKS = LUMINANCE * 3 / 2, BLUE = LUMINANCE, RED = LUMINANCE * 5 / 4;
constexpr int LINE = 9, BLOCK = 8 * LINE;  // 9, so that threads with neighbouring rows meet no bank twice
static_assert(THREADS * 4 == TALL * WIDE, "");

__device__ __forceinline__ Real level(Real value) { return rintf(fminf(fmaxf(value.v, 0.0f), 255.0f)); }

struct Colour {
    Real red, green, blue;
    __device__ __forceinline__ Real weighted(float r, float g, float b) const { return red * r + green * g + blue * b; }
};

__device__ __forceinline__ Colour colour_at(const Image& image, int y, int x) {
    const Address at = image.from(min(y, image.item.in_height - 1), min(x, image.item.in_width - 1));
    const Address step = (Address)image.item.in_strides[4];
    const Real scale = image.row.scale;
    return {level(load<IN>(at) * scale), level(load<IN>(at + step) * scale), level(load<IN>(at + 2 * step) * scale)};
}

// A square of four pixels, less 128; beyond the image its last pixels come again, in each plane of its own size.
__device__ __forceinline__ void take_square(const Image& image, int top, int left, Real* values) {
    const int y = threadIdx.x / (WIDE / 2), x = threadIdx.x % (WIDE / 2);
    const int half = min(top / 2 + y, (image.item.in_height - 1) / 2) * 2;
    Real blue = 0.0f, red = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int line = top + 2 * y + k / 2, column = left + 2 * x + k % 2, block = y / 4 * (WIDE / 8) + x / 4;
        Colour colour = colour_at(image, line, column);
        values[block * BLOCK + (y % 4 * 2 + k / 2) * LINE + x % 4 * 2 + k % 2] =
            level(colour.weighted(0.299f, 0.587f, 0.114f)) - 128.0f;
        if (half + k / 2 != line) colour = colour_at(image, half + k / 2, column);
        blue = blue + level(colour.weighted(-0.168735892f, -0.331264108f, 0.5f) + 128.0f);
        red = red + level(colour.weighted(0.5f, -0.418687589f, -0.081312411f) + 128.0f);
    }
    Real* const at = values + (y / 8 * (WIDE / 16) + x / 8) * BLOCK + y % 8 * LINE + x % 8;
    const float turn = (float)(1 + x % 2);
    at[BLUE * BLOCK] = Real(floorf(((blue + turn) * 0.25f).v)) - 128.0f;
    at[RED * BLOCK] = Real(floorf(((red + turn) * 0.25f).v)) - 128.0f;
}

// Eight values as frequencies, or back.
template <bool BACK> __device__ __forceinline__ void turn(Real (&values)[8]) {
    const float cosines[] = {BODY};
    Real found[8];
#pragma unroll
    for (int to = 0; to < 8; to++) {
        found[to] = values[0] * cosines[BACK ? to : to * 8];
#pragma unroll
        for (int k = 1; k < 8; k++) found[to] = found[to] + values[k] * cosines[BACK ? k * 8 + to : to * 8 + k];
    }
#pragma unroll
    for (int k = 0; k < 8; k++) values[k] = found[k];
}

__device__ __forceinline__ void squeeze(const Row& row, Real* values) {
    const int block = threadIdx.x / 8, place = threadIdx.x % 8;
    Real *const across = values + block * BLOCK + place * LINE, *const down = values + block * BLOCK + place;
    const Real* const steps = row.steps + (block < LUMINANCE ? 0 : 64) + place;
    const bool mine = block < BLOCKS;
    Real line[8];
    __syncthreads();
    if (mine) {
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = across[k];
        turn<false>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) across[k] = line[k];
    }
    __syncthreads();
    if (mine) {
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = down[k * LINE];
        turn<false>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = Real(rintf((line[k] / steps[8 * k]).v)) * steps[8 * k];
        turn<true>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) down[k * LINE] = line[k];
    }
    __syncthreads();
    if (mine) {
#pragma unroll
        for (int k = 0; k < 8; k++) line[k] = across[k];
        turn<true>(line);
#pragma unroll
        for (int k = 0; k < 8; k++) across[k] = level(line[k] + 128.0f);
    }
    __syncthreads();
}

__device__ __forceinline__ void give(const Image& image, int top, int left, const Real* values) {
    const Row& row = image.row;
    for (int e = threadIdx.x; e < TALL * WIDE; e += THREADS) {
        const int y = e / WIDE, x = e % WIDE, half = y / 16 * (WIDE / 16) + x / 16;
        if (top + y >= image.item.height || left + x >= image.item.width) continue;
        const Real luminance = values[(y / 8 * (WIDE / 8) + x / 8) * BLOCK + y % 8 * LINE + x % 8];
        const Real* const colours = values + half * BLOCK + y / 2 % 8 * LINE + x / 2 % 8;
        const Real blue = colours[BLUE * BLOCK] - 128.0f, red = colours[RED * BLOCK] - 128.0f;
        const Address in = image.from(top + y, left + x), out = image.to(top + y, left + x);
        const float from_blue[] = {0.0f, -0.344136286f, 1.772f}, from_red[] = {1.402f, -0.714136286f, 0.0f};
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) {
            const Real found = level(luminance + (blue * from_blue[channel] + red * from_red[channel])) / row.scale;
            const Address to = out + (Address)(channel * image.item.out_strides[4]);
            store<OUT>(to, row.acts ? found : load<IN>(in + (Address)(channel * image.item.in_strides[4])));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ Real values[BLOCKS * BLOCK];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const int across = (image.item.width + WIDE - 1) / WIDE;
    const int top = blockIdx.x / across * TALL, left = blockIdx.x % across * WIDE;
    if (top >= image.item.height) return;
    if (image.row.acts) {
        take_square(image, top, left, values);
        squeeze(image.row, values);
    }
    give(image, top, left, values);
}
