// Converts surfaces to frames in one launch: chroma interpolation, scaling, color matrix, flips, rotation and dtype.
//
// A block computes one tile of the frame before rotation, with coordinates (u, v), u along rows; the tile is stored in shared
// memory in the layout of the result, and written in whole lines. blockIdx.z is the frame, or the first of several frames of
// the block with SCALED.
//
// SAMPLE_BYTES  1 or 2                     INTERLEAVED  whether Cb and Cr share a plane
// PLANES        number of input planes     CHANNELS     values per pixel
// OUTPUT        0 uint8, 1 uint16, 2 float16, 3 float32
// ROUNDED       whether planes are rounded before the color matrix, as on the CPU with 8-bit intermediates
// PLANAR        whether the result is CHW instead of HWC
// TRANSPOSED, REVERSED_U, REVERSED_V       the combined flips and rotation
// ALIGNED       whether four samples of a row can be read as one word
// SCALED        whether frames are scaled
// WIDE          whether sums of weights need 64 bits; only with SCALED
// ENDS          whether a window is scaled: samples outside it contribute, and edge samples are not repeated
// LEVELS        255 or 65535: colors are rounded to integers up to it before scaling; 0: planes are scaled before conversion
// ZEROS         bit 3 * c + p: whether the matrix entry of channel c and plane p is 0; only with LEVELS
// SHIFT_*       log2 of luma samples per chroma sample; without SCALED, or with LEVELS
// OFFSET_*      twice the position of the first chroma sample in luma samples; likewise
// ODD_*         parity of the first visible luma sample; only without SCALED
//
// TRANSFER      change of the transfer function, see tone.cuh; 8 more where the channels are B, G, R; 0 for none; without LEVELS
//
// TILE_U, TILE_V, JOB_BYTES                equal to the host's
//
// Each line below is a variant that the compile test covers.
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=0 ROUNDED=1 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=128 TILE_V=16 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=1 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=1 OFFSET_Y=2 ODD_X=1 ODD_Y=1 ALIGNED=0 TRANSFER=0 TILE_U=128 TILE_V=16 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=1 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=0 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=64 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=1 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=1 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=1 ALIGNED=0 TRANSFER=0 TILE_U=128 TILE_V=16 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=1 CHANNELS=1 OUTPUT=0 ROUNDED=1 PLANAR=0 TRANSPOSED=1 REVERSED_U=0 REVERSED_V=0 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=64 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=1 SCALED=1 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=1 CHANNELS=3 OUTPUT=1 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=1 WIDE=1 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=0 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=1 WIDE=1 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=1 SCALED=1 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=1 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=1 WIDE=1 ENDS=1 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=1 SCALED=1 WIDE=0 ENDS=1 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=1 LEVELS=255 ZEROS=258 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=1 WIDE=1 ENDS=1 LEVELS=65535 ZEROS=258 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=1 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=1 SCALED=1 WIDE=0 ENDS=1 LEVELS=65535 ZEROS=258 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=0 ROUNDED=1 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=1 LEVELS=255 ZEROS=258 SHIFT_X=1 SHIFT_Y=0 OFFSET_X=1 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=1 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=1 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=1 ENDS=1 LEVELS=255 ZEROS=258 SHIFT_X=2 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=0 TRANSFER=0 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=0 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=1 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=0 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=2 TILE_U=32 TILE_V=32 JOB_BYTES=2824
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=0 WIDE=0 ENDS=0 LEVELS=0 ZEROS=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TRANSFER=4 TILE_U=128 TILE_V=16 JOB_BYTES=2824

#define FRAMES 64
#define THREADS 256
#define WARPS (THREADS / 32)

typedef unsigned long long Address;

#if SAMPLE_BYTES == 1
typedef unsigned char Sample;
#else
typedef unsigned short Sample;
#endif

#if OUTPUT == 0
typedef unsigned char Value;
#elif OUTPUT == 3
typedef float Value;
#else
typedef unsigned short Value;  // float16 by its bits
#endif

struct Frame {
    Address planes[3];
    Address out;
    int pitch, chroma_pitch;  // bytes
};

#include "weights.cuh"

struct Job {
    Frame frames[FRAMES];
    Axis axes[4];              // luma along u and v, chroma along u and v; only with SCALED
    float matrix[3][4];        // channel by (planes, 1)
    float gain[3], offset[3];  // for float output, applied after clamping to [0, peak]
    float peak;
    int left, top;      // first visible luma sample
    int width, height;  // size of the frame before rotation
    int chroma_width, chroma_height;
    int count;  // number of frames
};

static_assert(sizeof(Job) == JOB_BYTES, "the host's structure has another size");

// the tile in the orientation of the result
#if TRANSPOSED
#define TILE_ROWS TILE_U
#define TILE_COLUMNS TILE_V
#else
#define TILE_ROWS TILE_V
#define TILE_COLUMNS TILE_U
#endif
// whether threads write values directly, coalesced per warp, instead of through the tile
#define DIRECT_WRITE (SCALED && PLANAR && !TRANSPOSED)
// adjacent values of a pixel
#define PIXEL_VALUES (PLANAR ? 1 : CHANNELS)

