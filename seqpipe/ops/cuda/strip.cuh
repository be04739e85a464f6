// For results that depend on few neighboring values. A line is a row of an image as consecutive values: of all channels, or of
// one channel if their number is unknown at compile time; the next value of a channel is STEP further. A warp computes a strip,
// STRIP values of several lines, from top to bottom. It copies some lines at a time with their margins into shared memory;
// borders are handled only there.

#include "bytes.cuh"

constexpr int LANES = 32, WARPS = THREADS / LANES, STEP = TOGETHER;
constexpr int STRIP = WIDE / 2, PER_LANE = STRIP / LANES;  // values of a line in a strip, and those of a thread

// Shared memory holds values in the type of the image, EACH in a word; but float16 as float32, because the fill value may be
// no float16.
constexpr int SIZE = IN == 0 ? 1 : IN < 3 ? 2 : 4, EACH = sizeof(unsigned) / SIZE;

// Architectures for which the compiler needs more registers.
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 1000
constexpr bool MANY_REGISTERS = true;
#else
constexpr bool MANY_REGISTERS = false;
#endif

// Four numbers that are loaded and stored at once.
struct __align__(16) Quad {
    Real values[PER_LANE];
};

// Addresses of the values of an image's lines.
template <int TYPE> struct Lines {
    static constexpr int LONG = sizeof(typename Typed<TYPE>::T);
    Address first;
    long long line, pixel, value;  // bytes from one to the next of these
    int length;                    // values
    bool contiguous, words;            // whether values are contiguous, and lines begin at whole words
    __device__ __forceinline__ void set(Address image, const long long* strides, int width) {
        first = image, line = strides[2], pixel = strides[3], value = strides[4], length = width * STEP;
        contiguous = pixel == STEP * LONG && (STEP == 1 || value == LONG);
        words = contiguous && first % sizeof(unsigned) == 0 && line % (int)sizeof(unsigned) == 0 &&
                (CHANNELS || value % (int)sizeof(unsigned) == 0);
    }
    __device__ __forceinline__ Address start(int channel, int y) const {
        return first + (Address)(CHANNELS ? y * line : y * line + channel * value);
    }
    __device__ __forceinline__ Address contiguous_at(int channel, int y, int number) const {
        return start(channel, y) + (Address)(long long)(number * LONG);
    }
    __device__ __forceinline__ Address at(int channel, int y, int number) const {
        if (contiguous) return contiguous_at(channel, y, number);
        return start(channel, y) + (Address)(number / STEP * pixel + number % STEP * value);
    }
};

// The number of multiprocessors of the GPU, or a little more.
#ifdef __CUDACC__
__device__ __forceinline__ int processors() {
    int count;
    asm("mov.u32 %0, %%nsmid;" : "=r"(count));
    return count;
}
#else
static inline int processors() { return 132; }
#endif

// What the threads of a block share about its image; in shared memory, to save registers.
struct ImageInfo {
    Lines<IN> input;
    Lines<OUT> output;
    int height, width, border, channels, images;
    int warps;  // enough to occupy the GPU
    Real beyond;
    bool aligned;  // whether the values of every thread are whole words
};
__device__ __forceinline__ void set(const Job& job, const Image& image, int blocks, ImageInfo& info) {
    if (threadIdx.x == 0) {
        info.warps = processors() * blocks * WARPS;
        info.input.set(image.in, image.item.in_strides, image.item.in_width);
        info.output.set(image.out, image.item.out_strides, image.item.width);
        info.height = image.item.in_height, info.width = image.item.in_width;
        info.channels = image.item.channels, info.images = job.images;
        info.border = (int)image.row.edge.v, info.beyond = image.row.beyond;
        info.aligned = info.input.words && info.output.words && IN != 3 && info.input.length % PER_LANE == 0;
    }
    __syncthreads();
}

// A condition that is opaque to the compiler, so that it does not duplicate the code between two tests of it.
__device__ __forceinline__ bool opaque(int condition) {
    asm volatile("" : "+r"(condition));
    return condition;
}

struct Strip {
    int channel, top, left, tall;  // tall in lines; left in values
    __device__ __forceinline__ int first_value() const { return left + (int)threadIdx.x % LANES * PER_LANE; }
};

