// Surfaces to pictures in one launch: chroma interpolation, scaling, colour matrix, mirror, quarter turn, type.
//
// A block makes one tile of the picture as it stands before the turn, (u, v) with u along its rows; the tile lies
// in shared memory in the order of the result, and goes out in whole lines. blockIdx.z is the frame.
//
// SAMPLE_BYTES  1 or 2                     INTERLEAVED  whether Cb and Cr share a plane
// PLANES        planes that are read       CHANNELS     values of a pixel
// OUTPUT        0 uint8, 1 uint16, 2 float16, 3 float32
// ROUNDED       whether planes are rounded before they are mixed, as the CPU does where it works in 8 bits
// PLANAR        whether the result is CHW instead of HWC
// TRANSPOSED, REVERSED_U, REVERSED_V       what flip, mirror and turn come to
// SCALED        whether filter tables are used; else pictures have the size of their part of the surface, and:
// SHIFT_*       log2 of luma samples per chroma sample, 0 or 1
// OFFSET_*      twice the first chroma sample's place in luma samples
// ODD_*         the parity of the first luma sample that is shown
// ALIGNED       whether four luma samples can be read at once
// TILE_U, TILE_V, JOB_BYTES                as the host has them
//
// Every line below is one set of these that the compile test goes through.
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=0 ROUNDED=1 PLANAR=0 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TILE_U=128 TILE_V=16 JOB_BYTES=2760
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=1 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=1 OFFSET_Y=2 ODD_X=1 ODD_Y=1 ALIGNED=0 TILE_U=128 TILE_V=16 JOB_BYTES=2760
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=1 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=0 SCALED=0 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=1 TILE_U=64 TILE_V=32 JOB_BYTES=2760
// variant: SAMPLE_BYTES=1 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=1 SCALED=0 SHIFT_X=1 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=1 ALIGNED=0 TILE_U=128 TILE_V=16 JOB_BYTES=2760
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=1 CHANNELS=1 OUTPUT=0 ROUNDED=1 PLANAR=0 TRANSPOSED=1 REVERSED_U=0 REVERSED_V=0 SCALED=0 SHIFT_X=1 SHIFT_Y=1 OFFSET_X=0 OFFSET_Y=1 ODD_X=0 ODD_Y=0 ALIGNED=1 TILE_U=64 TILE_V=32 JOB_BYTES=2760
// variant: SAMPLE_BYTES=1 INTERLEAVED=1 PLANES=3 CHANNELS=3 OUTPUT=2 ROUNDED=0 PLANAR=1 TRANSPOSED=0 REVERSED_U=0 REVERSED_V=0 SCALED=1 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=0 TILE_U=32 TILE_V=16 JOB_BYTES=2760
// variant: SAMPLE_BYTES=2 INTERLEAVED=0 PLANES=3 CHANNELS=3 OUTPUT=3 ROUNDED=0 PLANAR=0 TRANSPOSED=1 REVERSED_U=1 REVERSED_V=1 SCALED=1 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=0 TILE_U=32 TILE_V=16 JOB_BYTES=2760
// variant: SAMPLE_BYTES=2 INTERLEAVED=1 PLANES=1 CHANNELS=3 OUTPUT=1 ROUNDED=0 PLANAR=0 TRANSPOSED=0 REVERSED_U=1 REVERSED_V=0 SCALED=1 SHIFT_X=0 SHIFT_Y=0 OFFSET_X=0 OFFSET_Y=0 ODD_X=0 ODD_Y=0 ALIGNED=0 TILE_U=32 TILE_V=16 JOB_BYTES=2760

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

struct Axis {
    Address first;    // int[size]: the first sample that a pixel is made of
    Address weights;  // float[taps][size]
    int taps, unused;
};

struct Job {
    Frame frames[FRAMES];
    Axis axes[4];              // luma along u and v, chroma along u and v; only where SCALED
    float matrix[3][4];        // channel by (planes, 1)
    float gain[3], offset[3];  // of floats, after they are limited to 0 to peak
    float peak;
    int left, top;      // the first luma sample that is shown
    int width, height;  // of the picture before the turn
    int chroma_width, chroma_height;
    int unused;
};

static_assert(sizeof(Job) == JOB_BYTES, "the host's structure has another size");

