// Samples the control points of elastic fields, many fields in one launch: the numbers that NumPy's Philox (Philox4x64-10)
// generates from a key, bit for bit as in mapping.py. A thread generates the four numbers of one step of the
// generator.
//
// variant: THREADS=256

typedef unsigned long long Word;

struct Field {
    Word to, key[2];
    long long nodes[3], flat;  // points along each axis; whether all slices of them are one, and move nothing along slices
    double most[3];            // displacement along each axis
};

static const int ROOM = 50;  // fields of which all is in the argument
struct Job {
    const Field* table;  // of more of them
    Field few[ROOM];
};

__device__ __forceinline__ void four_words(Word step, Word k0, Word k1, Word (&w)[4]) {
    w[0] = step, w[1] = w[2] = w[3] = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const Word a = 0xD2E7470EE14C6C93ull, b = 0xCA5A826395121157ull;
        const Word high = __umul64hi(a, w[0]), low = a * w[0], other = __umul64hi(b, w[2]), least = b * w[2];
        w[0] = other ^ w[1] ^ k0, w[1] = least, w[2] = high ^ w[3] ^ k1, w[3] = low;
        k0 += 0x9E3779B97F4A7C15ull, k1 += 0xBB67AE8584CAA73Bull;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) control(const __grid_constant__ Job job) {
    const Field& f = job.table ? job.table[blockIdx.y] : job.few[blockIdx.y];
    const long long slice = f.nodes[1] * f.nodes[2] * 3, drawn = f.flat ? slice : f.nodes[0] * slice;
    const long long first = ((long long)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (first >= drawn) return;
    Word words[4];
    four_words(first / 4 + 1, f.key[0], f.key[1], words);  // the generator counts before it draws
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const long long at = first + n;
        if (at >= drawn) return;
        const int axis = (int)(at % 3);
        const double unit = (double)(words[n] >> 11) * (1.0 / 9007199254740992.0);
        const float value = f.flat && axis == 0 ? 0.0f : (float)((unit * 2 - 1) * f.most[axis]);
        if (!f.flat)
            ((float*)f.to)[at] = value;
        else
            for (long long d = 0; d < f.nodes[0]; d++) ((float*)f.to)[d * slice + at] = value;
    }
}
