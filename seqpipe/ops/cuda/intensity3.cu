// Intensity operators on volumes, many channels in one launch: contiguous float32 values, slice by slice.
//
// points   consecutive steps on each voxel independently, and optionally a survey of their result in the same pass
// blurred  convolution along one axis
// coarse   nearest-neighbor downsampling and linear upsampling
// median   the median of each voxel and its 26 neighbors; the border is repeated
//
// NOISE    whether steps need random numbers
//
// variant: NOISE=0
// variant: NOISE=1

typedef long long Int;
typedef unsigned char Byte;

static const int THREADS = 256, ROOM = 4000;

// What a survey finds: of the voxels that count and are numbers.
struct Found {
    float mean, deviation, least, most;
};

// What a block contributes to it.
struct Sums {
    double sum, squares, count;
    float least, most;
};

// A channel. All that is not asked for is 0.
struct Lane {
    const float* from;
    float* to;
    const Byte* mask;  // the voxels that labels mark
    Found* found;
    Sums* sums;         // one for each block
    unsigned* arrived;  // blocks that are done
    Int table;          // of a blur, where its weights begin, in bytes
    int first, count;   // its steps; of a blur, the axis and the radius
    int counted;        // which voxels a survey counts
    int size[3];        // slices, rows and columns
    int few[3];         // of them, that are kept
    int blocks;         // that work on it
};

enum { EVERY, NOT_ZERO, MASKED };
enum { SCALE, NOISE_ADDED, RICIAN, CONTRAST, POWER, RESTORE, SCORE, WINDOW, ROUNDED, BIAS, HOLES, MIXED, LOCAL_POWER, GRADIENT, LOCAL_MIX, WAVE, LINES_BETWEEN, FILLED, KEPT };

struct Step {
    int code, place;
    unsigned key[2];
    float a, b, c, d;
    const Found *before, *after;
    const float* other;  // values of the channel as they were, or numbers of them
    Int table;           // where its own table begins, in bytes
    int count, unused;
};

struct __align__(8) Line {
    float at_zero, slope;
};

struct Job {
    const Byte* table;  // lanes, and all that they mention; of few it is here
    const Line* lines;  // for random numbers
    Int steps;          // where steps begin, in bytes
    Byte few[ROOM];
};

struct __align__(16) Four {
    float v[4];
};

__device__ __forceinline__ float clipped(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }
__device__ __forceinline__ bool is_number(float x) { return fabsf(x) <= 3.402823466e38f; }

#if NOISE
#include "philox.cuh"

static const int LINES = 1472, PARTS = 64, PART_BITS = 17, FIRST_POWER = 8;
__shared__ Line lines[LINES];

// Straight parts of the inverse of the normal distribution, as draws.cuh has them for pictures.
__device__ __forceinline__ void find_lines(const Line* given) {
    for (int number = threadIdx.x; number < LINES; number += THREADS) lines[number] = given[number];
    __syncthreads();
}

__device__ __forceinline__ float normal(unsigned bits) {
    const float place = (float)(int)((bits & 0xFFFFFE00u) | 0x100u);
    const unsigned place_bits = __float_as_uint(place);
    const Line line = lines[(place_bits << 1 >> (PART_BITS + 1)) - (FIRST_POWER + 127) * PARTS];
    const float size = line.at_zero + line.slope * fabsf(place);
    return __uint_as_float(__float_as_uint(size) ^ (place_bits & 0x80000000u));
}

// Four numbers of the normal distribution, of the voxels from 4 * four on.
__device__ __forceinline__ void normals(unsigned four, int frame, const unsigned* key, float* out) {
    const Random bits = philox(four, frame, key[0], key[1]);
    out[0] = normal(bits.words[0]), out[1] = normal(bits.words[1]), out[2] = normal(bits.words[2]), out[3] = normal(bits.words[3]);
}
#endif

// The exponent's polynomial: coefficients of powers of each axis, up to `order` each, slices first.
__device__ __forceinline__ float polynomial(const float* c, int order, const int* size, unsigned voxel) {
    const unsigned line = voxel / size[2];
    const float step_z = size[0] > 1 ? 2.0f / (size[0] - 1) : 0, step_y = size[1] > 1 ? 2.0f / (size[1] - 1) : 0;
    const float step_x = size[2] > 1 ? 2.0f / (size[2] - 1) : 0;
    const float z = step_z * (line / size[1]) - 1, y = step_y * (line % size[1]) - 1, x = step_x * (voxel % size[2]) - 1;
    const int terms = order + 1;
    float value = 0;
    for (int i = order; i >= 0; i--) {
        float slice = 0;
        for (int j = order; j >= 0; j--) {
            float row = 0;
            for (int l = order; l >= 0; l--) row = row * x + c[(i * terms + j) * terms + l];
            slice = slice * y + row;
        }
        value = value * z + slice;
    }
    return value;
}

