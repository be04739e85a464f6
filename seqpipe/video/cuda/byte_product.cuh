// Products of a matrix of bytes with N others, each added to whole numbers of its own. A warp makes them, and of each matrix
// a thread has words of four bytes: with line = lane / 4 and word = lane % 4, of 16 by 32, line `line` or 8 below it for odd
// numbers, word `word`, or 4 beyond it from number 2 on; of 32 by 8, as the right ones, of column `line` the bytes of lines
// that make up word `word`, or the one 4 beyond it. Of the whole numbers, 16 by 8, line `line` or from number 2 on 8 below,
// columns 2 * word and the next one.
#ifdef __CUDACC__
template <int N>
__device__ __forceinline__ void product(unsigned (&sums)[N][4], const unsigned (&left)[4], const unsigned (&right)[N][2]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
#if __CUDA_ARCH__ >= 800
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(sums[i][0]), "+r"(sums[i][1]), "+r"(sums[i][2]), "+r"(sums[i][3])
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[i][0]), "r"(right[i][1]));
#else
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                : "+r"(sums[i][k % 2 * 2]), "+r"(sums[i][k % 2 * 2 + 1])
                : "r"(left[k]), "r"(right[i][k / 2]));
#endif
    }
}
#endif
