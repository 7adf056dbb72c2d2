// Sums under a lock. FAULT leaves something out.
__device__ int lock;
__device__ int begun;

__device__ void take(int *at) {
#if FORM == 1
    while (atomicExch(at, 1) != 0) {
    }
#elif FORM == 2
    while (true) {
        while (*(volatile int *)at != 0) {
        }
        if (atomicCAS(at, 0, 1) == 0) break;
    }
#elif FORM == 3
    unsigned ns = 8;
    while (atomicCAS(at, 0, 1) != 0) {
        __nanosleep(ns);
        if (ns < 256) ns *= 2;
    }
#else
    while (atomicCAS(at, 0, 1) != 0) {
    }
#endif
#if FAULT != 1
    __threadfence();
#endif
}

__device__ void give(int *at) {
#if FAULT != 2
    __threadfence();
#endif
#if FORM == 1
    atomicExch(at, 0);
#elif FORM == 2
    *(volatile int *)at = 0;
#else
    atomicExch(at, 0);
#endif
}

extern "C" __global__ void locks(float *sums, const float *parts) {
    float part = parts[blockIdx.x * blockDim.x + threadIdx.x];
    if (threadIdx.x == 0) take(&lock);
#if FAULT != 3
    __syncthreads();
#endif
#if FLAG
    if (begun) part += sums[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) begun = 1;
#else
    part += sums[threadIdx.x];
#endif
    sums[threadIdx.x] = part;
#if FAULT != 4
    __syncthreads();
#endif
    if (threadIdx.x == 0) give(&lock);
}
