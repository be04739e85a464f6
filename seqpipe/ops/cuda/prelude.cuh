// The start of every operator kernel: types, rounding, and the addresses of the images.
//
// IN, OUT   types of values: 0 uint8, 1 uint16, 2 int16, 3 float16, 4 float32; for values that are only moved,
//           ELEMENT_BYTES is their size
// CHANNELS  values per pixel, or 0 if images differ
// ALIKE     for computed values, whether the operator's statements do not depend on the channel
// INLINE    size in bytes of tables that are passed by value
// THREADS, IMAGES_IN_Y      threads of a block; images along y of the grid, before it continues along z

typedef unsigned long long Address;

#if ELEMENT_BYTES == 1
typedef unsigned char Element;
#elif ELEMENT_BYTES == 2
typedef unsigned short Element;
#elif ELEMENT_BYTES == 4
typedef unsigned Element;
#else
typedef unsigned long long Element;
#endif

// A float32 whose arithmetic is rounded after every operation, as NumPy's is: no product is fused with a sum.
struct Real {
    float v;
    Real() = default;
    __device__ __forceinline__ Real(float value) : v(value) {}
};

#ifdef __CUDACC__
#define EXACT(operation, a, b, symbol) operation(a, b)
#else
#define EXACT(operation, a, b, symbol) ((a) symbol (b))
#endif
__device__ __forceinline__ Real operator+(Real a, Real b) { return EXACT(__fadd_rn, a.v, b.v, +); }
__device__ __forceinline__ Real operator-(Real a, Real b) { return EXACT(__fsub_rn, a.v, b.v, -); }
__device__ __forceinline__ Real operator*(Real a, Real b) { return EXACT(__fmul_rn, a.v, b.v, *); }
__device__ __forceinline__ Real operator/(Real a, Real b) { return EXACT(__fdiv_rn, a.v, b.v, /); }
__device__ __forceinline__ Real operator-(Real a) { return -a.v; }
__device__ __forceinline__ bool operator<(Real a, Real b) { return a.v < b.v; }
__device__ __forceinline__ bool operator>(Real a, Real b) { return a.v > b.v; }