#ifdef __CUDACC__
__device__ __forceinline__ unsigned short half_bits(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

// Rounds values below 2^22 to integers, halves to even.
__device__ __forceinline__ float round_even(float value) {
    return value + 12582912.0f - 12582912.0f;
}

__device__ __forceinline__ Value to_value(const Job& job, float value, int channel) {
    value = fminf(fmaxf(value, 0.0f), job.peak);
#if OUTPUT < 2
    return (Value)__float2int_rn(value);
#else
    value = fmaf(value, job.gain[channel], job.offset[channel]);
#if OUTPUT == 2
    return half_bits(value);
#else
    return value;
#endif
#endif
}

// Arithmetic with denormals, which CuPy's compiler options flush to 0.
#ifdef __CUDACC__
__device__ __forceinline__ float fma_denormal(float a, float b, float c) {
    float result;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}
__device__ __forceinline__ float mul_denormal(float a, float b) {
    float result;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ __forceinline__ float sub_denormal(float a, float b) {
    float result;
    asm("sub.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
#else
__device__ __forceinline__ float fma_denormal(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ float mul_denormal(float a, float b) { return a * b; }
__device__ __forceinline__ float sub_denormal(float a, float b) { return a - b; }
#endif

__device__ __forceinline__ float color_value(const Job& job, const float* planes, int channel) {
    const float* row = job.matrix[channel];
    float sum = row[3];
#pragma unroll
    for (int plane = PLANES - 1; plane >= 0; plane--)
        if (!(ZEROS >> (3 * channel + plane) & 1)) sum = LEVELS ? fma_denormal(row[plane], planes[plane], sum) : fmaf(row[plane], planes[plane], sum);
    return sum;
}

#if TRANSFER
#include "tone.cuh"
#endif

// Converts a pixel to the values of its channels.
__device__ __forceinline__ void convert_pixel(const Job& job, const float* planes, Value* values) {
#if TRANSFER
    const int first = TRANSFER & 8 ? 2 : 0;
    const Color rgb = change_transfer(color_value(job, planes, first), color_value(job, planes, 1), color_value(job, planes, 2 - first));
    values[first] = to_value(job, rgb.r, first);
    values[1] = to_value(job, rgb.g, 1);
    values[2 - first] = to_value(job, rgb.b, 2 - first);
#else
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel++) values[channel] = to_value(job, color_value(job, planes, channel), channel);
#endif
}

__device__ __forceinline__ int tile_index(int u, int v, int channel) {
    const int along_u = REVERSED_U ? TILE_U - 1 - u : u, along_v = REVERSED_V ? TILE_V - 1 - v : v;
    const int row = TRANSPOSED ? along_u : along_v, column = TRANSPOSED ? along_v : along_u;
    return PLANAR ? (channel * TILE_ROWS + row) * TILE_COLUMNS + column
                  : (row * TILE_COLUMNS + column) * CHANNELS + channel;
}

// ---------------------------------------------------------------------------------- output

// Writes the values from begin to end of one line, by one warp; in words if the destination is aligned.
__device__ __forceinline__ void write_line(const Value* from, Value* to, int begin, int end) {
    const int lane = threadIdx.x & 31;
    if (sizeof(Value) < 4 && ((Address)to & 3) == 0) {
        const int in_word = sizeof(Value) < 4 ? 4 / sizeof(Value) : 1;
        const int first = (begin + in_word - 1) / in_word, last = end / in_word;
        if (first < last) {
            for (int i = first + lane; i < last; i += 32) ((unsigned*)to)[i] = ((const unsigned*)from)[i];
            for (int i = begin + lane; i < first * in_word; i += 32) to[i] = from[i];
            begin = last * in_word;
        }
    }
    for (int i = begin + lane; i < end; i += 32) to[i] = from[i];
}

// First row or column of a block's tile in the result; negative where a reversed tile is clipped.
__device__ __forceinline__ int origin(int length, int block, int tile, bool reversed) {
    return reversed ? length - (block + 1) * tile : block * tile;
}

__device__ __forceinline__ void write_tile(const Job& job, Address out, const Value* tile) {
    const int rows = TRANSPOSED ? job.width : job.height, columns = TRANSPOSED ? job.height : job.width;
    const int along_u = origin(job.width, blockIdx.x, TILE_U, REVERSED_U);
    const int along_v = origin(job.height, blockIdx.y, TILE_V, REVERSED_V);
    const int top = TRANSPOSED ? along_u : along_v, left = TRANSPOSED ? along_v : along_u;
    const int begin = max(0, -left), end = min(TILE_COLUMNS, columns - left);
    const int lines = TILE_ROWS * (PLANAR ? CHANNELS : 1);
    for (int line = threadIdx.x / 32; line < lines; line += WARPS) {
        const int row = top + line % TILE_ROWS, channel = line / TILE_ROWS;
        if (row < 0 || row >= rows) continue;
        const long long start = (((long long)channel * rows + row) * columns + left) * PIXEL_VALUES;
        Value* to = (Value*)(out + start * (long long)sizeof(Value));
        write_line(tile + line * TILE_COLUMNS * PIXEL_VALUES, to, begin * PIXEL_VALUES, end * PIXEL_VALUES);
    }
}

#if SCALED
#include "scaled.cuh"
#else
#include "full_size.cuh"
#endif

// Resident blocks per multiprocessor: 64-bit sums and levels take more registers, and only data center GPUs have enough
// shared memory for three blocks with levels. On other GPUs at most three blocks of the other variants fit, and from Blackwell
// on the compiler needs one register more than four blocks leave.
#define LARGE_MEMORY (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200))
#define BLOCKS (!SCALED ? 4 : LEVELS ? (LARGE_MEMORY ? 3 : 2) : WIDE || !LARGE_MEMORY || __CUDA_ARCH__ >= 1000 ? 3 : 4)

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) convert(const __grid_constant__ Job job) {
    make_tiles(job);
}
