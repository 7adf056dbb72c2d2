// Warps 0 and 1 fill two stages, warps 2 and 3 read them: bars 1 and 2 are full, 3 and 4 empty.
// FAULT: 1 no wait for an empty stage, 2 one full bar for both, 3 half of the threads, 4 no wait for
// a full stage.
#ifndef FAULT
#define FAULT 0
#endif
extern "C" __global__ void __launch_bounds__(128) named(const float* a, float* out, int n) {
  __shared__ float s[2][64];
  int t = threadIdx.x & 63;
  if (threadIdx.x < 64) {
    for (int i = 0; i < n; i++) {
      int b = i & 1;
#if FAULT != 1
      if (i >= 2) asm volatile("bar.sync %0, 128;" ::"r"(3 + b) : "memory");
#endif
      s[b][t] = a[i * 64 + t];
      asm volatile("bar.arrive %0, %1;" ::"r"(FAULT == 2 ? 1 : 1 + b), "r"(FAULT == 3 ? 64 : 128) : "memory");
    }
  } else {
    float sum = 0;
    for (int i = 0; i < n; i++) {
      int b = i & 1;
#if FAULT != 4
      asm volatile("bar.sync %0, 128;" ::"r"(1 + b) : "memory");
#endif
      sum += s[b][63 - t];
      if (i + 2 < n) asm volatile("bar.arrive %0, 128;" ::"r"(3 + b) : "memory");
    }
    out[t] = sum;
  }
}
