// A scan of a row by decoupled look-back: each block publishes its sum, then adds up those before it
// until it meets a prefix.
enum { NOTHING, SUM, PREFIX };
extern "C" __global__ void __launch_bounds__(128) look_back(const int* in, int* out, volatile unsigned long long* state) {
  __shared__ int sums[4], before;
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  int v = in[blockIdx.x * 128 + t];
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  int own = 0, whole = 0;
  for (int w = 0; w < 4; w++) {
    if (w < warp) own += sums[w];
    whole += sums[w];
  }
  if (t == 0) {
    int prefix = 0;
    if (blockIdx.x == 0) {
      state[0] = ((unsigned long long)PREFIX << 32) | (unsigned)whole;
    } else {
      state[blockIdx.x] = ((unsigned long long)SUM << 32) | (unsigned)whole;
      for (int b = blockIdx.x - 1; b >= 0; b--) {
        unsigned long long found;
        do found = state[b]; while (found >> 32 == NOTHING);
        prefix += (int)found;
        if (found >> 32 == PREFIX) break;
      }
      state[blockIdx.x] = ((unsigned long long)PREFIX << 32) | (unsigned)(prefix + whole);
    }
    before = prefix;
  }
  __syncthreads();
  out[blockIdx.x * 128 + t] = before + own + v;
}