// Whether a voxel is in one of some boxes, each of them its first slice, row and column, and the ones behind its last.
__device__ __forceinline__ bool in_boxes(const int* boxes, int count, const int* size, unsigned voxel) {
    const int line = voxel / size[2], d = line / size[1], h = line % size[1], w = voxel % size[2];
    bool found = false;
    for (int n = 0; n < count; n++, boxes += 6)
        found |= d >= boxes[0] && h >= boxes[1] && w >= boxes[2] && d < boxes[3] && h < boxes[4] && w < boxes[5];
    return found;
}

// The product of one number of each axis: those of slices, then rows, then columns.
__device__ __forceinline__ float product_of(const float* along, const int* size, unsigned voxel) {
    const unsigned line = voxel / size[2], slice = line / size[1];
    return along[slice] * along[size[0] + line % size[1]] * along[size[0] + size[1] + voxel % size[2]];
}

struct Complex {
    float real, imaginary;
};
__device__ __forceinline__ Complex times(Complex a, Complex b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

// The real part of the product of one number of each axis: those of slices, then rows, then columns.
__device__ __forceinline__ float wave_of(const Complex* along, const int* size, unsigned voxel) {
    const unsigned line = voxel / size[2], slice = line / size[1];
    const Complex row = times(along[slice], along[size[0] + line % size[1]]);
    return times(row, along[size[0] + size[1] + voxel % size[2]]).real;
}

// A value on straight lines: begin are the arguments at which they begin, and the last one's end, then their slopes.
__device__ __forceinline__ float on_lines(const float* begin, const float* results, int ends, float x) {
    int line = 0;
    for (int n = 1; n + 1 < ends; n++) line += x >= begin[n];
    return (x - begin[line]) * begin[ends + line] + results[line];
}

// A step for four voxels; of Python's methods `reference` of the operators each case is the kernel.
__device__ __forceinline__ void step_of(const Step& s, const Byte* table, const Lane& k, unsigned four, float (&v)[4]) {
    const unsigned voxels = (unsigned)k.size[0] * k.size[1] * k.size[2];
    switch (s.code) {
    case SCALE:
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = v[n] * s.a + s.b;
        break;
#if NOISE
    case NOISE_ADDED: {
        float noise[4];
        normals(four, s.place, s.key, noise);
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = v[n] + s.a * noise[n];
        break;
    }
    case RICIAN: {
        float real[4], other[4];
        normals(four, s.place, s.key, real), normals(four, s.place + 1, s.key, other);
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = hypotf(v[n] + s.a * real[n], s.a * other[n]);
        break;
    }
#endif
    case CONTRAST: {
        const Found f = *s.before;
#pragma unroll
        for (int n = 0; n < 4; n++) {
            v[n] = (v[n] - f.mean) * s.a + f.mean;
            if (s.b != 0) v[n] = clipped(v[n], f.least, f.most);
        }
        break;
    }
    case POWER: {  // of the values times d, between b and c or the ends of what is there
        float lo = s.b, hi = s.c;
        if (s.before) lo = s.before->least, hi = s.before->most;
        if (s.d < 0) {
            const float least = -hi;
            hi = -lo, lo = least;
        }
        const float wide = fmaxf(hi - lo, 1e-7f);
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = powf(clipped((s.d * v[n] - lo) / wide, 0, 1), s.a) * wide + lo;
        break;
    }
    case RESTORE: {  // mean and deviation of before, and the sign
        const float mean = s.after->mean, ratio = s.before->deviation / fmaxf(s.after->deviation, 1e-7f);
        const float shift = s.d * s.before->mean;
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = s.d * ((v[n] - mean) * ratio + shift);
        break;
    }
    case SCORE: {  // of the voxels that a counts
        const Found f = *s.before;
        const float by = f.deviation > 0 ? f.deviation : 1;
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const unsigned voxel = 4 * four + n;
            const bool counts = s.a == EVERY || (s.a == NOT_ZERO ? v[n] != 0 : voxel < voxels && k.mask[voxel]);
            if (counts) v[n] = (v[n] - f.mean) / by;
        }
        break;
    }
    case WINDOW:
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = clipped((v[n] - s.a) / s.b, 0, 1);
        break;
    case ROUNDED:
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] = clipped(rintf(v[n]), s.a, s.b);
        break;
    case BIAS:
#pragma unroll
        for (int n = 0; n < 4; n++) v[n] *= expf(polynomial((const float*)(table + s.table), s.count, k.size, 4 * four + n));
        break;
    case HOLES: {
        const float value = s.before ? s.before->mean : s.a;
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (in_boxes((const int*)(table + s.table), s.count, k.size, 4 * four + n)) v[n] = value;
        break;
    }
    case MIXED:
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (4 * four + n < voxels) v[n] = s.a * v[n] + s.b * s.other[4 * four + n];
        break;
    case LOCAL_POWER: {  // between the ends of what is there, to 2 ^ (a · near)
        const float lo = s.before->least, wide = fmaxf(s.before->most - lo, 1e-7f);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            if (4 * four + n >= voxels) continue;
            const float near = product_of((const float*)(table + s.table), k.size, 4 * four + n);
            v[n] = powf(clipped((v[n] - lo) / wide, 0, 1), exp2f(s.a * near)) * wide + lo;
        }
        break;
    }
    case GRADIENT:
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (4 * four + n < voxels) v[n] += s.a * product_of((const float*)(table + s.table), k.size, 4 * four + n) + s.b;
        break;
    case LOCAL_MIX:
