// Gathers volumes, many in one launch: each voxel of a result is read at the position of a mapping: a matrix, optionally a
// cubic B-spline field, and another matrix. gather.c does the same on a CPU.
//
// A warp computes 8 columns of 4 rows, so that its reads are close together for any rotation of the volume, and each of its
// threads one column of SLICES slices: the thread's first position is computed in double precision, the others follow as
// whole voxels and fractions, which is more exact than float32 positions.
//
// TYPE    of values: 0 uint8, 1 int8, 2 uint16, 3 int16, 4 float32, 5 int32, 6 int64
// INTERP  0 nearest, 1 linear, 2 cubic, 3 the vote of the eight voxels around, 4 cubic B-spline of coefficients
// FIELD   0 none, 1 contracted along rows for each tile and along columns for each thread, 2 of 64 control points for
//         each voxel, 3 explicit positions
//
// variant: TYPE=4 INTERP=1 FIELD=0
// variant: TYPE=4 INTERP=1 FIELD=1
// variant: TYPE=4 INTERP=1 FIELD=2
// variant: TYPE=4 INTERP=1 FIELD=3
// variant: TYPE=4 INTERP=2 FIELD=1
// variant: TYPE=4 INTERP=4 FIELD=0
// variant: TYPE=3 INTERP=1 FIELD=0
// variant: TYPE=3 INTERP=1 FIELD=1
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
    Int type, interpolation, edge, method, channels;
    Int shape[3], stride[3], channel;
    Int size[3], pitch[3], to_channel;
    Int nodes[3];
    double pre[12], post[12], per_node[3], fill;
};

static const int ROOM = 9;  // volumes of which all is in the argument
struct Job {
    const Work* table;  // of more of them
    Work few[ROOM];
};

// Places in the middle between voxels, which right angles give, shall be found there where one of these is taken.
#if INTERP == 0 || INTERP == 3
typedef double Part;
#else
typedef float Part;
#endif

static const int WIDE = 32, TALL = 8, SLICES = 8;  // a block's tile
#if FIELD == 1
static const int NODES = 5, ACROSS = 10;  // control points around the tile's slices, and around its columns
static const bool EXACT = sizeof(Part) == sizeof(double);
#endif