// Division of an image into strips of at most `most` lines, `across` by `down`; in shared memory, too.
struct StripGrid {
    int across, down, most, count;
};

// Calls `make` for each strip of an image; each warp processes one after the other. A strip reads MORE lines than it computes,
// ROWS at a time, so strips are as tall as possible while the images give enough of them to occupy the GPU.
//
// `begin` is called first, by all threads of a block that has strips.
template <int ROWS, int MORE, int WIDTH = STRIP, class Begin, class Make>
__device__ __forceinline__ void for_strips(const ImageInfo& info, Begin begin, Make make) {
    __shared__ StripGrid grid;
    const int step = gridDim.x * WARPS;
    if (threadIdx.x == 0) {
        const int across = (info.output.length + WIDTH - 1) / WIDTH, columns = across * (info.channels / STEP);
        const int parts = max(1, min(step, info.warps / info.images) / columns);
        const int lines = max(TALL / 4, min(TALL * 4, (info.height + parts - 1) / parts));
        const int most = (lines + MORE + ROWS - 1) / ROWS * ROWS - MORE, down = (info.height + most - 1) / most;
        grid = {across, down, most, columns * down};
    }
    __syncthreads();
    if (blockIdx.x * WARPS >= grid.count) return;
    begin();
#pragma unroll 1
    for (int number = blockIdx.x * WARPS + threadIdx.x / LANES; number < grid.count; number += step) {
        const int column = number / grid.down, top = number % grid.down * grid.most;
        make(Strip{column / grid.across, top, column % grid.across * WIDTH, min(grid.most, info.height - top)});
    }
}
template <int ROWS, int MORE, class Make> __device__ __forceinline__ void for_strips(const ImageInfo& info, Make make) {
    for_strips<ROWS, MORE>(info, [] {}, make);
}

// Value `number` of a word. Bits of a large float minus that float, which is faster than a conversion.
__device__ __forceinline__ Real value_in(unsigned word, int number) {
    if constexpr (IN == 0)
        return byte_of(word, number);
    else if constexpr (IN == 1)
        return Real(__uint_as_float(__byte_perm(word, 0x4b000000, number ? 0x7632 : 0x7610))) - Real(8388608.0f);
    else if constexpr (IN == 2)
        return Real(__uint_as_float(__byte_perm(word ^ 0x80008000, 0x4b000000, number ? 0x7632 : 0x7610))) -
               Real(8421376.0f);
    else
        return __uint_as_float(word);
}

// The product of such a value and a weight. One fused operation subtracts 2²³ and multiplies: 2²³ times a weight is exact, and
// the sum is rounded once, so the result is the same. Only the sign of 0 is lost, which integers do not have.
constexpr bool LARGE = IN < 2 && OUT < 3;
template <bool FEW> struct Weighs { typedef Real T; };
template <> struct Weighs<true> { typedef Weight T; };
__device__ __forceinline__ Real factor_in(unsigned word, int number, Real) { return value_in(word, number); }
__device__ __forceinline__ Real factor_in(unsigned word, int number, Weight) {
    if constexpr (LARGE && IN == 0)
        return lifted_byte(word, number);
    else if constexpr (LARGE)
        return __uint_as_float(__byte_perm(word, 0x4b000000, number ? 0x7632 : 0x7610));
    else
        return value_in(word, number);
}
__device__ __forceinline__ Real product(Real large, Weight by) {
    return LARGE ? Real(fmaf(large.v, by.weight.v, by.lifted.v)) : large * by.weight;
}
__device__ __forceinline__ Real product(Real value, Real weight) { return value * weight; }

// The type of a value in shared memory.
template <int TYPE> struct SharedType { typedef typename Typed<TYPE>::T T; };
template <> struct SharedType<3> { typedef float T; };
typedef SharedType<IN>::T SharedValue;
__device__ __forceinline__ SharedValue shared_value(Real value) { return (SharedValue)value.v; }

// The shared memory of a warp.
constexpr int BYTES = 5984;
struct __align__(16) WarpMemory {
    unsigned char bytes[BYTES];
};

