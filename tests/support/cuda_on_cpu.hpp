// What a kernel of seqpipe needs of CUDA, for a C++ compiler: blocks run one after the other, the threads of a block
// take turns and change where they wait for others, each with a stack of its own. A thread is begun once for all blocks,
// and changed to by _longjmp: swapcontext asks the system for the signals that are blocked, at ten times the cost.
// C's headers as they are: what C++ puts around them takes longer to read than a kernel to compile
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads, blocks)

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, gridDim;
static const int MOST_THREADS = 256, STACK = 65536;
static jmp_buf host, contexts[MOST_THREADS];
static char stacks[MOST_THREADS][STACK] __attribute__((aligned(64)));
static bool begun[MOST_THREADS], running[MOST_THREADS];

// how many threads go on to run, how many of them wait for each other, and how often they have done so
static int alive, waiting, met;
static void meet() {
    if (waiting == alive) waiting = 0, met++;
}
static void __syncwarp() {
    if (!_setjmp(contexts[threadIdx.x])) _longjmp(host, 1);
}
static void __syncthreads() {
    const int before = met;
    waiting++;
    meet();
    do __syncwarp();
    while (met == before);
}

// the threads of `mask` come here in the same turn, one after the other, and go on in the next
static inline unsigned __shfl_down_sync(unsigned mask, unsigned value, unsigned delta, int width) {
    static unsigned given[MOST_THREADS], times[MOST_THREADS];
    const unsigned thread = threadIdx.x, from = thread % width + delta < (unsigned)width ? thread + delta : thread;
    if (!(mask >> thread % 32 & 1) || !(mask >> from % 32 & 1)) abort();
    given[thread] = value, times[thread]++;
    __syncwarp();
    for (unsigned lane = 0; lane < 32; lane++)  // a GPU waits for all of them
        if (mask >> lane & 1 && times[thread / 32 * 32 + lane] != times[thread]) abort();
    const unsigned taken = given[from];
    __syncwarp();
    return taken;
}

// blocks and threads take turns, so nothing comes in between
static inline unsigned atomicAdd(unsigned* at, unsigned value) {
    const unsigned before = *at;
    *at += value;
    return before;
}
static inline void atomicAdd(unsigned long long* at, unsigned long long value) { *at += value; }
static inline void atomicAdd(double* at, double value) { *at += value; }
static inline void atomicMax(unsigned* at, unsigned value) { *at = *at > value ? *at : value; }
static inline void __threadfence() {}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned found = 0;
    for (int k = 0; k < 4; k++) found |= (unsigned)(both >> 8 * (selector >> 4 * k & 7) & 255) << 8 * k;
    return found;
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int k = 0; k < 32; k += 8) sum += (a >> k & 255) * (b >> k & 255);
    return sum;
}

// a GPU reads nothing that is not aligned
template <class T> static inline T __ldg(const T* at) {
    if ((size_t)at % sizeof(T)) abort();
    return *at;
}

// products of two halves with the lower, or the upper, bytes
static inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned sum) {
    return sum + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}
static inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned sum) { return __dp2a_lo(a, b >> 16, sum); }

static inline unsigned __vminu2(unsigned a, unsigned b) {
    const unsigned low = (a & 0xffff) < (b & 0xffff) ? a : b, high = a >> 16 < b >> 16 ? a : b;
    return (high & 0xffff0000u) | (low & 0xffff);
}
static inline unsigned __vmaxu2(unsigned a, unsigned b) {
    const unsigned low = (a & 0xffff) < (b & 0xffff) ? b : a, high = a >> 16 < b >> 16 ? b : a;
    return (high & 0xffff0000u) | (low & 0xffff);
}

static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float value) { return value > 0 ? value < 1 ? value : 1 : 0; }
static inline int __ffs(int word) { return __builtin_ffs(word); }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline int __float2int_rn(float value) { return (int)nearbyintf(value); }
static inline unsigned short half_bits(float value) {
    _Float16 half = (_Float16)value;
    unsigned short bits;
    memcpy(&bits, &half, 2);
    return bits;
}
static inline float half_value(unsigned short bits) {
    _Float16 half;
    memcpy(&half, &bits, 2);
    return (float)half;
}

// products of matrices of halves, as product.cuh says which thread has what
template <int WORDS>
static inline void product(float (&to)[4], const unsigned (&left)[WORDS], const unsigned (&right)[WORDS / 2],
                           const float (&from)[4]) {
    static unsigned lefts[MOST_THREADS][WORDS], rights[MOST_THREADS][WORDS / 2];
    const unsigned thread = threadIdx.x, first = thread / 32 * 32;
    memcpy(lefts[thread], left, sizeof left), memcpy(rights[thread], right, sizeof right);
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        float sum = from[i];
        for (int k = 0; k < 4 * WORDS; k++) {
            const unsigned of_line = first + thread % 32 / 4 * 4 + k % 8 / 2;
            const unsigned of_column = first + (thread % 4 * 2 + i % 2) * 4 + k % 8 / 2;
            const float a = half_value(lefts[of_line][i / 2 + k / 8 * 2] >> k % 2 * 16);
            sum += a * half_value(rights[of_column][k / 8] >> k % 2 * 16);
        }
        to[i] = sum;
    }
    __syncwarp();
}

// products of matrices of bytes, as byte_product.cuh says which thread has what; what is given stays there for one more
// call, which threads that are behind do not need
template <int N>
static inline void multiply_bytes(unsigned (&sums)[N][4], const unsigned (&left)[4], const unsigned (&right)[N][2]) {
    static unsigned lefts[2][MOST_THREADS][4], rights[2][MOST_THREADS][N][2], times[MOST_THREADS];
    const unsigned thread = threadIdx.x, first = thread / 32 * 32, turn = times[thread]++ % 2;
    memcpy(lefts[turn][thread], left, sizeof left), memcpy(rights[turn][thread], right, sizeof right);
    __syncwarp();
    for (int i = 0; i < 4; i++)
        for (int word = 0; word < 8; word++) {
            const unsigned of_line = first + thread % 32 / 4 * 4 + word % 4;
            const unsigned of_column = first + (thread % 4 * 2 + i % 2) * 4 + word % 4;
            const unsigned bytes = lefts[turn][of_line][i / 2 + word / 4 * 2];
            for (int k = 0; k < N; k++) sums[k][i] = __dp4a(bytes, rights[turn][of_column][k][word / 4], sums[k][i]);
        }
}

static void (*body)();
static void live() {
    for (;;) {
        body();
        running[threadIdx.x] = false;
        alive--;
        meet();
        __syncwarp();
    }
}

static void take_turn(int thread) {
    threadIdx.x = thread;
    if (_setjmp(host)) return;
    if (begun[thread]) _longjmp(contexts[thread], 1);
    begun[thread] = true;
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[thread];
    context.uc_stack.ss_size = STACK;
    context.uc_link = 0;
    makecontext(&context, live, 0);
    setcontext(&context);
}

static void run_block(int threads) {
    alive = threads, waiting = 0;
    for (int i = 0; i < threads; i++) running[i] = true;
    while (alive)
        for (int i = 0; i < threads; i++)
            if (running[i]) take_turn(i);
}

static void run_grid(const int* grid, int threads, void (*kernel)()) {
    body = kernel;
    gridDim = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
    for (unsigned z = 0; z < (unsigned)grid[2]; z++)
        for (unsigned y = 0; y < (unsigned)grid[1]; y++)
            for (unsigned x = 0; x < (unsigned)grid[0]; x++) {
                blockIdx = {x, y, z};
                run_block(threads);
            }
}
