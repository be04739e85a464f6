// Contiguous pixels are processed four at a time, in whole words of memory: a fourth of the reads and writes if values are
// bytes.
#include "bytes.cuh"

constexpr int FOUR = 4;

// The values of four pixels, VALUES each, as words of memory.
template <int TYPE, int VALUES> struct Words {
    typedef typename Typed<TYPE>::T T;
    static constexpr int MANY = FOUR * VALUES, EACH = sizeof(unsigned) / sizeof(T), COUNT = MANY / EACH;
    unsigned words[COUNT];
    __device__ __forceinline__ void read(Address at, unsigned four) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) words[k] = __ldg((const unsigned*)at + four * COUNT + k);
    }
    __device__ __forceinline__ void write(Address at, unsigned four) const {
#pragma unroll
        for (int k = 0; k < COUNT; k++) ((unsigned*)at)[four * COUNT + k] = words[k];
    }
    __device__ __forceinline__ void unpack(Real (&values)[MANY]) const {
#pragma unroll
        for (int number = 0; number < MANY; number++) {
            const unsigned word = words[number / EACH];
            if constexpr (TYPE == 0)
                values[number] = byte_of(word, number % EACH);
            else if constexpr (TYPE == 4)
                values[number] = __uint_as_float(word);
            else
                values[number] = value_of<TYPE>((T)(word >> number % EACH * 16));
        }
    }
    __device__ __forceinline__ void pack(const Real (&values)[MANY]) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const Real* const own = values + k * EACH;
            if constexpr (TYPE == 0)
                words[k] = word_of(own[0], own[1], own[2], own[3]);
            else if constexpr (TYPE == 4)
                words[k] = __float_as_uint(own[0].v);
            else
                words[k] = (unsigned short)stored<TYPE>(own[0]) | (unsigned)(unsigned short)stored<TYPE>(own[1]) << 16;
        }
    }
};

// Whether the pixels of an image, with so many values each, are contiguous, in whole words.
__device__ __forceinline__ bool is_contiguous(Address at, const long long* strides, int width, int size, int values) {
    return at % sizeof(unsigned) == 0 && strides[4] == size && strides[3] == values * size &&
           strides[2] == width * strides[3];
}

// Whether those of both the input and the output are.
__device__ __forceinline__ bool is_contiguous(const Image& image, int input_values, int output_values) {
    return is_contiguous(image.in, image.item.in_strides, image.item.width, sizeof(typename Typed<IN>::T), input_values) &&
           is_contiguous(image.out, image.item.out_strides, image.item.width, sizeof(typename Typed<OUT>::T), output_values);
}

// Processes the pixels of thread `first` of the `threads` of an image: four at a time by `make_four(image, four)`; the rest,
// or all where they are not contiguous, by `make(image, y, x)`.
template <class MakeFour, class Make>
__device__ __forceinline__ void for_fours(const Image& image, bool contiguous, unsigned first, unsigned threads,
                                          MakeFour make_four, Make make) {
    const unsigned width = image.item.width, pixels = width * image.item.height, fours = contiguous ? pixels / FOUR : 0;
    for (unsigned four = first; four < fours; four += threads) make_four(image, four);
    for (unsigned pixel = fours * FOUR + first; pixel < pixels; pixel += threads) make(image, pixel / width, pixel % width);
}

// As FOR_EVERY_PIXEL, with these; `begin(image)` is called by all threads first, and `end(image)` last.
#if CHANNELS
#define FOR_EVERY_FOUR_OF(blocks, ItemOfThread, begin, contiguous, make_four, make, end)   \
    KERNEL(blocks, each) {                                                               \
        const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;                        \
        if (number >= job.images) return;                                                \
        const Image found = image_of(job, number);                                       \
        ItemOfThread item = found.item;                                                  \
        OwnRow row = found.row;                                                          \
        const Image image = {item, row, found.in, found.out};                            \
        begin(image);                                                                    \
        for_fours(image, contiguous(image), blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS, \
                  [](const Image& image, unsigned four) { make_four(image, four); },     \
                  [](const Image& image, int y, int x) { make(image, y, x); });          \
        end(image);                                                                      \
    }
#else
#define FOR_EVERY_FOUR_OF(blocks, ItemOfThread, begin, contiguous, make_four, make, end) FOR_EVERY_PIXEL_AFTER(blocks, no_op, make)
#endif
// For much work, where the item stays in memory to save registers, and for little.
#define FOR_EVERY_FOUR_IN(blocks, begin, contiguous, make_four, make, end) \
    FOR_EVERY_FOUR_OF(blocks, const Item&, begin, contiguous, make_four, make, end)
#define FOR_EVERY_FOUR(begin, contiguous, make_four, make) \
    FOR_EVERY_FOUR_OF(4, OwnItem, begin, contiguous, make_four, make, no_op)
