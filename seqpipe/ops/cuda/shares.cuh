// The distribution of columns over the threads of a block, and the number of taps read at once.

// n / d, for numbers of at most THREADS; `part` is 1 / d.
__device__ __forceinline__ int whole_quotient(int n, float part) { return (int)(((float)n + 0.5f) * part); }

// Gives each thread of a block a column of some rows, or several: `take(column, row, step)`, for that row and every one that
// is a step further. Where there are fewer columns than threads, some of them share the rows of one.
template <class Take> __device__ __forceinline__ void for_columns(int columns, Take take) {
#pragma unroll 1
    for (int first = 0; first < columns; first += THREADS) {
        int row = 0, step = 1, column = threadIdx.x;
        if (const int wide = columns - first; wide < THREADS) {
            const float part = reciprocal((float)wide).v;
            step = whole_quotient(THREADS, part), row = whole_quotient(column, part), column -= row * wide;
            if (row >= step) continue;
        }
        take(first + column, row, step);
    }
}

// A row that is so much further; where there is none, the same one again, so that no thread goes another way.
__device__ __forceinline__ int row_of(int row, int further, int rows) { return row + further < rows ? row + further : row; }

// So many taps, or some number where there are none; `for_taps` gives `take` as many at a time as TAPS_AT_ONCE, so that all of
// them are read before the first is added.
template <int N> struct Taps { static constexpr int COUNT = N; };
template <class Take> __device__ __forceinline__ void for_taps(Taps<0>, int taps, Take take) {
    int first = 0;
#pragma unroll 1
    for (; first + TAPS_AT_ONCE <= taps; first += TAPS_AT_ONCE) take(Taps<TAPS_AT_ONCE>(), first);
    const int rest = taps - first;
    if (rest == 3) take(Taps<3>(), first);
    if (rest == 2) take(Taps<2>(), first);
    if (rest == 1) take(Taps<1>(), first);
}
template <int N, class Take> __device__ __forceinline__ void for_taps(Taps<N> some, int, Take take) { take(some, 0); }

// Those that there are mostly are known when this is compiled.
template <class Make> __device__ __forceinline__ void by_taps(int taps, Make make) {
    if (taps == 2) return make(Taps<2>());
    if (taps == 3) return make(Taps<3>());
    if (taps == 4) return make(Taps<4>());
    make(Taps<0>());
}
