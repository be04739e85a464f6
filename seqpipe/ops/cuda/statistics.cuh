// Values minus their mean, times a factor, plus a shift. First all blocks of an image sum its values, then the squares of
// their deviations from the mean; then every value is changed. The sums may cover a channel of an image, all channels, and
// all images of a sequence.

#include "block.cuh"
#include "tile.cuh"
#include "words.cuh"

struct Gathered {  // of a channel of an image
    double sum, squares;
};

__device__ __forceinline__ Gathered* gathered(const Job& job, int number) {
    return (Gathered*)(job.scratch + (Address)number * job.scratch_of_image);
}

// The values that the statistics of an image cover: consecutive images and channels, and the number of values.
struct Over {
    int first, images, channels;
    double count;
};
__device__ __forceinline__ Over over(const Image& image, int number) {
    const Item& item = image.item;
    const int frames = image.row.over_frames ? item.frames : 1, channels = image.row.over_channels ? CHANNELS_OF(image) : 1;
    const int first = image.row.over_frames ? number - (number - item.first) % item.frames : number;
    return {first, frames, channels, (double)item.width * item.height * frames * channels};
}

template <double Gathered::*MEMBER>
__device__ __forceinline__ double total(const Job& job, const Over& all, int channel) {
    if (all.images * all.channels == 1) return gathered(job, all.first)[channel].*MEMBER;
    double own = 0;
    for (int k = threadIdx.x; k < all.images * all.channels; k += THREADS)
        own += gathered(job, all.first + k / all.channels)[all.channels == 1 ? channel : k % all.channels].*MEMBER;
    return of_block(own);
}

__device__ __forceinline__ int kept(int channel) { return min(channel, 15); }  // further channels have the values of the last

__device__ __forceinline__ double mean_of(const Job& job, const Image& image, const Over& all, int channel) {
    if (!image.row.computes_mean) return image.row.means[kept(channel)].v;
    return total<&Gathered::sum>(job, all, channel) / all.count;
}

__device__ __forceinline__ float factor_of(const Job& job, const Image& image, const Over& all, int channel) {
    const Row& row = image.row;
    if (!row.computes_stddev) return row.factors[kept(channel)].v;
    const double freedom = all.count - row.ddof, epsilon = (double)row.epsilon[0].v + (double)row.epsilon[1].v;
    const double squares = total<&Gathered::squares>(job, all, channel);
    const double deviation = sqrt(squares / (freedom > 1 ? freedom : 1) + epsilon);
    return (float)(deviation > 0 ? (double)row.scale.v * (1 / deviation) : 0.0);
}

// Processes the pixels of a block: by `make_four(image, four)` where they are contiguous, else by `make(image, y, x)`.
template <class MakeFour, class Make>
__device__ __forceinline__ void for_pixels(const Image& image, bool contiguous, MakeFour make_four, Make make) {
    for_fours(image, contiguous, blockIdx.x * THREADS + threadIdx.x, tiles_of(image.item) * THREADS, make_four, make);
}

__device__ __forceinline__ Real input_at(const Image& image, int y, int x, int channel) {
    return load<IN>(image.from(y, x) + (Address)(channel * image.item.in_strides[4]));
}

// Adds up `value_of(value, k)` of all pixels of a block, for TOGETHER channels at once.
template <double Gathered::*MEMBER, class Value>
__device__ __forceinline__ void add_up(const Job& job, const Image& image, int number, int channel, Value value_of) {
    double found[TOGETHER] = {};
    const auto add = [&](const Image& image, int y, int x) {
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) found[k] += value_of(input_at(image, y, x, channel + k).v, k);
    };
#if CHANNELS
    const bool contiguous = is_contiguous(image.in, image.item.in_strides, image.item.width, sizeof(Typed<IN>::T), CHANNELS);
    const auto add_four = [&](const Image& image, unsigned four) {
        Words<IN, CHANNELS> words;
        Real values[FOUR * CHANNELS];
        words.read(image.in, four);
        words.unpack(values);
#pragma unroll
        for (int at = 0; at < FOUR * CHANNELS; at++) found[at % CHANNELS] += value_of(values[at].v, at % CHANNELS);
    };
    for_pixels(image, contiguous, add_four, add);
#else
    for_pixels(image, false, [](const Image&, unsigned) {}, add);
#endif
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) {
        const double sum = of_block(found[k]);
        if (threadIdx.x == 0) atomicAdd(&(gathered(job, number)[channel + k].*MEMBER), sum);
    }
}

#define FOR_EVERY_BLOCK(function)                                                                             \
    KERNEL(4, function) {                                                                                     \
        const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;                                              \
        if (number >= job.images) return;                                                                      \
        const Image image = image_of(job, number);                                                             \
        if (blockIdx.x >= tiles_of(image.item)) return;                                                        \
        for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) function##_up(job, image, number, channel); \
    }

__device__ __forceinline__ void add_up(const Job& job, const Image& image, int number, int channel) {
    if (image.row.computes_mean)
        add_up<&Gathered::sum>(job, image, number, channel, [](float value, int) { return (double)value; });
}
FOR_EVERY_BLOCK(add)

__device__ __forceinline__ void spread_up(const Job& job, const Image& image, int number, int channel) {
    if (!image.row.computes_stddev) return;
    const Over all = over(image, number);
    double means[TOGETHER];
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) means[k] = mean_of(job, image, all, channel + k);
    add_up<&Gathered::squares>(job, image, number, channel, [&](float value, int k) {
        const double distance = value - means[k];
        return distance * distance;
    });
}
FOR_EVERY_BLOCK(spread)

__device__ __forceinline__ void each_up(const Job& job, const Image& image, int number, int channel) {
    const Row& row = image.row;
    const Over all = over(image, number);
    Real means[TOGETHER], factors[TOGETHER];
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) {
        means[k] = (float)mean_of(job, image, all, channel + k);
        factors[k] = factor_of(job, image, all, channel + k);
    }
    const auto changed = [&](Real value, int k) { return row.acts ? (value - means[k]) * factors[k] + row.shift : value; };
    const auto make = [&](const Image& image, int y, int x) {
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            store<OUT>(image.to(y, x) + (Address)((channel + k) * image.item.out_strides[4]),
                       changed(input_at(image, y, x, channel + k), k));
    };
#if CHANNELS
    const auto make_four = [&](const Image& image, unsigned four) {
        Words<IN, CHANNELS> words;
        Words<OUT, CHANNELS> made;
        Real values[FOUR * CHANNELS];
        words.read(image.in, four);
        words.unpack(values);
#pragma unroll
        for (int at = 0; at < FOUR * CHANNELS; at++) values[at] = changed(values[at], at % CHANNELS);
        made.pack(values);
        made.write(image.out, four);
    };
    for_pixels(image, is_contiguous(image, CHANNELS, CHANNELS), make_four, make);
#else
    for_pixels(image, false, [](const Image&, unsigned) {}, make);
#endif
}
FOR_EVERY_BLOCK(each)
