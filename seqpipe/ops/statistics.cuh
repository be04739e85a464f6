// Values less their mean, times a factor, plus a shift. First all blocks of an image add up its values, then the squares
// of their distances from the mean; then every value is changed. What is added up may be that of a channel of an image,
// or of all channels, and of all images of a sequence.

#include "pixels.cuh"

struct Gathered {  // of a channel of an image
    double sum, squares;
};

__device__ __forceinline__ Gathered* gathered(const Job& job, int number) {
    return (Gathered*)(job.scratch + (Address)number * job.scratch_of_image);
}

// The sum of what the threads of a block have, for all of them.
__device__ double of_block(double own) {
    __shared__ double parts[THREADS];
    parts[threadIdx.x] = own;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    __syncthreads();
    const double sum = parts[0];
    __syncthreads();
    return sum;
}

// What an image's statistics are of: images and channels in a row, and how many values they have.
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

__device__ __forceinline__ int kept(int channel) { return min(channel, 15); }  // all that follow have the same

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

// A pass over the pixels of a block, whose `value_of(value, k)` are added up for each of the channels at once.
template <double Gathered::*MEMBER, class Value>
__device__ __forceinline__ void add_up(const Job& job, const Image& image, int number, int channel, Value value_of) {
    double found[TOGETHER] = {};
    for_pixels(image, [&](Address in, Address) {
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            found[k] += value_of(load<IN>(in + (Address)((channel + k) * image.item.in_strides[4])).v, k);
    });
#pragma unroll
    for (int k = 0; k < TOGETHER; k++) {
        const double sum = of_block(found[k]);
        if (threadIdx.x == 0) atomicAdd(&(gathered(job, number)[channel + k].*MEMBER), sum);
    }
}

#define FOR_EVERY_BLOCK(function)                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) function(const __grid_constant__ Job job) {       \
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
    for_pixels(image, [&](Address in, Address out) {
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            const Real value = load<IN>(in + (Address)((channel + k) * image.item.in_strides[4]));
            store<OUT>(out + (Address)((channel + k) * image.item.out_strides[4]),
                       row.acts ? (value - means[k]) * factors[k] + row.shift : value);
        }
    });
}
FOR_EVERY_BLOCK(each)
