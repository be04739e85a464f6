// Values changed by what is known of their whole image. First all blocks of an image look for the lowest and the highest
// value of each channel, or add up the luma of its pixels; then every value is changed.
//
// The operator's part is a constant LUMA, which of both is looked for, and the function `changed`, which is given it.

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

__device__ __forceinline__ Gathered* gathered(const Job& job, int number) {
    return (Gathered*)(job.scratch + (Address)number * job.scratch_of_image);
}

__device__ __forceinline__ unsigned luma_of(const Image& image, Address at) {
    if (CHANNELS_OF(image) == 1) return (int)load<IN>(at).v + OFFSET;
    const Address aside = (Address)image.item.in_strides[4];
    const Real red = load<IN>(at) * Real(0.299f), green = load<IN>(at + aside) * Real(0.587f);
    return __float2int_rn((red + green + load<IN>(at + 2 * aside) * Real(0.114f)).v) + OFFSET;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) survey(const __grid_constant__ Job job) {
    __shared__ unsigned own[SHARED * THREADS];
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item) || !image.row.acts) return;
    Gathered* const of_image = gathered(job, number);
    for (int channel = 0; channel < (LUMA ? 1 : CHANNELS_OF(image)); channel += TOGETHER) {
        unsigned found[SHARED] = {};
        for_pixels(image, [&](Address in, Address) {
            if constexpr (LUMA) {
                found[0] += luma_of(image, in);
            } else {
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    const float value = load<IN>(in + (Address)((channel + k) * image.item.in_strides[4])).v;
                    const unsigned place = place_of(value);
                    if (value == value) {
                        found[2 * k] = found[2 * k] > place ? found[2 * k] : place;
                        found[2 * k + 1] = found[2 * k + 1] > ~place ? found[2 * k + 1] : ~place;
                    }
                }
            }
        });
#pragma unroll
        for (int k = 0; k < SHARED; k++) own[k * THREADS + threadIdx.x] = found[k];
        for (int half = THREADS / 2; half; half /= 2) {
            __syncthreads();
            for (int k = 0; threadIdx.x < half && k < SHARED; k++) {
                unsigned* const at = own + k * THREADS + threadIdx.x;
                at[0] = LUMA ? at[0] + at[half] : at[0] > at[half] ? at[0] : at[half];
            }
        }
        __syncthreads();
        if (threadIdx.x < SHARED) {
            const unsigned value = own[threadIdx.x * THREADS];
            if constexpr (LUMA)
                atomicAdd(&of_image->sum, (unsigned long long)value);
            else
                atomicMax(&of_image[channel + threadIdx.x / 2].ends[threadIdx.x % 2], value);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= tiles_of(image.item)) return;
    const bool acts = image.row.acts;
    const Gathered* const of_image = gathered(job, number);
    for (int channel = 0; channel < CHANNELS_OF(image); channel += TOGETHER) {
        Known known[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if constexpr (LUMA) {
                const long long pixels = (long long)image.item.width * image.item.height;
                const long long sum = (long long)of_image->sum - OFFSET * pixels;
                known[k].mean = (float)floor((double)sum / (double)pixels + 0.5);
            } else {
                known[k].highest = value_at(of_image[channel + k].ends[0]);
                known[k].lowest = value_at(~of_image[channel + k].ends[1]);
            }
        }
        for_pixels(image, [&](Address in, Address out) {
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const Real value = load<IN>(in + (Address)((channel + k) * image.item.in_strides[4]));
                store<OUT>(out + (Address)((channel + k) * image.item.out_strides[4]),
                           acts ? changed(value, known[k], image.row) : value);
            }
        });
    }
}
