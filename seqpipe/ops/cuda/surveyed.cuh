// Changes values by statistics of their whole image. First all blocks of an image compute the extremes of each channel, or
// sum the luma of its pixels; then every value is changed.
//
// The operator defines the constant LUMA, which selects one of the two, and the function `changed`, which gets the result.

#include "pixels.cuh"
#include "sortable.cuh"

struct Known {
    Real lowest, highest;  // of a channel; NaN is left out, and what both are if there is nothing else
    Real mean;             // of the luma, as a level
};
BODY

// What is gathered for a channel of an image; of luma in the first one. Lowest and highest are the places of numbers in
// their order, from the other end for the lowest: 0, with which memory begins, is before all of them.
struct Gathered {
    unsigned long long sum;
    unsigned ends[2];
};
constexpr int SHARED = LUMA ? 1 : 2 * TOGETHER, OFFSET = IN == 2 ? 32768 : 0;

__device__ __forceinline__ Gathered* gathered(const Job& job, const Image& image, int number) {
    return (Gathered*)scratch_of(job, number);
}

__device__ __forceinline__ Real luma_of(Real red, Real green, Real blue) {
    return red * Real(0.299f) + green * Real(0.587f) + blue * Real(0.114f);
}
__device__ __forceinline__ unsigned luma_of(const Image& image, Address at) {
    if (CHANNELS_OF(image) == 1) return (int)load<IN>(at).v + OFFSET;
    const Address aside = (Address)image.item.in_strides[4];
    return __float2int_rn(luma_of(load<IN>(at), load<IN>(at + aside), load<IN>(at + 2 * aside)).v) + OFFSET;
}

// What a thread finds: ends of channels, in turn the highest and the lowest, as places; or the sum of luma.
struct Found {
    unsigned values[SHARED];
    __device__ __forceinline__ void put(int k, unsigned value) { values[k] = values[k] > value ? values[k] : value; }
};

#if CHANNELS && IN == 0 && OUT == 0
#define BY_LEVELS 1
constexpr int TABLES = LUMA ? 1 : CHANNELS;
#include "levels.cuh"

// Of four pixels; ends are levels at first, counted from the other end for the lowest.
__device__ __forceinline__ void find(const Words<0, CHANNELS>& words, Found& found) {
    Real values[FOUR * CHANNELS];
    if (LUMA) words.unpack(values);
#pragma unroll
    for (int number = 0; number < FOUR; number++) {
        if constexpr (LUMA) {
            const Real* const pixel = values + number * CHANNELS;
            const Real sum = CHANNELS == 1 ? pixel[0] : luma_of(pixel[0], pixel[1 % CHANNELS], pixel[2 % CHANNELS]);
            found.values[0] += (unsigned)__float2int_rn(sum.v);
        } else {
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++) {
                const int byte = number * CHANNELS + channel;
                const unsigned level = words.words[byte / 4] >> byte % 4 * 8 & 255u;
                found.put(2 * channel, level), found.put(2 * channel + 1, 255u - level);
            }
        }
    }
}

__device__ __forceinline__ Found survey_of(const Image& image, int) {
    Found found = {};
    for_fours(image, contiguous(image), blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS,
        [&](const Image& image, unsigned four) {
            Words<0, CHANNELS> words;
            words.read(image.in, four);
            find(words, found);
        },
        [&](const Image& image, int y, int x) {
            if constexpr (LUMA) {
                found.values[0] += luma_of(image, image.from(y, x));
            } else {
#pragma unroll
                for (int channel = 0; channel < CHANNELS; channel++) {
                    const unsigned level = (int)load<IN>(image.from(y, x) + (Address)(channel * image.item.in_strides[4])).v;
                    found.put(2 * channel, level), found.put(2 * channel + 1, 255u - level);
                }
            }
        });
#pragma unroll
    for (int k = 0; !LUMA && k < SHARED; k++) {
        const unsigned place = place_of((float)(k % 2 ? 255u - found.values[k] : found.values[k]));
        found.values[k] = k % 2 ? ~place : place;
    }
    return found;
}
#else
#define BY_LEVELS 0
__device__ __forceinline__ Found survey_of(const Image& image, int channel) {
    Found found = {};
    for_pixels(image, [&](Address in, Address) {
        if constexpr (LUMA) {
            found.values[0] += luma_of(image, in);
        } else {
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const float value = load<IN>(in + (Address)((channel + k) * image.item.in_strides[4])).v;
                const unsigned place = place_of(value);
                if (value == value) found.put(2 * k, place), found.put(2 * k + 1, ~place);
            }
        }
    });
    return found;
}
#endif