// Integers rounded as by `stored`, in the lower bits of a float near 1.5 * 2²³, where floats are integers.
template <int TYPE> __device__ __forceinline__ unsigned rounded_bits(Real value) {
    if constexpr (TYPE < 3)
        return __float_as_uint(
            (Real(fminf(fmaxf(value.v, Typed<TYPE>::least), Typed<TYPE>::most)) + Real(12582912.0f)).v);
    else if constexpr (TYPE == 3)
        return half_bits(value.v);
    else
        return __float_as_uint(value.v);
}

template <int TYPE> __device__ __forceinline__ typename Typed<TYPE>::T of_bits(unsigned bits) {
    if constexpr (TYPE == 4)
        return __uint_as_float(bits);
    else
        return (typename Typed<TYPE>::T)bits;
}

// The values of a thread, in whole words.
__device__ __forceinline__ void store_bits(Address to, const unsigned (&bits)[PER_LANE]) {
    unsigned* const words = (unsigned*)to;
    if constexpr (OUT == 0)
        *words = lowest_bytes(bits);
    else if constexpr (OUT < 4)
        words[0] = __byte_perm(bits[0], bits[1], 0x5410), words[1] = __byte_perm(bits[2], bits[3], 0x5410);
    else
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) words[k] = bits[k];
}
__device__ __forceinline__ void store_values(Address to, const Real (&values)[PER_LANE]) {
    if constexpr (OUT == 0) {
        *(unsigned*)to = word_of(values[0], values[1], values[2], values[3]);
    } else {
        unsigned bits[PER_LANE];
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) bits[k] = rounded_bits<OUT>(values[k]);
        store_bits(to, bits);
    }
}
__device__ __forceinline__ void load_values(Address from, Real (&values)[PER_LANE]) {
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) values[k] = value_in(__ldg((const unsigned*)from + k / EACH), k % EACH);
}

// Where values are not whole words: stores those of ROWS lines of a strip, from `line` on, one by one. `make(k, x, center)` is
// the result for value x in the k-th of these lines.
template <int ROWS, int WIDTH = STRIP, class Make>
__device__ __forceinline__ void store_unaligned(const ImageInfo& info, const Strip& strip, int line, Make make) {
    __syncwarp();
    const int count = min(WIDTH, info.output.length - strip.left);
#pragma unroll 1
    for (int k = max(0, -line); k < min(ROWS, strip.tall - line); k++)
#pragma unroll 1
        for (int x = threadIdx.x % LANES; x < count; x += LANES) {
            const Real center = load<IN>(info.input.at(strip.channel, strip.top + line + k, strip.left + x));
            store<OUT>(info.output.at(strip.channel, strip.top + line + k, strip.left + x), make(k, x, center));
        }
    __syncwarp();
}

// Copies an image unchanged.
__device__ __forceinline__ void copy_strips(const ImageInfo& info) {
    for_strips<1, 0>(info, [&](const Strip& strip) {
        if (!info.aligned)
#pragma unroll 1
            for (int y = 0; y < strip.tall; y++)
                store_unaligned<1>(info, strip, y, [](int, int, Real center) { return center; });
        else if (strip.first_value() < info.output.length)
#pragma unroll 4
            for (int y = strip.top; y < strip.top + strip.tall; y++) {
                Real values[PER_LANE];
                load_values(info.input.contiguous_at(strip.channel, y, strip.first_value()), values);
                store_values(info.output.contiguous_at(strip.channel, y, strip.first_value()), values);
            }
    });
}

// Calls `make` for the image of a block if its row selects this kernel by `reach`, with shared memory for each warp. ENOUGH
// blocks occupy a multiprocessor; 0 for WAVES times as many as the launch bounds allow at once.
template <class WarpMemory = WarpMemory, int ENOUGH = 0, class Make>
__device__ __forceinline__ void for_image(const Job& job, int reach, Make make) {
    __shared__ ImageInfo info;
    __shared__ WarpMemory memory[WARPS];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (image.row.reach != reach) return;
    set(job, image, ENOUGH ? ENOUGH : (reach == 0 && !MANY_REGISTERS ? 3 : 2) * WAVES, info);
    make(image, info, memory[threadIdx.x / LANES]);
}
