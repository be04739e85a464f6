// Products of one matrix of bytes with N others, accumulated in integers, by one warp. With line = lane / 4 and
// word = lane % 4, a thread holds of the left matrix (16 x 32) the word `word` of row `line`, in odd elements of row
// line + 8, and in elements 2 and 3 the word 4 further on; of each right matrix (32 x 8) the rows of word `word` of column
// `line`, and of the word 4 further on; of each sum (16 x 8) columns 2 * word and 2 * word + 1 of row `line`, and from
// element 2 of row line + 8. This is the fragment layout of mma.m16n8k32.
#ifdef __CUDACC__
template <int N>
__device__ __forceinline__ void multiply_bytes(unsigned (&sums)[N][4], const unsigned (&left)[4], const unsigned (&right)[N][2]) {
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