#pragma unroll
        for (int n = 0; n < 4; n++) {
            if (4 * four + n >= voxels) continue;
            const float before = s.other[4 * four + n];
            v[n] = before + s.a * product_of((const float*)(table + s.table), k.size, 4 * four + n) * (v[n] - before);
        }
        break;
    case WAVE:
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (4 * four + n < voxels) v[n] += *s.other * wave_of((const Complex*)(table + s.table), k.size, 4 * four + n);
        break;
    case LINES_BETWEEN:
#pragma unroll
        for (int n = 0; n < 4; n++) {
            v[n] = on_lines(s.other, (const float*)(table + s.table), s.count, v[n]);
            if (s.a != 0) v[n] = clipped(v[n], 0, 1);
        }
        break;
    case FILLED:
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (!is_number(v[n])) v[n] = s.before->mean;
        break;
    case KEPT:
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (4 * four + n < voxels && !is_number(s.other[4 * four + n])) v[n] = s.other[4 * four + n];
        break;
    }
}

__device__ __forceinline__ void add(Sums& to, const Sums& from) {
    to.sum += from.sum, to.squares += from.squares, to.count += from.count;
    to.least = from.least < to.least ? from.least : to.least, to.most = from.most > to.most ? from.most : to.most;
}

__shared__ Sums of_threads[THREADS];

// The sums of all threads of a block, in an order that is always the same.
__device__ __forceinline__ void sum_up(const Sums& own) {
    of_threads[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if ((int)threadIdx.x < half) add(of_threads[threadIdx.x], of_threads[threadIdx.x + half]);
        __syncthreads();
    }
}

