// A block makes squares of 16 by 16 pixels: four blocks of luminance, and one of each colour difference at half the
// resolution. Shared memory holds these six, each as its 64 values; jpeg.py says what is done, and in which order.
constexpr int SIDE = 16, VALUES = 6 * 64;

__device__ __forceinline__ Real level(Real value) { return rintf(fminf(fmaxf(value.v, 0.0f), 255.0f)); }

__device__ __forceinline__ Real weighted(const Image& image, int y, int x, float red, float green, float blue) {
    const Address at = image.from(min(y, image.item.in_height - 1), min(x, image.item.in_width - 1));
    const Address step = (Address)image.item.in_strides[4];
    const Real scale = image.row.scale;
    const Real r = level(load<IN>(at) * scale), g = level(load<IN>(at + step) * scale);
    return r * red + g * green + level(load<IN>(at + 2 * step) * scale) * blue;
}

__device__ __forceinline__ Real difference(const Image& image, int y, int x, bool red) {
    return level(red ? weighted(image, y, x, 0.5f, -0.418687589f, -0.081312411f) + 128.0f
                     : weighted(image, y, x, -0.168735892f, -0.331264108f, 0.5f) + 128.0f);
}

// Of a value of the six blocks: what it is before anything is done to it.
__device__ __forceinline__ Real first(const Image& image, int top, int left, int block, int y, int x) {
    if (block < 4) {
        const int line = top + block / 2 * 8 + y, column = left + block % 2 * 8 + x;
        return level(weighted(image, line, column, 0.299f, 0.587f, 0.114f));
    }
    const int line = min(top / 2 + y, (image.item.in_height - 1) / 2) * 2, column = left + 2 * x;
    const bool red = block == 5;
    const Real upper = difference(image, line, column, red) + difference(image, line, column + 1, red);
    const Real total = upper + difference(image, line + 1, column, red) + difference(image, line + 1, column + 1, red);
    return floorf(((total + (float)(1 + x % 2)) * 0.25f).v);
}

// Each of the values along one axis of the blocks from the eight there.
__device__ __forceinline__ Real turned(const Real* block, int from, int step, const Real* cosines, int across) {
    Real sum = block[from] * cosines[0];
    for (int k = 1; k < 8; k++) sum = sum + block[from + k * step] * cosines[k * across];
    return sum;
}

__device__ __forceinline__ void make(const Image& image, int top, int left, Real* values, Real* others) {
    const Row& row = image.row;
    __syncthreads();
    for (int e = threadIdx.x; e < VALUES; e += THREADS)
        values[e] = first(image, top, left, e / 64, e / 8 % 8, e % 8) - 128.0f;
    __syncthreads();
    for (int e = threadIdx.x; e < VALUES; e += THREADS)
        others[e] = turned(values, e / 8 * 8, 1, row.cosines + e % 8 * 8, 1);
    __syncthreads();
    for (int e = threadIdx.x; e < VALUES; e += THREADS) {
        const Real found = turned(others, e / 64 * 64 + e % 8, 8, row.cosines + e / 8 % 8 * 8, 1);
        const Real step = row.steps[(e < 256 ? 0 : 64) + e % 64];
        values[e] = Real(rintf((found / step).v)) * step;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < VALUES; e += THREADS)
        others[e] = turned(values, e / 64 * 64 + e % 8, 8, row.cosines + e / 8 % 8, 8);
    __syncthreads();
    for (int e = threadIdx.x; e < VALUES; e += THREADS)
        values[e] = level(turned(others, e / 8 * 8, 1, row.cosines + e % 8, 8) + 128.0f);
    __syncthreads();
    for (int e = threadIdx.x; e < SIDE * SIDE; e += THREADS) {
        const int y = e / SIDE, x = e % SIDE, half = y / 2 * 8 + x / 2;
        if (top + y >= image.item.height || left + x >= image.item.width) continue;
        const Real luminance = values[(y / 8 * 2 + x / 8) * 64 + y % 8 * 8 + x % 8];
        const Real blue = values[256 + half] - 128.0f, red = values[320 + half] - 128.0f;
        const Address in = image.from(top + y, left + x), out = image.to(top + y, left + x);
        const float from_blue[] = {0.0f, -0.344136286f, 1.772f}, from_red[] = {1.402f, -0.714136286f, 0.0f};
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) {
            const Real found = level(luminance + (blue * from_blue[channel] + red * from_red[channel])) / row.scale;
            const Real given = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
            store<OUT>(out + (Address)(channel * image.item.out_strides[4]), row.acts ? found : given);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    __shared__ Real values[VALUES], others[VALUES];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const int width = image.item.width, height = image.item.height;
    const int wide = (width + WIDE - 1) / WIDE, tile = blockIdx.x;
    if (tile < wide * ((height + TALL - 1) / TALL))
        make(image, tile / wide * TALL, tile % wide * WIDE, values, others);
}
