// Pixels by themselves: `change(image, y, x, pixel)` changes the values of one. Where pixels lie one after the other, on
// both sides, a thread takes four at a time, in whole words: a fourth of the reads and writes if values are bytes.
constexpr int FOUR = 4;

// The values of four pixels, as words of memory.
template <class T> struct Words {
    static constexpr int COUNT = FOUR * CHANNELS * sizeof(T) / sizeof(unsigned), EACH = sizeof(unsigned) / sizeof(T);
    unsigned words[COUNT];
    __device__ __forceinline__ T get(int number) const {
        if constexpr (sizeof(T) == 4)
            return as_value(words[number], T());
        else
            return (T)(words[number / EACH] >> number % EACH * 8 * sizeof(T));
    }
    __device__ __forceinline__ void put(int number, T value) {
        if constexpr (sizeof(T) == 4)
            words[number] = __float_as_uint(value);
        else
            words[number / EACH] |= (unsigned)(value & (1u << 8 * sizeof(T)) - 1) << number % EACH * 8 * sizeof(T);
    }
    static __device__ __forceinline__ float as_value(unsigned word, float) { return __uint_as_float(word); }
};

// Whether the pixels of an image lie one after the other, in whole words.
__device__ __forceinline__ bool lie_together(Address at, const long long* strides, int width, int size) {
    return at % sizeof(unsigned) == 0 && strides[4] == size && strides[3] == CHANNELS * size &&
           strides[2] == width * strides[3];
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    Real pixel[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        pixel[channel] = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
    change(image, y, x, pixel);
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++)
        store<OUT>(out + (Address)(channel * image.item.out_strides[4]), pixel[channel]);
}

__device__ __forceinline__ void make_four(const Image& image, unsigned first) {
    typedef Words<typename Typed<IN>::T> Given;
    typedef Words<typename Typed<OUT>::T> Made;
    Given given;
    Made made;
#pragma unroll
    for (int k = 0; k < Given::COUNT; k++)
        given.words[k] = __ldg((const unsigned*)image.in + first / FOUR * Given::COUNT + k);
#pragma unroll
    for (int k = 0; k < Made::COUNT; k++) made.words[k] = 0;
    unsigned y = first / image.item.width, x = first % image.item.width;
#pragma unroll
    for (int number = 0; number < FOUR; number++) {
        Real pixel[CHANNELS];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            pixel[channel] = value_of<IN>(given.get(number * CHANNELS + channel));
        change(image, y, x, pixel);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            made.put(number * CHANNELS + channel, stored<OUT>(pixel[channel]));
        if (++x == image.item.width) x = 0, y++;
    }
#pragma unroll
    for (int k = 0; k < Made::COUNT; k++) ((unsigned*)image.out)[first / FOUR * Made::COUNT + k] = made.words[k];
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image found = image_of(job, number);
    OwnItem item = found.item;
    OwnRow row = found.row;
    const Image image = {item, row, found.in, found.out};
    const unsigned width = item.width, pixels = width * item.height, step = gridDim.x * THREADS;
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    unsigned done = 0;
    if (lie_together(image.in, item.in_strides, width, sizeof(typename Typed<IN>::T)) &&
        lie_together(image.out, item.out_strides, width, sizeof(typename Typed<OUT>::T))) {
        done = pixels / FOUR * FOUR;
        for (unsigned four = thread; four < done / FOUR; four += step) make_four(image, four * FOUR);
    }
    for (unsigned pixel = done + thread; pixel < pixels; pixel += step) make(image, pixel / width, pixel % width);
}
