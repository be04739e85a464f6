// Volumes resampled: each voxel of a result is read from where a mapping sends it, through a matrix, perhaps a cubic
// B-spline field, and another matrix. ops/volume/gather3.c does the same on a CPU, in the same order of operations.
//
// TYPE    of values: 0 uint8, 1 int8, 2 uint16, 3 int16, 4 float32, 5 int32, 6 int64
// INTERP  0 nearest, 1 linear, 2 cubic, 3 the vote of the eight voxels around
// FIELD   0 none, 1 contracted along slices and rows for each tile, 2 of 64 control points for each voxel,
//         3 positions are given
//
// variant: TYPE=4 INTERP=1 FIELD=0
// variant: TYPE=4 INTERP=1 FIELD=1
// variant: TYPE=4 INTERP=1 FIELD=2
// variant: TYPE=4 INTERP=1 FIELD=3
// variant: TYPE=4 INTERP=2 FIELD=1
// variant: TYPE=3 INTERP=1 FIELD=0
// variant: TYPE=0 INTERP=3 FIELD=1
// variant: TYPE=6 INTERP=3 FIELD=0
// variant: TYPE=5 INTERP=0 FIELD=2

#if TYPE == 0
typedef unsigned char T;
#elif TYPE == 1
typedef signed char T;
#elif TYPE == 2
typedef unsigned short T;
#elif TYPE == 3
typedef short T;
#elif TYPE == 4
typedef float T;
#elif TYPE == 5
typedef int T;
#else
typedef long long T;
#endif

typedef long long Int;

struct Work {
    unsigned long long from, to, lattice, positions;
    Int type, interpolation, edge, planes, channels;
    Int shape[3], stride[3], channel;
    Int size[3], pitch[3], to_channel;
    Int nodes[3];
    double pre[12], post[12], per_node[3], fill;
};

static const int WIDE = 64, TALL = 4;
#if FIELD == 1
static const int NODES = 40;  // control points of a row, for the columns of a block
#endif

__device__ __forceinline__ int below(float x) {
    const int i = (int)x;
    return i - (x < (float)i);
}

__device__ __forceinline__ float within(float x, int n, bool edge) {
    const float lo = edge ? 0.0f : -3.0f, hi = edge ? (float)(n - 1) : (float)(n + 2);
    return x < lo ? lo : x > hi ? hi : x;
}

