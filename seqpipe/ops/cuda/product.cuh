// Products of matrices of halves, added to floats. A warp makes them, and of each matrix a thread has pairs of halves: with
// line = lane / 4 and pair = lane % 4, of 16 by 16, line `line` or 8 below it for odd numbers, columns 2 * pair and the next
// one, or 8 beyond those from number 2 on; of 16 by 8, as the right one, column `line`, lines 2 * pair and the next one, or 8
// below. Of the floats, 16 by 8, line `line` or from number 2 on 8 below, columns 2 * pair and the next one. Of half as many
// columns on the left, and lines on the right, it has half as many.
//
// The summation order of such a product is undefined; it does not matter where no sum is rounded.
#ifdef __CUDACC__
__device__ __forceinline__ void product(float (&to)[4], const unsigned (&left)[2], const unsigned (&right)[1],
                                        const float (&from)[4]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(left[0]), "r"(left[1]), "r"(right[0]), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]));
}
__device__ __forceinline__ void product(float (&to)[4], const unsigned (&left)[4], const unsigned (&right)[2],
                                        const float (&from)[4]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%10,%11,%12,%13};"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]), "f"(from[0]),
                   "f"(from[1]), "f"(from[2]), "f"(from[3]));
#else
    product(to, {left[0], left[1]}, {right[0]}, from);
    product(to, {left[2], left[3]}, {right[1]}, to);
#endif
}
#endif

__device__ __forceinline__ unsigned halves_of(Real first, Real second) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second.v), "f"(first.v));
    return both;
#else
    return half_bits(first.v) | (unsigned)half_bits(second.v) << 16;
#endif
}
