// Values with noise: the operator's statements make `value`, at first the one that is `given`, from its random `bits`. They
// are functions of a type of numbers; see draws.cuh. Where Row has per_channel, and that is 0, all channels of a pixel have
// the bits of the first one.
//
// Where results are whole numbers, the statements are tried with T = Span first. If both ends are rounded to the same,
// so is what is between them. Bytes that lie together are tried with T = Near, which is for `make_four` to say.
#include "words.cuh"
#include "draws.cuh"

template <class T>
__device__ __forceinline__ T changed(Real given, unsigned bits, const Row& row) {
    T value = given;
    BODY
    return value;
}

__device__ __forceinline__ Real noisy(Real given, unsigned bits, const Row& row) {
    if constexpr (OUT < 3) {
        const Span found = changed<Span>(given, bits, row);
        if ((int)rounded<OUT>(found.low).v == (int)rounded<OUT>(found.high).v) return found.low;
    }
    return changed<Real>(given, bits, row);
}

// Whether each channel has bits of its own.
template <class R> __device__ __forceinline__ auto by_channel(const R& row, int) -> decltype(bool(row.per_channel)) {
    return row.per_channel;
}
template <class R> __device__ __forceinline__ bool by_channel(const R&, long) { return true; }

__device__ __forceinline__ unsigned word_of(const Random& random, int place) {
    return place == 0 ? random.a : place == 1 ? random.b : place == 2 ? random.c : random.d;
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const unsigned pixel = (unsigned)y * image.item.width + x;
    const Row& row = image.row;
    const Random own = philox(pixel, 0, row.frame, row.key[0], row.key[1]);
    Random random = own;
#pragma unroll
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const int place = channel & 3;
        if (channel && !place) random = philox(pixel, channel / 4, row.frame, row.key[0], row.key[1]);
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? noisy(value, by_channel(row, 0) ? word_of(random, place) : own.a, row) : value);
    }
}

#if CHANNELS && IN == 0 && OUT == 0
__device__ __forceinline__ bool together(const Image& image) { return lie_together(image, CHANNELS, CHANNELS); }

// One value from the beginning.
__device__ __forceinline__ void make_value(const Image& image, unsigned number) {
    const Row& row = image.row;
    const Random random = philox(number / CHANNELS, 0, row.frame, row.key[0], row.key[1]);
    const Real value = load<IN>(image.in + number);
    const unsigned bits = by_channel(row, 0) ? word_of(random, number % CHANNELS) : random.a;
    store<OUT>(image.out + number, changed<Real>(value, bits, row));
}

// Values that were not near enough, AT_ONCE beside each other, which are made when all others are: then by some threads at
// once. If they are more than there is room for, all values of the block are.
struct Open {
    unsigned count, numbers[512];
};
__shared__ Open open;
constexpr int ROOM = sizeof(open.numbers) / sizeof(unsigned), OF_FOUR = FOUR * CHANNELS;

__device__ __forceinline__ void begin_open(const Image&) {
    if (threadIdx.x == 0) open.count = 0;
    __syncthreads();
}

// Those from value `number` on.
__device__ __forceinline__ void leave_open(unsigned number) {
    const unsigned place = atomicAdd(&open.count, 1u);
    if (place < ROOM) open.numbers[place] = number;
}

template <int AT_ONCE> __device__ __forceinline__ void make_open(const Image& image) {
    __syncthreads();
    const unsigned count = open.count, fours = (unsigned)image.item.width * image.item.height / FOUR;
    const unsigned step = gridDim.x * THREADS, rounds = (fours + step - 1) / step;
    const bool too_many = count > ROOM;
    for (unsigned e = threadIdx.x; e < (too_many ? rounds * THREADS * OF_FOUR : count * AT_ONCE); e += THREADS) {
        const unsigned four = blockIdx.x * THREADS + e / OF_FOUR % THREADS + e / (OF_FOUR * THREADS) * step;
        const unsigned number = too_many ? four * OF_FOUR + e % OF_FOUR : open.numbers[e / AT_ONCE] + e % AT_ONCE;
        if (!too_many || four < fours) make_value(image, number);
    }
}
#endif