__device__ __forceinline__ int clamped(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

#if FIELD == 1 || FIELD == 2
__device__ __forceinline__ int cell(double q, double per_node, int nodes, float* b) {
    double g = q * per_node;
    const double last = (double)(nodes - 3);
    g = g < 0 ? 0 : g > last ? last : g;
    int i = (int)g;
    if (i > nodes - 4) i = nodes - 4;
    const float t = (float)(g - i), s = 1 - t;
    b[0] = s * s * s / 6;
    b[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    b[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
    b[3] = t * t * t / 6;
    return i;
}
#endif

struct Volume {
    const T* at;
    int n0, n1, n2;
    Int s0, s1, s2;
    bool edge;
    T fill;
    __device__ __forceinline__ T operator()(int i, int j, int l) const {
        if (edge) return at[clamped(i, n0) * s0 + clamped(j, n1) * s1 + clamped(l, n2) * s2];
        const bool inside = (unsigned)i < (unsigned)n0 && (unsigned)j < (unsigned)n1 && (unsigned)l < (unsigned)n2;
        return inside ? at[i * s0 + j * s1 + l * s2] : fill;
    }
};

#if INTERP == 1 || INTERP == 2
__device__ __forceinline__ T stored(float value) {
#if TYPE == 4
    return value;
#else
    const float least = TYPE == 0 || TYPE == 2 ? 0.0f : TYPE == 1 ? -128.0f : -32768.0f;
    const float most = TYPE == 0 ? 255.0f : TYPE == 1 ? 127.0f : TYPE == 2 ? 65535.0f : 32767.0f;
    return (T)(value <= least ? least : value >= most ? most : rintf(value));
#endif
}
#endif

#if INTERP == 0
__device__ __forceinline__ T read(const Volume& v, float z, float y, float x) {
    return v(below(z + 0.5f), below(y + 0.5f), below(x + 0.5f));
}
#elif INTERP == 1
__device__ __forceinline__ float plane(const Volume& v, int i, int j, int l, float fy, float fx) {
    const float a = (float)v(i, j, l), b = (float)v(i, j, l + 1), c = (float)v(i, j + 1, l), d = (float)v(i, j + 1, l + 1);
    const float p = a + fx * (b - a), q = c + fx * (d - c);
    return p + fy * (q - p);
}
__device__ __forceinline__ T read(const Volume& v, float z, float y, float x) {
    const int i = below(z), j = below(y), l = below(x);
    const float fz = z - (float)i, fy = y - (float)j, fx = x - (float)l, near = plane(v, i, j, l, fy, fx);
    if (fz == 0) return stored(near);  // as in slices that stay slices
    return stored(near + fz * (plane(v, i + 1, j, l, fy, fx) - near));
}
#elif INTERP == 2
__device__ __forceinline__ void keys(float t, float* w) {
    const float s = 1 - t;
    w[0] = -0.5f * t * s * s;
    w[1] = 1 + t * t * (1.5f * t - 2.5f);
    w[2] = 1 + s * s * (1.5f * s - 2.5f);
    w[3] = -0.5f * s * t * t;
}
__device__ __forceinline__ T read(const Volume& v, float z, float y, float x) {
    const int i = below(z), j = below(y), l = below(x);
    float a[4], b[4], e[4], value = 0;
    keys(z - (float)i, a), keys(y - (float)j, b), keys(x - (float)l, e);
    const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
#pragma unroll 1
    for (int u = 0; u < 4; u++) {
        float slice = 0;
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int d = i + u - 1, h = j + t - 1;
            slice += b[t] * (e[0] * (float)v(d, h, l - 1) + e[1] * (float)v(d, h, l) + e[2] * (float)v(d, h, l + 1) +
                             e[3] * (float)v(d, h, l + 2));
        }
        value += (u == 0 ? a0 : u == 1 ? a1 : u == 2 ? a2 : a3) * slice;
    }
    return stored(value);
}
#else
__device__ __forceinline__ T read(const Volume& v, float z, float y, float x) {
    const int i = below(z), j = below(y), l = below(x);
    T w[8];
#pragma unroll
    for (int t = 0; t < 8; t++) w[t] = v(i + (t >> 2), j + (t >> 1 & 1), l + (t & 1));
    T found = w[0];
    if (((w[0] ^ w[1]) | (w[0] ^ w[2]) | (w[0] ^ w[3]) | (w[0] ^ w[4]) | (w[0] ^ w[5]) | (w[0] ^ w[6]) | (w[0] ^ w[7])) == 0)
        return found;
    const float fz = z - (float)i, fy = y - (float)j, fx = x - (float)l;
    const int nearest = (fz >= 0.5f) * 4 + (fy >= 0.5f) * 2 + (fx >= 0.5f);
    float worth[8], most = -1;
    T near = w[0];
#pragma unroll
    for (int t = 0; t < 8; t++) {
        worth[t] = (t & 4 ? fz : 1 - fz) * (t & 2 ? fy : 1 - fy) * (t & 1 ? fx : 1 - fx);
        if (t == nearest) near = w[t];
    }
#pragma unroll
    for (int t = 0; t < 8; t++) {
        float score = 0;
#pragma unroll
        for (int u = 0; u < 8; u++) score += w[u] == w[t] ? worth[u] : 0;
        if (score > most || (score == most && (w[t] == near || (found != near && w[t] < found)))) most = score, found = w[t];
    }
    return found;
}
#endif

// A block makes TALL rows of WIDE columns of a slice.
extern "C" __global__ void __launch_bounds__(256, 2) gather3(const __grid_constant__ Work k) {
    const int thread = threadIdx.x, d = blockIdx.z, first_row = blockIdx.y * TALL, first_column = blockIdx.x * WIDE;
    const int h = first_row + thread / WIDE, w = first_column + thread % WIDE;
    const bool works = h < k.size[1] && w < k.size[2];
    float z = 0, y = 0, x = 0;
#if FIELD == 1
    __shared__ float rows[TALL][NODES][3];
    __shared__ int least;
    {
        float b[4];
        const int end = first_column + WIDE < k.size[2] ? first_column + WIDE - 1 : (int)k.size[2] - 1;
        const int one = cell(k.post[10] * first_column + k.post[11], k.per_node[2], (int)k.nodes[2], b);
        const int other = cell(k.post[10] * end + k.post[11], k.per_node[2], (int)k.nodes[2], b);
        const int lo = one < other ? one : other, count = (one < other ? other : one) - lo + 4;
        if (thread == 0) least = lo;
        for (int n = thread; n < TALL * count * 3; n += 256) {
            const int row = n / (count * 3), node = n / 3 % count, axis = n % 3;
            float e[4], f[4], sum = 0;
            const int slice = cell(k.post[0] * d + k.post[3], k.per_node[0], (int)k.nodes[0], e);
            const int line = cell(k.post[5] * (first_row + row) + k.post[7], k.per_node[1], (int)k.nodes[1], f);
            const float* c = (const float*)k.lattice + ((slice * k.nodes[1] + line) * k.nodes[2] + lo + node) * 3 + axis;
            for (int u = 0; u < 4; u++)
                for (int t = 0; t < 4; t++) sum += e[u] * f[t] * c[(u * k.nodes[1] + t) * k.nodes[2] * 3];
            rows[row][node][axis] = sum;
        }
    }
    __syncthreads();
#endif
    if (!works) return;
#if FIELD == 3
    const float* p = (const float*)k.positions + (((Int)d * k.size[1] + h) * k.size[2] + w) * 3;
    z = p[0], y = p[1], x = p[2];
#else
    const double* m = k.pre;
    double q0 = d, q1 = h, q2 = w;
    float u0 = 0, u1 = 0, u2 = 0;
#if FIELD == 1
    q0 = k.post[0] * d + k.post[3], q1 = k.post[5] * h + k.post[7], q2 = k.post[10] * w + k.post[11];
    float b[4];
    const int node = cell(q2, k.per_node[2], (int)k.nodes[2], b) - least;
#pragma unroll
    for (int t = 0; t < 4; t++) {
        const float* r = rows[thread / WIDE][node + t];
        u0 += b[t] * r[0], u1 += b[t] * r[1], u2 += b[t] * r[2];
    }
#elif FIELD == 2
    const double* o = k.post;
    q0 = o[0] * d + o[1] * h + o[2] * w + o[3], q1 = o[4] * d + o[5] * h + o[6] * w + o[7];
    q2 = o[8] * d + o[9] * h + o[10] * w + o[11];
    float e[4], f[4], g[4];
    const int i = cell(q0, k.per_node[0], (int)k.nodes[0], e), j = cell(q1, k.per_node[1], (int)k.nodes[1], f);
    const int l = cell(q2, k.per_node[2], (int)k.nodes[2], g);
    for (int u = 0; u < 4; u++)
        for (int t = 0; t < 4; t++) {
            const float* c = (const float*)k.lattice + (((i + u) * k.nodes[1] + j + t) * k.nodes[2] + l) * 3;
            const float both = e[u] * f[t];
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const float worth = both * g[v];
                u0 += worth * c[3 * v], u1 += worth * c[3 * v + 1], u2 += worth * c[3 * v + 2];
            }
        }
#endif
    z = (float)(m[0] * q0 + m[1] * q1 + m[2] * q2 + m[3]) + ((float)m[0] * u0 + (float)m[1] * u1 + (float)m[2] * u2);
    y = (float)(m[4] * q0 + m[5] * q1 + m[6] * q2 + m[7]) + ((float)m[4] * u0 + (float)m[5] * u1 + (float)m[6] * u2);
    x = (float)(m[8] * q0 + m[9] * q1 + m[10] * q2 + m[11]) + ((float)m[8] * u0 + (float)m[9] * u1 + (float)m[10] * u2);
#endif
    Volume v = {(const T*)k.from, (int)k.shape[0], (int)k.shape[1], (int)k.shape[2],
                k.stride[0], k.stride[1], k.stride[2], k.edge != 0, (T)k.fill};
    z = within(z, v.n0, v.edge), y = within(y, v.n1, v.edge), x = within(x, v.n2, v.edge);
    T* to = (T*)k.to + d * k.pitch[0] + h * k.pitch[1] + w * k.pitch[2];
    for (Int c = 0; c < k.channels; c++) to[c * k.to_channel] = read(v, z, y, x), v.at += k.channel;
}