__device__ __forceinline__ int below(float x) {
    const int i = (int)x;
    return i - (x < (float)i);
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

// A place: the voxel before it along each axis, and how far it is behind that one.
struct Place {
    int i, j, l;
    float fz, fy, fx;
};

struct Volume {
    const T* at;
    int n0, n1, n2, s0, s1, s2;
    bool edge;
    T fill;
    __device__ __forceinline__ T operator()(int i, int j, int l) const {
        if (edge)
            i = clamped(i, n0), j = clamped(j, n1), l = clamped(l, n2);
        else if (!has(i, j, l))
            return fill;
        return *address(i, j, l);
    }
    __device__ __forceinline__ bool has(int i, int j, int l) const {
        return (unsigned)i < (unsigned)n0 && (unsigned)j < (unsigned)n1 && (unsigned)l < (unsigned)n2;
    }
    __device__ __forceinline__ const T* address(int i, int j, int l) const {
        return at + ((Int)i * s0 + (Int)j * s1 + (Int)l * s2);
    }
    // whether all eight voxels around a place are there
    __device__ __forceinline__ bool holds(const Place& p) const {
        return (unsigned)p.i < (unsigned)(n0 - 1) && (unsigned)p.j < (unsigned)(n1 - 1) && (unsigned)p.l < (unsigned)(n2 - 1);
    }
};

// The eight voxels around the place that a thread read last, slices last, columns first.
struct Taps {
    T w[8];
    int i, j, l;  // the first of them
    bool known, kept;  // whether they are there; whether the thread reads one channel alone, so that they may be looked at
};

#if INTERP == 1 || INTERP == 2 || INTERP == 4
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

#if INTERP == 1 || INTERP == 3
// The eight voxels around a place. What the place before in the thread's column has in common with it is not read again,
// and of places within a slice the next slice is not read.
__device__ __forceinline__ void around(const Volume& v, const Place& p, Taps& taps) {
    T(&w)[8] = taps.w;
    const bool within = v.holds(p), both = INTERP == 3 || !within || p.fz != 0;
    int i = p.i, j = p.j, l = p.l, slice = v.s0, row = v.s1, column = v.s2;
    // slices since the last place
    const int on = within && taps.known && j == taps.j && l == taps.l ? i - taps.i : -1;
    taps.i = i, taps.j = j, taps.l = l, taps.known = taps.kept && within && (both || on == 0);
    if (!within) {
        i = clamped(i, v.n0), j = clamped(j, v.n1), l = clamped(l, v.n2);
        slice *= clamped(p.i + 1, v.n0) - i, row *= clamped(p.j + 1, v.n1) - j, column *= clamped(p.l + 1, v.n2) - l;
    }
    const T *a = v.address(i, j, l), *b = a + slice;
    if (on == 1)
        w[0] = w[4], w[1] = w[5], w[2] = w[6], w[3] = w[7];
    else if (on != 0)
        w[0] = __ldg(a), w[1] = __ldg(a + column), w[2] = __ldg(a + row), w[3] = __ldg(a + row + column);
    if (on != 0 && both)
        w[4] = __ldg(b), w[5] = __ldg(b + column), w[6] = __ldg(b + row), w[7] = __ldg(b + row + column);
    if (!within && !v.edge) {
#pragma unroll
        for (int t = 0; t < 8; t++)
            if (!v.has(p.i + (t >> 2), p.j + (t >> 1 & 1), p.l + (t & 1))) w[t] = v.fill;
    }
}
#endif

#if INTERP == 0
__device__ __forceinline__ T read(const Volume& v, const Place& p, Taps&) {
    return v(p.i + (p.fz >= 0.5f), p.j + (p.fy >= 0.5f), p.l + (p.fx >= 0.5f));
}
#elif INTERP == 1
__device__ __forceinline__ T read(const Volume& v, const Place& p, Taps& taps) {
    around(v, p, taps);
    const T(&w)[8] = taps.w;
    const float a = (float)w[0], b = (float)w[2], c = (float)w[4], d = (float)w[6];
    const float e = a + p.fx * ((float)w[1] - a), f = b + p.fx * ((float)w[3] - b);
    const float g = c + p.fx * ((float)w[5] - c), h = d + p.fx * ((float)w[7] - d);
    const float near = e + p.fy * (f - e), far = g + p.fy * (h - g);
    // as in slices that stay slices, of which the next one is not looked at
    return stored(p.fz == 0 ? near : near + p.fz * (far - near));
}
#elif INTERP == 2 || INTERP == 4
__device__ __forceinline__ void four_weights(float t, float* w) {
    const float s = 1 - t;
#if INTERP == 4
    w[0] = s * s * s / 6;
    w[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    w[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
    w[3] = t * t * t / 6;
#else
    w[0] = -0.5f * t * s * s;
    w[1] = 1 + t * t * (1.5f * t - 2.5f);
    w[2] = 1 + s * s * (1.5f * s - 2.5f);
    w[3] = -0.5f * s * t * t;
#endif
}
__device__ __forceinline__ T read(const Volume& v, const Place& p, Taps&) {
    float a[4], b[4], e[4], value = 0;
    four_weights(p.fz, a), four_weights(p.fy, b), four_weights(p.fx, e);
    const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
#pragma unroll 1
    for (int u = 0; u < 4; u++) {
        float slice = 0;
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int d = p.i + u - 1, h = p.j + t - 1;
            slice += b[t] * (e[0] * (float)v(d, h, p.l - 1) + e[1] * (float)v(d, h, p.l) + e[2] * (float)v(d, h, p.l + 1) +
                             e[3] * (float)v(d, h, p.l + 2));
        }
        value += (u == 0 ? a0 : u == 1 ? a1 : u == 2 ? a2 : a3) * slice;
    }
    return stored(value);
}
#else
static const float EQUAL = 1e-5f;  // sums that differ by less are equal: rounding decides nothing
__device__ __forceinline__ T read(const Volume& v, const Place& p, Taps& taps) {
    around(v, p, taps);
    const T(&w)[8] = taps.w;
    T found = w[0];
    if (((w[0] ^ w[1]) | (w[0] ^ w[2]) | (w[0] ^ w[3]) | (w[0] ^ w[4]) | (w[0] ^ w[5]) | (w[0] ^ w[6]) | (w[0] ^ w[7])) == 0)
        return found;
    const int nearest = (p.fz >= 0.5f) * 4 + (p.fy >= 0.5f) * 2 + (p.fx >= 0.5f);
    float worth[8], most = -1;
    T near = w[0];
#pragma unroll
    for (int t = 0; t < 8; t++) {
        worth[t] = (t & 4 ? p.fz : 1 - p.fz) * (t & 2 ? p.fy : 1 - p.fy) * (t & 1 ? p.fx : 1 - p.fx);
        if (t == nearest) near = w[t];
    }
#pragma unroll
    for (int t = 0; t < 8; t++) {
        float score = 0;
#pragma unroll
        for (int u = 0; u < 8; u++) score += w[u] == w[t] ? worth[u] : 0;
        const bool before = w[t] == near || (found != near && w[t] < found);
        if (score > most + EQUAL || (score >= most - EQUAL && before)) found = w[t];
        most = fmaxf(most, score);
    }
    return found;
}
#endif

// A place along an axis, as the voxel before it and the part of one behind that; with `edge` none beyond the last ones.
__device__ __forceinline__ void along(float x, int first, int n, bool edge, int& i, float& f) {
    x = x < -1e8f ? -1e8f : x > 1e8f ? 1e8f : x;
    const int whole = below(x);
    i = first + whole, f = x - (float)whole;
    if (edge && i < 0) i = 0, f = 0;
    if (edge && i >= n - 1) i = n - 1, f = 0;
}

// The whole part of a place, of which the rest stays; far away places are brought nearer.
__device__ __forceinline__ int whole_part(double& x) {
    x = x < -1e8 ? -1e8 : x > 1e8 ? 1e8 : x;
    const double whole = floor(x);
    x -= whole;
    return (int)whole;
}

// What every block finds first: its volume, and the first voxel of its tile.
struct Tile {
    int z, y, x;
};
__device__ __forceinline__ bool find_tile(const Work& k, Tile& tile) {
    const int wide = ((int)k.size[2] + WIDE - 1) / WIDE, tall = ((int)k.size[1] + TALL - 1) / TALL;
    const int number = blockIdx.x, line = number / wide, slab = line / tall;
    tile.z = slab * SLICES, tile.y = (line - slab * tall) * TALL, tile.x = (number - line * wide) * WIDE;
    return tile.z < k.size[0];
}

// blocks of a multiprocessor, whose threads wait for memory while others work: as many as registers are enough for
#if INTERP == 1 && FIELD == 0
#define BLOCKS 4
#elif INTERP < 2 && FIELD < 2
#define BLOCKS 3
#elif FIELD == 2
#define BLOCKS 1
#else
#define BLOCKS 2
#endif
extern "C" __global__ void __launch_bounds__(256, BLOCKS) gather(const __grid_constant__ Job job) {
    const Work& k = job.table ? job.table[blockIdx.y] : job.few[blockIdx.y];
    Tile tile;
    if (!find_tile(k, tile)) return;
    const int thread = threadIdx.x, column = thread / 32 % 4 * 8 + thread % 8, row = thread / 128 * 4 + thread % 32 / 8;
    const int h = tile.y + row, w = tile.x + column, d0 = tile.z;
    const int slices = (int)k.size[0] - d0 < SLICES ? (int)k.size[0] - d0 : SLICES;
#if FIELD == 1
    __shared__ float mixed[NODES][TALL][ACROSS * 3];  // control points contracted along rows
    __shared__ float of_slice[SLICES][NODES];
    int slice_node, column_node;
    {
        const int n0 = (int)k.nodes[0], n1 = (int)k.nodes[1], n2 = (int)k.nodes[2];
        float b[4];
        const int one = cell(k.post[0] * d0 + k.post[3], k.per_node[0], n0, b);
        const int other = cell(k.post[0] * (d0 + slices - 1) + k.post[3], k.per_node[0], n0, b);
        const int left = cell(k.post[10] * tile.x + k.post[11], k.per_node[2], n2, b);
        const int last = tile.x + WIDE < (int)k.size[2] ? tile.x + WIDE - 1 : (int)k.size[2] - 1;
        const int right = cell(k.post[10] * last + k.post[11], k.per_node[2], n2, b);
        slice_node = one < other ? one : other, column_node = left < right ? left : right;
        // a warp makes a row, each of its threads one number of a control point
        const int line = thread / 32, number = thread % 32, above = cell(k.post[5] * (tile.y + line) + k.post[7], k.per_node[1], n1, b);
        if (number < ACROSS * 3) {
            // beyond the last points there are none; what stands for them is worth nothing
            const int behind = column_node * 3 + number, at = behind < n2 * 3 ? behind : n2 * 3 - 1;
#pragma unroll
            for (int n = 0; n < NODES; n++) {
                const int slice = slice_node + n < n0 ? slice_node + n : n0 - 1;
                const float* c = (const float*)k.lattice + ((Int)slice * n1 + above) * n2 * 3 + at;
                mixed[n][line][number] = b[0] * c[0] + b[1] * c[n2 * 3] + b[2] * c[n2 * 6] + b[3] * c[n2 * 9];
            }
        }
        if (thread < slices) {
            const int off = cell(k.post[0] * (d0 + thread) + k.post[3], k.per_node[0], n0, b) - slice_node;
#pragma unroll
            for (int n = 0; n < NODES; n++) of_slice[thread][n] = off ? (n ? b[n - 1] : 0.0f) : (n < 4 ? b[n & 3] : 0.0f);
        }
    }
    __syncthreads();
#endif
    if (h >= k.size[1] || w >= k.size[2]) return;
    Volume v = {(const T*)k.from, (int)k.shape[0], (int)k.shape[1], (int)k.shape[2],
                (int)k.stride[0], (int)k.stride[1], (int)k.stride[2], k.edge != 0, (T)k.fill};
    T* to = (T*)k.to + d0 * k.pitch[0] + h * k.pitch[1] + w * k.pitch[2];
#if FIELD != 3
    const double* m = k.pre;
    double q0 = d0, q1 = h, q2 = w, s0 = 1, s1 = 0, s2 = 0;  // where the thread begins on the field's grid, and its step
#if FIELD
    const double* o = k.post;
    q0 = o[0] * d0 + o[1] * h + o[2] * w + o[3], q1 = o[4] * d0 + o[5] * h + o[6] * w + o[7];
    q2 = o[8] * d0 + o[9] * h + o[10] * w + o[11];
    s0 = o[0], s1 = o[4], s2 = o[8];
#endif
    double z = m[0] * q0 + m[1] * q1 + m[2] * q2 + m[3], y = m[4] * q0 + m[5] * q1 + m[6] * q2 + m[7];
    double x = m[8] * q0 + m[9] * q1 + m[10] * q2 + m[11];
    const int first_i = whole_part(z), first_j = whole_part(y), first_l = whole_part(x);
    const Part zf = (Part)z, yf = (Part)y, xf = (Part)x;
    const Part dz = (Part)(m[0] * s0 + m[1] * s1 + m[2] * s2), dy = (Part)(m[4] * s0 + m[5] * s1 + m[6] * s2);
    const Part dx = (Part)(m[8] * s0 + m[9] * s1 + m[10] * s2);
#endif
#if FIELD == 1 || FIELD == 2
    const float m0 = (float)m[0], m1 = (float)m[1], m2 = (float)m[2], m4 = (float)m[4], m5 = (float)m[5];
    const float m6 = (float)m[6], m8 = (float)m[8], m9 = (float)m[9], m10 = (float)m[10];
#endif
#if FIELD == 1
    float own[NODES][3];  // control points of the slices, contracted along rows and columns, in voxels of what is read
    {
        float b[4];
        const int off = cell(q2, k.per_node[2], (int)k.nodes[2], b) - column_node;
#pragma unroll
        for (int n = 0; n < NODES; n++) {
            const float* c = &mixed[n][row][off * 3];
            const float u0 = b[0] * c[0] + b[1] * c[3] + b[2] * c[6] + b[3] * c[9];
            const float u1 = b[0] * c[1] + b[1] * c[4] + b[2] * c[7] + b[3] * c[10];
            const float u2 = b[0] * c[2] + b[1] * c[5] + b[2] * c[8] + b[3] * c[11];
            own[n][0] = m0 * u0 + m1 * u1 + m2 * u2, own[n][1] = m4 * u0 + m5 * u1 + m6 * u2;
            own[n][2] = m8 * u0 + m9 * u1 + m10 * u2;
            // what points are worth adds up to 1, so that the thread's first place can be a part of each, to rounding
            if (!EXACT) own[n][0] += (float)zf, own[n][1] += (float)yf, own[n][2] += (float)xf;
        }
    }
#endif
    const int channels = (int)k.channels;
    Taps taps = {};
    taps.kept = channels == 1;
#if INTERP == 0 && FIELD < 2
#pragma unroll 2
#else
#pragma unroll 1
#endif
    for (int n = 0; n < slices; n++, to += k.pitch[0]) {
        Place p;
#if FIELD == 3
        const float* at = (const float*)k.positions + (((Int)(d0 + n) * k.size[1] + h) * k.size[2] + w) * 3;
        along(at[0], 0, v.n0, v.edge, p.i, p.fz);
        along(at[1], 0, v.n1, v.edge, p.j, p.fy);
        along(at[2], 0, v.n2, v.edge, p.l, p.fx);
#else
#if FIELD == 1
        float pz = (float)((EXACT ? zf : 0) + dz * n), py = (float)((EXACT ? yf : 0) + dy * n);
        float px = (float)((EXACT ? xf : 0) + dx * n);
#pragma unroll
        for (int t = 0; t < NODES; t++) {
            const float worth = of_slice[n][t];
            pz += worth * own[t][0], py += worth * own[t][1], px += worth * own[t][2];
        }
#else
        float pz = (float)(zf + dz * n), py = (float)(yf + dy * n), px = (float)(xf + dx * n);
#endif
#if FIELD == 2
        float u0 = 0, u1 = 0, u2 = 0;
        float e[4], f[4], g[4];
        const int i = cell(q0 + s0 * n, k.per_node[0], (int)k.nodes[0], e);
        const int j = cell(q1 + s1 * n, k.per_node[1], (int)k.nodes[1], f);
        const int l = cell(q2 + s2 * n, k.per_node[2], (int)k.nodes[2], g);
#pragma unroll 1
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int t = 0; t < 4; t++) {
                const float* c = (const float*)k.lattice + (((Int)(i + u) * k.nodes[1] + j + t) * k.nodes[2] + l) * 3;
                const float both = (u == 0 ? e[0] : u == 1 ? e[1] : u == 2 ? e[2] : e[3]) * f[t];
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const float worth = both * g[r];
                    u0 += worth * c[3 * r], u1 += worth * c[3 * r + 1], u2 += worth * c[3 * r + 2];
                }
            }
        pz += m0 * u0 + m1 * u1 + m2 * u2, py += m4 * u0 + m5 * u1 + m6 * u2, px += m8 * u0 + m9 * u1 + m10 * u2;
#endif
        along(pz, first_i, v.n0, v.edge, p.i, p.fz);
        along(py, first_j, v.n1, v.edge, p.j, p.fy);
        along(px, first_l, v.n2, v.edge, p.l, p.fx);
#endif
        const T* const begin = v.at;
        for (int c = 0; c < channels; c++) to[c * k.to_channel] = read(v, p, taps), v.at += k.channel;
        v.at = begin;
    }
}