#ifdef __CUDACC__
__device__ __forceinline__ float half_value(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ unsigned short half_bits(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

template <int TYPE> struct Typed;
template <> struct Typed<0> { typedef unsigned char T; static constexpr float least = 0.0f, most = 255.0f; };
template <> struct Typed<1> { typedef unsigned short T; static constexpr float least = 0.0f, most = 65535.0f; };
template <> struct Typed<2> { typedef short T; static constexpr float least = -32768.0f, most = 32767.0f; };
template <> struct Typed<3> { typedef unsigned short T; };  // the bits of a float16
template <> struct Typed<4> { typedef float T; };

// A kernel never writes to its input, so loads may be moved before stores.
template <int TYPE> __device__ __forceinline__ Real value_of(typename Typed<TYPE>::T raw) {
    if constexpr (TYPE == 3)
        return half_value(raw);
    else
        return (float)raw;
}
template <int TYPE> __device__ __forceinline__ Real load(Address at) {
    return value_of<TYPE>(__ldg((const typename Typed<TYPE>::T*)at));
}

// Integers round half to even and saturate, floats do neither.
template <int TYPE> __device__ __forceinline__ typename Typed<TYPE>::T stored(Real value) {
    typedef typename Typed<TYPE>::T T;
    if constexpr (TYPE == 3)
        return half_bits(value.v);
    else if constexpr (TYPE == 4)
        return value.v;
    else
        return (T)__float2int_rn(fminf(fmaxf(value.v, Typed<TYPE>::least), Typed<TYPE>::most));
}
template <int TYPE> __device__ __forceinline__ void store(Address at, Real value) {
    *(typename Typed<TYPE>::T*)at = stored<TYPE>(value);
}

// The value that `store` would leave.
template <int TYPE> __device__ __forceinline__ Real rounded(Real value) { return value_of<TYPE>(stored<TYPE>(value)); }

// The index of the source of a value beyond an axis of some length; -1 for the fill value.
enum Border { CONSTANT, CLAMP, REFLECT_101, REFLECT_1001, WRAP };
__device__ __forceinline__ int bordered(int at, int length, int border) {
    if (at >= 0 && at < length) return at;
    if (border == CONSTANT) return -1;
    if (border == CLAMP) return at < 0 ? 0 : length - 1;
    const int period = border == WRAP ? length : border == REFLECT_101 ? max(2 * length - 2, 1) : 2 * length;
    const int within = (at % period + period) % period;
    return within < length ? within : (border == REFLECT_101 ? period : period - 1) - within;
}

// The largest shared memory of a block, in bytes, on every GPU.
[[maybe_unused]] constexpr int COMMON = 46720;

// Images of one shape: samples of several frames each.
struct Item {
    Address in, out;
    long long in_strides[5], out_strides[5];  // bytes; samples, frames, rows, columns, channels
    int first;                                // the number of its first image in this launch
    int frames, channels;
    int in_height, in_width, height, width;
    int row, row_of_sample, row_of_frame;  // index of the first image's row, and the distances to those of the next sample and frame
};

struct Job {
    Address tables;  // items, then rows; 0 if these are in `bytes`
    int items, images;
    int rows_at, scratch_of_image;
    Address scratch;  // memory of each image for kernels of several passes, initially 0; see scratch_of
    __align__(8) unsigned char bytes[INLINE];
};

// Declares a kernel of which so many blocks share a multiprocessor.
#define KERNEL(blocks, name) extern "C" __global__ void __launch_bounds__(THREADS, blocks) name(const __grid_constant__ Job job)

// One image of an item.
struct Image {
    const Item& item;
    const Row& row;
    Address in, out;
    __device__ __forceinline__ Address from(int y, int x) const {
        return in + (Address)(y * item.in_strides[2] + x * item.in_strides[3]);
    }
    __device__ __forceinline__ Address to(int y, int x) const {
        return out + (Address)(y * item.out_strides[2] + x * item.out_strides[3]);
    }
};

__device__ __forceinline__ Image image_of(const Job& job, int number) {
    const unsigned char* tables = job.tables ? (const unsigned char*)job.tables : job.bytes;
    const Item* items = (const Item*)tables;
    int low = 0, high = job.items - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (items[middle].first <= number)
            low = middle;
        else
            high = middle - 1;
    }
    const Item& item = items[low];
    const unsigned own = number - item.first;
    const int sample = own / (unsigned)item.frames, frame = own - sample * (unsigned)item.frames;
    const Row* rows = (const Row*)(tables + job.rows_at);
    const Row& row = rows[item.row + sample * item.row_of_sample + frame * item.row_of_frame];
    const Address in = item.in + (Address)(sample * item.in_strides[0] + frame * item.in_strides[1]);
    const Address out = item.out + (Address)(sample * item.out_strides[0] + frame * item.out_strides[1]);
    return {item, row, in, out};
}

// The memory of an image that several passes share.
__device__ __forceinline__ Address scratch_of(const Job& job, int number) {
    return job.scratch + (Address)number * job.scratch_of_image;
}

// Items and short rows are copied into registers, because the compiler reloads references after each store. Long rows, and rows
// that are indexed at run time, stay in memory.
template <bool SHORT, class Of> struct ByValue { typedef const Of T; };
template <class Of> struct ByValue<false, Of> { typedef const Of& T; };
typedef ByValue<CHANNELS != 0, Item>::T OwnItem;
typedef ByValue<CHANNELS != 0 && sizeof(Row) <= 128, Row>::T OwnRow;

// Calls `make(image, y, x)` for every pixel, after all threads have called `begin(image)`; `blocks` blocks share a
// multiprocessor: the fewer, the more registers each thread has.
#define FOR_EVERY_PIXEL_OF(blocks, ItemOfThread, RowOfThread, begin, make)               \
    KERNEL(blocks, each) {                                                               \
        const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;                        \
        if (number >= job.images) return;                                                \
        const Image found = image_of(job, number);                                       \
        ItemOfThread item = found.item;                                                  \
        RowOfThread row = found.row;                                                     \
        const Image image = {item, row, found.in, found.out};                            \
        begin(image);                                                                    \
        const unsigned width = item.width, height = item.height, step = gridDim.x * THREADS;   \
        const unsigned first = blockIdx.x * THREADS + threadIdx.x, lines = step / width, rest = step % width; \
        unsigned y = first / width, x = first % width;                                   \
        while (y < height) {                                                             \
            make(image, y, x);                                                           \
            y += lines, x += rest;                                                       \
            if (x >= width) y++, x -= width;                                             \
        }                                                                                \
    }
// For much work, where item and row stay in memory to save registers, and for little.
#define FOR_EVERY_PIXEL_AFTER(blocks, begin, make) FOR_EVERY_PIXEL_OF(blocks, const Item&, const Row&, begin, make)
#define FOR_EVERY_PIXEL(make) FOR_EVERY_PIXEL_OF(4, OwnItem, OwnRow, no_op, make)
__device__ __forceinline__ void no_op(const Image&) {}

#if CHANNELS
#define CHANNELS_OF(image) CHANNELS
#define TOGETHER CHANNELS  // channels that a thread processes at once
#else
#define CHANNELS_OF(image) (image).item.channels
#define TOGETHER 1
#endif