// the tile as it stands in the result
#if TRANSPOSED
#define TILE_ROWS TILE_U
#define TILE_COLUMNS TILE_V
#else
#define TILE_ROWS TILE_V
#define TILE_COLUMNS TILE_U
#endif
// values of a pixel that lie side by side
#define TOGETHER (PLANAR ? 1 : CHANNELS)

#ifdef __CUDACC__
__device__ __forceinline__ unsigned short half_bits(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

__device__ __forceinline__ int limited(int value, int least, int most) {
    return min(max(value, least), most);
}

// The nearest whole number, halves to even, of values below 2^22.
__device__ __forceinline__ float whole(float value) {
    return value + 12582912.0f - 12582912.0f;
}

__device__ __forceinline__ Value finished(const Job& job, float value, int channel) {
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

__device__ __forceinline__ Value mixed(const Job& job, const float* planes, int channel) {
    const float* row = job.matrix[channel];
    float sum = row[3];
#pragma unroll
    for (int plane = PLANES - 1; plane >= 0; plane--) sum = fmaf(row[plane], planes[plane], sum);
    return finished(job, sum, channel);
}

__device__ __forceinline__ int place(int u, int v, int channel) {
    const int along_u = REVERSED_U ? TILE_U - 1 - u : u, along_v = REVERSED_V ? TILE_V - 1 - v : v;
    const int row = TRANSPOSED ? along_u : along_v, column = TRANSPOSED ? along_v : along_u;
    return PLANAR ? (channel * TILE_ROWS + row) * TILE_COLUMNS + column
                  : (row * TILE_COLUMNS + column) * CHANNELS + channel;
}

// ---------------------------------------------------------------------------------- the tile goes out

// Values begin to end of one line, by one warp; where the line is a multiple of four bytes away, in words.
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

// The first row or column of a block's tile in the result; less than 0 where a reversed tile is cut off.
__device__ __forceinline__ int origin(int length, int block, int tile, bool reversed) {
    return reversed ? length - (block + 1) * tile : block * tile;
}

__device__ __forceinline__ void write_tile(const Job& job, const Value* tile) {
    const int rows = TRANSPOSED ? job.width : job.height, columns = TRANSPOSED ? job.height : job.width;
    const int along_u = origin(job.width, blockIdx.x, TILE_U, REVERSED_U);
    const int along_v = origin(job.height, blockIdx.y, TILE_V, REVERSED_V);
    const int top = TRANSPOSED ? along_u : along_v, left = TRANSPOSED ? along_v : along_u;
    const int begin = max(0, -left), end = min(TILE_COLUMNS, columns - left);
    const Address out = job.frames[blockIdx.z].out;
    const int lines = TILE_ROWS * (PLANAR ? CHANNELS : 1);
    for (int line = threadIdx.x / 32; line < lines; line += WARPS) {
        const int row = top + line % TILE_ROWS, channel = line / TILE_ROWS;
        if (row < 0 || row >= rows) continue;
        const long long start = (((long long)channel * rows + row) * columns + left) * TOGETHER;
        Value* to = (Value*)(out + start * (long long)sizeof(Value));
        write_line(tile + line * TILE_COLUMNS * TOGETHER, to, begin * TOGETHER, end * TOGETHER);
    }
}

#if !SCALED
// ---------------------------------------------------------------------------------- pictures of full size

// A thread makes four columns of two rows. Their chroma lies within four samples of up to three rows: from the one
// before the first luma sample's own, where chroma is subsampled.
#define CHROMA_ROWS (SHIFT_Y ? 3 : 2)
// whether no luma column has a chroma sample right on it; else the CPU rounds after the rows, too
#define BETWEEN_COLUMNS (SHIFT_X && OFFSET_X == 1)

__device__ __forceinline__ void read_luma(const Job& job, const Frame& frame, int u, int v, float* four) {
    const Sample* row = (const Sample*)(frame.planes[0] + (Address)(job.top + v) * frame.pitch) + job.left;
#if ALIGNED && SAMPLE_BYTES == 1
    const unsigned word = *(const unsigned*)(row + u);
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)(word >> 8 * i & 255);
#elif ALIGNED
    const Address word = *(const Address*)(row + u);
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)(unsigned)(word >> 16 * i & 65535);
#else
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)row[min(u + i, job.width - 1)];
#endif
}

