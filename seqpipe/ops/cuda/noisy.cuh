// Values with noise: `noisy(value, bits, row)`, with random bits for each value. If Row has per_channel, and that is 0, all
// values of a pixel share the bits of the pixel.
#include "words.cuh"
#include "draws.cuh"

__device__ __forceinline__ Real noisy(Real value, unsigned bits, const Row& row);

// Whether each value has bits of its own.
template <class R> __device__ __forceinline__ auto by_channel(const R& row, int) -> decltype(bool(row.per_channel)) {
    return row.per_channel;
}
template <class R> __device__ __forceinline__ bool by_channel(const R&, long) { return true; }

__device__ __forceinline__ Random random_of(unsigned counter, const Row& row) {
    return philox(counter, row.frame, row.key[0], row.key[1]);
}

__device__ __forceinline__ unsigned word_of(const Random& random, int place) {
    const unsigned* const words = random.words;
    return place == 0 ? words[0] : place == 1 ? words[1] : place == 2 ? words[2] : words[3];
}

__device__ __forceinline__ void make(const Image& image, int y, int x) {
    const Address in = image.from(y, x), out = image.to(y, x);
    const unsigned long long pixel = (unsigned long long)y * image.item.width + x;
    const Row& row = image.row;
    const bool each = by_channel(row, 0);
    unsigned long long number = each ? pixel * CHANNELS_OF(image) : pixel;
    Random random = random_of((unsigned)(number / 4), row);
    for (int channel = 0; channel < CHANNELS_OF(image); channel++) {
        const Real value = load<IN>(in + (Address)(channel * image.item.in_strides[4]));
        const Address to = out + (Address)(channel * image.item.out_strides[4]);
        store<OUT>(to, row.acts ? noisy(value, word_of(random, number % 4), row) : value);
        if (each && ++number % 4 == 0) random = random_of((unsigned)(number / 4), row);
    }
}

#if CHANNELS
__device__ __forceinline__ bool contiguous(const Image& image) { return is_contiguous(image, CHANNELS, CHANNELS); }
#endif
