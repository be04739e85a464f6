// Percentiles of the finite values of a channel, float32.
//
// sortable  values as unsigned integers of the same order; those that are not finite come last
// lines     of these, sorted: percentiles, and the slopes of the lines on which they have given results; one block
//
// variant: THREADS=256

typedef long long Int;

#include "sortable.cuh"

static const unsigned NOT_FINITE = 0xffffffffu;

struct Job {
    const float* values;
    unsigned* keys;
    const double* wanted;  // percentages, then their results
    float* lines;          // percentiles, then slopes, one fewer
    Int count;             // values
    int ends, unused;      // percentages
};

extern "C" __global__ void __launch_bounds__(256, 3) sortable(const __grid_constant__ Job job) {
    for (Int n = blockIdx.x * THREADS + threadIdx.x; n < job.count; n += (Int)gridDim.x * THREADS) {
        const float value = job.values[n];
        job.keys[n] = fabsf(value) <= 3.402823466e38f ? place_of(value) : NOT_FINITE;
    }
}

// Linear between the nearest of the first `known` keys; without any, percentages go evenly from 0 to 1.
__device__ __forceinline__ double percentile(const Job& job, Int known, int end) {
    if (known == 0) return (double)end / (job.ends > 1 ? job.ends - 1 : 1);
    const double place = (known - 1) * (job.wanted[end] / 100);
    const Int first = (Int)place, next = first + 1 < known ? first + 1 : first;
    const double before = value_at(job.keys[first]);
    return before + (value_at(job.keys[next]) - before) * (place - first);
}

extern "C" __global__ void __launch_bounds__(256, 3) lines(const __grid_constant__ Job job) {
    Int known = 0;
    for (Int after = job.count; known < after;) {
        const Int middle = (known + after) / 2;
        if (job.keys[middle] == NOT_FINITE) after = middle;
        else known = middle + 1;
    }
    const double* const results = job.wanted + job.ends;
    for (int n = threadIdx.x; n < job.ends; n += THREADS) {
        const double own = percentile(job, known, n);
        job.lines[n] = (float)own;
        if (n + 1 == job.ends) continue;
        const double wide = percentile(job, known, n + 1) - own;
        job.lines[job.ends + n] = (float)((results[n + 1] - results[n]) / (wide > 1e-7 ? wide : 1e-7));
    }
}