// The sums of a block become part of what the lane's survey finds; the last block to arrive says it.
__device__ __forceinline__ void survey(const Lane& k, const Sums& own) {
    __shared__ bool last;
    sum_up(own);
    if (threadIdx.x == 0) {
        k.sums[blockIdx.x] = of_threads[0];
        __threadfence();
        last = atomicAdd(k.arrived, 1u) + 1 == (unsigned)k.blocks;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    Sums every = {0, 0, 0, 3.402823466e38f, -3.402823466e38f};
    for (int n = threadIdx.x; n < k.blocks; n += THREADS) add(every, k.sums[n]);
    sum_up(every);
    if (threadIdx.x) return;
    const Sums& s = of_threads[0];
    if (s.count == 0) {
        *k.found = {0, 1, 0, 1};
        return;
    }
    const double mean = s.sum / s.count, square = s.squares / s.count - mean * mean;
    *k.found = {(float)mean, sqrtf((float)(square > 0 ? square : 0)), s.least, s.most};
}

__device__ __forceinline__ const Byte* table_of(const Job& job) { return job.table ? job.table : job.few; }

extern "C" __global__ void __launch_bounds__(256, 3) points(const __grid_constant__ Job job) {
    const Byte* const table = table_of(job);
    const Lane& k = ((const Lane*)table)[blockIdx.y];
    if ((int)blockIdx.x >= k.blocks) return;
#if NOISE
    find_lines(job.lines);
#endif
    const Step* const steps = (const Step*)(table + job.steps) + k.first;
    const unsigned voxels = (unsigned)k.size[0] * k.size[1] * k.size[2], fours = voxels / 4 + (voxels % 4 != 0);
    const bool wide = (((unsigned long long)k.from | (unsigned long long)k.to) & 15) == 0;
    Sums own = {0, 0, 0, 3.402823466e38f, -3.402823466e38f};
    for (unsigned four = blockIdx.x * THREADS + threadIdx.x; four < fours; four += k.blocks * THREADS) {
        const unsigned first = 4 * four, here = voxels - first < 4 ? voxels - first : 4;
        float v[4] = {0, 0, 0, 0};
        if (wide && here == 4) {
            const Four given = *(const Four*)(k.from + first);
            v[0] = given.v[0], v[1] = given.v[1], v[2] = given.v[2], v[3] = given.v[3];
        } else {
#pragma unroll
            for (unsigned n = 0; n < 4; n++)
                if (n < here) v[n] = k.from[first + n];
        }
        for (int n = 0; n < k.count; n++) step_of(steps[n], table, k, four, v);
        if (k.to && wide && here == 4) {
            *(Four*)(k.to + first) = {{v[0], v[1], v[2], v[3]}};
        } else if (k.to) {
#pragma unroll
            for (unsigned n = 0; n < 4; n++)
                if (n < here) k.to[first + n] = v[n];
        }
        if (!k.found) continue;
#pragma unroll
        for (unsigned n = 0; n < 4; n++) {
            if (n >= here || !is_number(v[n])) continue;
            if (k.counted == NOT_ZERO ? v[n] == 0 : k.counted == MASKED && !k.mask[first + n]) continue;
            own.sum += v[n], own.squares += (double)v[n] * v[n], own.count += 1;
            own.least = v[n] < own.least ? v[n] : own.least, own.most = v[n] > own.most ? v[n] : own.most;
        }
    }
    if (k.found) survey(k, own);
}

static const int WIDE = 32, LINES_AT_ONCE = 8, ROWS = 64;  // of a block of the kernels below: columns, rows at a time, rows

extern "C" __global__ void __launch_bounds__(256, 3) blurred(const __grid_constant__ Job job) {
    const Byte* const table = table_of(job);
    const Lane& k = ((const Lane*)table)[blockIdx.y];
    const int wide = (k.size[2] + WIDE - 1) / WIDE, x = blockIdx.x % wide * WIDE + threadIdx.x % WIDE;
    const int first = blockIdx.x / wide * ROWS, rows = k.size[0] * k.size[1], axis = k.first, radius = k.count;
    const Int step = axis == 0 ? (Int)k.size[1] * k.size[2] : axis == 1 ? k.size[2] : 1;
    const int n = axis == 0 ? k.size[0] : axis == 1 ? k.size[1] : k.size[2];
    const float* const weights = (const float*)(table + k.table);
    if (x >= k.size[2]) return;
    for (int row = first + threadIdx.x / WIDE; row < first + ROWS && row < rows; row += LINES_AT_ONCE) {
        const int place = axis == 0 ? row / k.size[1] : axis == 1 ? row % k.size[1] : x;
        const float* const at = k.from + (Int)row * k.size[2] + x;
        float sum = 0;
        if (place >= radius && place + radius < n) {
            const float* from = at - radius * step;
            for (int t = 0; t <= 2 * radius; t++, from += step) sum += weights[t] * *from;
        } else {
            for (int t = 0; t <= 2 * radius; t++) {  // what is outside mirrors what is inside
                int other = (place + t - radius) % (2 * n);
                other = other < 0 ? other + 2 * n : other;
                other = other < n ? other : 2 * n - 1 - other;
                sum += weights[t] * at[(other - place) * step];
            }
        }
        k.to[(Int)row * k.size[2] + x] = sum;
    }
}

// Where a voxel of an axis of n, of which `few` are kept, is between two that are.
struct Between {
    int before, behind;
    float share;
};
__device__ __forceinline__ Between between(int i, int n, int few) {
    if (few == n) return {i, i, 0};
    Int place = (Int)(2 * i + 1) * few - n;  // in parts of 2 n of a voxel
    const Int most = (Int)(few - 1) * 2 * n;
    place = place < 0 ? 0 : place > most ? most : place;
    int first = (int)(place / (2 * n));
    if (first > few - 2) first = few > 1 ? few - 2 : 0;
    const int next = first + 1 < few ? first + 1 : few - 1;
    return {(int)((Int)(2 * first + 1) * n / (2 * few)), (int)((Int)(2 * next + 1) * n / (2 * few)),
            (float)(place - (Int)first * 2 * n) / (float)(2 * n)};
}

extern "C" __global__ void __launch_bounds__(256, 3) coarse(const __grid_constant__ Job job) {
    const Byte* const table = table_of(job);
    const Lane& k = ((const Lane*)table)[blockIdx.y];
    const int wide = (k.size[2] + WIDE - 1) / WIDE, x = blockIdx.x % wide * WIDE + threadIdx.x % WIDE;
    const int first = blockIdx.x / wide * ROWS, rows = k.size[0] * k.size[1];
    if (first >= rows) return;
    __shared__ Between slices[ROWS], lines_of[ROWS];
    if (threadIdx.x < ROWS && first + (int)threadIdx.x < rows) {
        slices[threadIdx.x] = between((first + (int)threadIdx.x) / k.size[1], k.size[0], k.few[0]);
        lines_of[threadIdx.x] = between((first + (int)threadIdx.x) % k.size[1], k.size[1], k.few[1]);
    }
    __syncthreads();
    if (x >= k.size[2]) return;
    const Between c = between(x, k.size[2], k.few[2]);
    const Int slice = (Int)k.size[1] * k.size[2];
    for (int n = threadIdx.x / WIDE; n < ROWS && first + n < rows; n += LINES_AT_ONCE) {
        const Between a = slices[n], b = lines_of[n];
        const float *p = k.from + a.before * slice, *q = k.from + a.behind * slice;
        const Int upper = (Int)b.before * k.size[2], lower = (Int)b.behind * k.size[2];
        const float v0 = p[upper + c.before], v1 = p[upper + c.behind], v2 = p[lower + c.before], v3 = p[lower + c.behind];
        const float v4 = q[upper + c.before], v5 = q[upper + c.behind], v6 = q[lower + c.before], v7 = q[lower + c.behind];
        const float e = v0 + a.share * (v4 - v0), f = v1 + a.share * (v5 - v1);
        const float g = v2 + a.share * (v6 - v2), h = v3 + a.share * (v7 - v3);
        const float i = e + b.share * (g - e), j = f + b.share * (h - f);
        k.to[(Int)(first + n) * k.size[2] + x] = i + c.share * (j - i);
    }
}

__device__ __forceinline__ void order(float& low, float& high) {
    const float least = fminf(low, high);
    high = fmaxf(low, high), low = least;
}

// By forgetful selection: of one more than half of all values neither the least nor the greatest is the median. Both go,
// the next one comes, and so on; `next` gives a value by its number.
static const int NEAR = 27, WAITING = NEAR / 2 + 2;
template <int COUNT, class Next> __device__ __forceinline__ float median_of(float (&v)[WAITING], const Next& next) {
#pragma unroll
    for (int n = 0; n < COUNT / 2; n++) order(v[n], v[COUNT - 1 - n]);
#pragma unroll
    for (int n = 1; n < (COUNT + 1) / 2; n++) order(v[0], v[n]);
#pragma unroll
    for (int n = COUNT / 2; n < COUNT - 1; n++) order(v[n], v[COUNT - 1]);
    if constexpr (COUNT == 3) {
        return v[1];
    } else {
        v[0] = next(2 * WAITING - COUNT);
        return median_of<COUNT - 1>(v, next);
    }
}

extern "C" __global__ void __launch_bounds__(256, 3) median(const __grid_constant__ Job job) {
    const Lane& k = ((const Lane*)table_of(job))[blockIdx.y];
    const int wide = (k.size[2] + WIDE - 1) / WIDE, x = blockIdx.x % wide * WIDE + threadIdx.x % WIDE;
    const int first = blockIdx.x / wide * ROWS, rows = k.size[0] * k.size[1];
    if (x >= k.size[2]) return;
    const int left = x ? -1 : 0, right = x + 1 < k.size[2] ? 1 : 0;
    for (int row = first + threadIdx.x / WIDE; row < first + ROWS && row < rows; row += LINES_AT_ONCE) {
        const int d = row / k.size[1], h = row % k.size[1];
        const float* lines[9];
#pragma unroll
        for (int a = 0; a < 3; a++)
#pragma unroll
            for (int b = 0; b < 3; b++) {
                const int slice = min(max(d + a - 1, 0), k.size[0] - 1), line = min(max(h + b - 1, 0), k.size[1] - 1);
                lines[a * 3 + b] = k.from + ((Int)slice * k.size[1] + line) * k.size[2] + x;
            }
        bool none = false;  // whether one of them is no number, which fminf and fmaxf leave out
        const auto next = [&](int number) {
            const float value = lines[number / 3][number % 3 == 0 ? left : number % 3 == 1 ? 0 : right];
            none |= value != value;
            return value;
        };
        float v[WAITING];
#pragma unroll
        for (int n = 0; n < WAITING; n++) v[n] = next(n);
        const float found = median_of<WAITING>(v, next);
        k.to[(Int)row * k.size[2] + x] = none ? __uint_as_float(0x7fc00000u) : found;
    }
}