// Four chroma samples of one row, from column on.
__device__ __forceinline__ void read_chroma(
    const Job& job, const Frame& frame, int column, int row, float* cb, float* cr) {
    const Address start = (Address)limited(row, 0, job.chroma_height - 1) * frame.chroma_pitch;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int x = limited(column + i, 0, job.chroma_width - 1);
#if INTERLEAVED && SAMPLE_BYTES == 1
        const unsigned pair = ((const unsigned short*)(frame.planes[1] + start))[x];
        cb[i] = (float)(pair & 255);
        cr[i] = (float)(pair >> 8);
#elif INTERLEAVED
        const unsigned pair = ((const unsigned*)(frame.planes[1] + start))[x];
        cb[i] = (float)(pair & 65535);
        cr[i] = (float)(pair >> 16);
#else
        cb[i] = (float)((const Sample*)(frame.planes[1] + start))[x];
        cr[i] = (float)((const Sample*)(frame.planes[2] + start))[x];
#endif
    }
}

// Chroma at the i-th luma sample, from samples that stand a quarter of `quarters` before it. All of it is known when
// the loops are unrolled, so that samples without a weight are not even read.
__device__ __forceinline__ float between(const float* samples, int step, int quarters) {
    const float near = samples[(quarters >> 2) * step];
    if ((quarters & 3) == 0) return near;
    return fmaf(samples[((quarters >> 2) + 1) * step] - near, 0.25f * (quarters & 3), near);
}

__device__ __forceinline__ int quarters_x(int i) {
    return SHIFT_X ? 4 + 2 * (i + ODD_X) - OFFSET_X : 4 * i;
}

__device__ __forceinline__ int quarters_y(int i) {
    return SHIFT_Y ? 4 + 2 * (i + ODD_Y) - OFFSET_Y : 4 * i;
}

__device__ __forceinline__ void read_block(const Job& job, const Frame& frame, int u, int v, float (*pixels)[4][PLANES]) {
#if PLANES == 3
    float samples[2][CHROMA_ROWS][4];
    const int column = ((job.left + u) >> SHIFT_X) - SHIFT_X, row = ((job.top + v) >> SHIFT_Y) - SHIFT_Y;
#pragma unroll
    for (int i = 0; i < CHROMA_ROWS; i++)
        read_chroma(job, frame, column, row + i, samples[0][i], samples[1][i]);
#endif
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float four[4];
        read_luma(job, frame, u, min(v + j, job.height - 1), four);
#pragma unroll
        for (int i = 0; i < 4; i++) pixels[j][i][0] = four[i];
#if PLANES == 3
#pragma unroll
        for (int component = 0; component < 2; component++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                four[i] = between(&samples[component][0][i], 4, quarters_y(j));
                if (ROUNDED && !BETWEEN_COLUMNS) four[i] = whole(four[i]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float chroma = between(four, 1, quarters_x(i));
                pixels[j][i][1 + component] = ROUNDED ? whole(chroma) : chroma;
            }
        }
#endif
    }
}

// Four pixels of a row into the tile: in words where they stay side by side.
__device__ __forceinline__ void put_four(const Job& job, Value* tile, int u, int v, const float (*pixels)[PLANES]) {
#if TRANSPOSED
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            tile[place(u + i, v, channel)] = mixed(job, pixels[i], channel);
#else
    union {
        Value values[4 * CHANNELS];
        unsigned words[CHANNELS * sizeof(Value)];
    } run;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = REVERSED_U ? 3 - i : i;
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            run.values[PLANAR ? 4 * channel + at : CHANNELS * at + channel] = mixed(job, pixels[i], channel);
    }
    const int words = PLANAR ? sizeof(Value) : CHANNELS * sizeof(Value);
#pragma unroll
    for (int part = 0; part < (PLANAR ? CHANNELS : 1); part++) {
        unsigned* to = (unsigned*)(tile + place(REVERSED_U ? u + 3 : u, v, part));
#pragma unroll
        for (int i = 0; i < words; i++) to[i] = run.words[part * words + i];
    }
#endif
}

__device__ __forceinline__ void make_tile(const Job& job, Value* tile) {
    const int across = TILE_U / 4;
    const int u = threadIdx.x % across * 4, v = threadIdx.x / across * 2;
    const int column = blockIdx.x * TILE_U + u, row = blockIdx.y * TILE_V + v;
    if (column >= job.width || row >= job.height) return;
    float pixels[2][4][PLANES];
    read_block(job, job.frames[blockIdx.z], column, row, pixels);
    put_four(job, tile, u, v, pixels[0]);
    put_four(job, tile, u, v + 1, pixels[1]);
}

