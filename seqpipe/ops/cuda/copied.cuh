// Copies a word into shared memory asynchronously; it may be used after `wait_for_copies`.
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(unsigned* to, Address from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
__device__ __forceinline__ void copy_async(unsigned* to, Address from) { *to = __ldg((const unsigned*)from); }
__device__ __forceinline__ void wait_for_copies() {}
#endif
