// Sum over the threads of a block, returned to all of them.
template <class T> __device__ T of_block(T own) {
    __shared__ T parts[THREADS];
    parts[threadIdx.x] = own;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    __syncthreads();
    const T sum = parts[0];
    __syncthreads();
    return sum;
}