#else
// ---------------------------------------------------------------------------------- scaled pictures

// A thread makes one column of TILE_V / WARPS rows. Source rows are filtered along u into shared memory, a chunk at
// a time, and from there along v, so that shared memory is bounded however strong the shrinking is.
#define CHUNK 32
#define ROWS_OF_A_THREAD (TILE_V / WARPS)
#define LINES_OF_A_THREAD (CHUNK / WARPS)

__device__ __forceinline__ void filter_lines(
    const Axis& axis, Address plane, int pitch, int step, int width, int u, int begin, int end, float (*lines)[TILE_U]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int first = ((const int*)axis.first)[u];
    const float* weights = (const float*)axis.weights + u;
    const Sample* rows[LINES_OF_A_THREAD];
    float sums[LINES_OF_A_THREAD];
#pragma unroll
    for (int i = 0; i < LINES_OF_A_THREAD; i++) {
        rows[i] = (const Sample*)(plane + (Address)min(begin + warp + i * WARPS, end - 1) * pitch) + first * step;
        sums[i] = 0.0f;
    }
    for (int tap = 0; tap < axis.taps; tap++) {
        const float weight = weights[(long long)tap * width];
#pragma unroll
        for (int i = 0; i < LINES_OF_A_THREAD; i++)
            if (begin + warp + i * WARPS < end) sums[i] = fmaf(weight, (float)rows[i][tap * step], sums[i]);
    }
#pragma unroll
    for (int i = 0; i < LINES_OF_A_THREAD; i++) lines[warp + i * WARPS][lane] = sums[i];
}

__device__ __forceinline__ void filter_plane(
    const Job& job, const Axis* axes, Address plane, int pitch, int step, float (*lines)[TILE_U], float* sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int u = min((int)blockIdx.x * TILE_U + lane, job.width - 1);
    const int v = blockIdx.y * TILE_V;
    const int* first = (const int*)axes[1].first;
    const float* weights = (const float*)axes[1].weights;
    const int taps = axes[1].taps;
    const int end = first[min(v + TILE_V, job.height) - 1] + taps;
    for (int i = 0; i < ROWS_OF_A_THREAD; i++) sums[i] = 0.0f;
    for (int begin = first[v]; begin < end; begin += CHUNK) {
        __syncthreads();
        filter_lines(axes[0], plane, pitch, step, job.width, u, begin, end, lines);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ROWS_OF_A_THREAD; i++) {
            const int row = min(v + warp + i * WARPS, job.height - 1), start = first[row];
            const int stop = min(min(start + taps, begin + CHUNK), end);
            for (int line = max(start, begin); line < stop; line++)
                sums[i] = fmaf(weights[(long long)(line - start) * job.height + row], lines[line - begin][lane], sums[i]);
        }
    }
}

__device__ __forceinline__ void make_tile(const Job& job, Value* tile) {
    __shared__ float lines[CHUNK][TILE_U];
    const Frame& frame = job.frames[blockIdx.z];
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    float sums[PLANES][ROWS_OF_A_THREAD];
    filter_plane(job, job.axes, frame.planes[0], frame.pitch, 1, lines, sums[0]);
#if PLANES == 3
    const Address second = INTERLEAVED ? frame.planes[1] + SAMPLE_BYTES : frame.planes[2];
    filter_plane(job, job.axes + 2, frame.planes[1], frame.chroma_pitch, 1 + INTERLEAVED, lines, sums[1]);
    filter_plane(job, job.axes + 2, second, frame.chroma_pitch, 1 + INTERLEAVED, lines, sums[2]);
#endif
    for (int i = 0; i < ROWS_OF_A_THREAD; i++) {
        float pixel[PLANES];
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++) pixel[plane] = ROUNDED ? whole(sums[plane][i]) : sums[plane][i];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            tile[place(lane, warp + i * WARPS, channel)] = mixed(job, pixel, channel);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 4) convert(const __grid_constant__ Job job) {
    __shared__ __align__(16) Value tile[TILE_U * TILE_V * CHANNELS];
    make_tile(job, tile);
    __syncthreads();
    write_tile(job, tile);
}