// What all threads of a block have found, of which some threads have a value each; `own` is for all of it.
__device__ __forceinline__ unsigned of_block(const Found& found, unsigned* own) {
    constexpr int LANES = 32, PARTS = THREADS / LANES;
    const auto put = [](unsigned& at, unsigned value) { at = LUMA ? at + value : at > value ? at : value; };
#pragma unroll
    for (int k = 0; k < SHARED; k++) own[k * THREADS + threadIdx.x] = found.values[k];
    __syncthreads();
    if (threadIdx.x < SHARED * LANES) {
        unsigned* const at = own + threadIdx.x / LANES * THREADS + threadIdx.x % LANES;
        unsigned value = at[0];
#pragma unroll
        for (int part = 1; part < PARTS; part++) put(value, at[part * LANES]);
        at[0] = value;
    }
    __syncthreads();
    unsigned value = 0;
    for (int lane = 0; threadIdx.x < SHARED && lane < LANES; lane++) put(value, own[threadIdx.x * THREADS + lane]);
    return value;
}

struct Surveyed {
    unsigned own[SHARED * THREADS];
};

KERNEL(4, survey) {
    __shared__ Surveyed shared;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (!image.row.acts) return;
    Gathered* const of_image = gathered(job, image, number);
    for (int channel = 0; channel < (LUMA ? 1 : CHANNELS_OF(image)); channel += TOGETHER) {
        const unsigned value = of_block(survey_of(image, channel), shared.own);
        if (threadIdx.x < SHARED) {
            if constexpr (LUMA)
                atomicAdd(&of_image->sum, (unsigned long long)value);
            else
                atomicMax(&of_image[channel + threadIdx.x / 2].ends[threadIdx.x % 2], value);
        }
        __syncthreads();
    }
}

__device__ __forceinline__ Known known_of(const Image& image, const Gathered* of_image, int channel) {
    Known known;
    if constexpr (LUMA) {
        const long long pixels = (long long)image.item.width * image.item.height;
        const long long sum = (long long)of_image->sum - OFFSET * pixels;
        known.mean = (float)floor((double)sum / (double)pixels + 0.5);
    } else {
        known.highest = value_at(of_image[channel].ends[0]);
        known.lowest = value_at(~of_image[channel].ends[1]);
    }
    return known;
}

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const bool acts = image.row.acts;
    const Gathered* const of_image = gathered(job, image, number);
#if BY_LEVELS
    for (int e = threadIdx.x; e < TABLES * LEVELS; e += THREADS) {
        const Real value = (float)(e % LEVELS);
        levels[e] = stored<OUT>(acts ? changed(value, known_of(image, of_image, e / LEVELS), image.row) : value);
    }
    __syncthreads();
    change_levels(image);
#else
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        Known known[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) known[k] = known_of(image, of_image, channel + k);
        for_pixels(image, [&](Address in, Address out) {
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const Real value = load<IN>(in + (Address)((channel + k) * image.item.in_strides[4]));
                store<OUT>(out + (Address)((channel + k) * image.item.out_strides[4]),
                           acts ? changed(value, known[k], image.row) : value);
            }
        });
    }
#endif
}
