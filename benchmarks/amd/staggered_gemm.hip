// A GEMM in the manner of the ping-pong of Composable Kernel, c = a @ b.T: tiles of 128 x 128 x 32, two
// groups of four waves one barrier apart. While one group multiplies at high priority, the other one
// reads fragments and starts the copy of the tile after the next one; three stages of LDS.
#define DEVICE static __attribute__((device)) inline
#define BAR asm volatile("s_barrier" ::: "memory")
#define WAIT(text) asm volatile("s_waitcnt " text ::: "memory")
typedef float f16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef __attribute__((address_space(3))) char* lds_pointer;
enum { STAGES = 3, ROWS = 128, INNER = 32, HALF = ROWS * INNER * 2, STAGE = 2 * HALF };  // bytes
DEVICE int least(int one, int other) { return one < other ? one : other; }
DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int wave() { return __builtin_amdgcn_readfirstlane(tid() >> 6); }
#if defined(__gfx950__)
#define COPY "global_load_lds_dwordx4"
#define YOUNGEST "vmcnt(2)"
enum { LANE_BYTES = 16 };
#else
#define COPY "global_load_lds_dword"
#define YOUNGEST "vmcnt(8)"
enum { LANE_BYTES = 4 };
#endif
enum { STEP = 512 * LANE_BYTES, LANES_A_ROW = INNER * 2 / LANE_BYTES };
DEVICE void copy(const _Float16* from, int to) {
  asm volatile("s_mov_b32 m0, %1\n\ts_nop 0\n\t" COPY " %0, off" ::"v"(from), "s"(to) : "memory");
}
DEVICE void half_tile(const _Float16* from, int inner, int to) {
  int t = tid();
#pragma unroll
  for (int at = 0; at < HALF; at += STEP) {
    int row = t / LANES_A_ROW + at / (INNER * 2), part = t % LANES_A_ROW * (LANE_BYTES / 2);
    copy(from + row * inner + part, to + at + wave() * 64 * LANE_BYTES);
  }
}
DEVICE h4 fragment(const char* at, int row, int k) {
  return *(const h4*)(at + (row * INNER + k) * 2);
}
DEVICE f16x16 multiplied(h4 a, h4 b, f16x16 sum) {
  return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, sum, 0, 0, 0);
}

extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(512, 512)))
void k(const _Float16* a, const _Float16* b, float* c, int n, int inner) {
  static __attribute__((shared)) char stages[STAGES * STAGE];
  int w = wave(), lane = tid() & 63, across = n / ROWS;
  int row = __builtin_amdgcn_workgroup_id_x() / across * ROWS;
  int column = __builtin_amdgcn_workgroup_id_x() % across * ROWS;
  a += row * inner;
  b += column * inner;
  int trips = inner / INNER, base = (int)(unsigned long)(lds_pointer)stages;
  f16x16 sum[2] = {};
  for (int tile = 0; tile < 2; ++tile) {
    int from = least(tile, trips - 1) * INNER;
    half_tile(a + from, inner, base + tile * STAGE);
    half_tile(b + from, inner, base + tile * STAGE + HALF);
  }
  WAIT(YOUNGEST);  /* the first tile */
  BAR;             /* of all waves */
  if (w >= 4) BAR; /* behind */
  int now = 0, next = 2;
#pragma clang loop unroll(disable)
  for (int tile = 0; tile < trips; ++tile) {
    const char* at = stages + now * STAGE;
    int following = least(tile + 2, trips - 1) * INNER;  // past the end the last one again
    half_tile(a + following, inner, base + next * STAGE);
    half_tile(b + following, inner, base + next * STAGE + HALF);
    int first = (w & 1) * 64 + (lane & 31), other = (w >> 1) * 32 + (lane & 31);
    h4 of_a[2][INNER / 8], of_b[INNER / 8];
#pragma unroll
    for (int k = 0; k < INNER / 8; ++k) {
      of_b[k] = fragment(at + HALF, other, k * 8 + (lane >> 5) * 4);
      of_a[0][k] = fragment(at, first, k * 8 + (lane >> 5) * 4);
      of_a[1][k] = fragment(at, first + 32, k * 8 + (lane >> 5) * 4);
    }
    WAIT("lgkmcnt(0)"); /* fragments */
    WAIT(YOUNGEST); /* the next tile */
    BAR; /* in turn: multiply */
    __builtin_amdgcn_s_setprio(1);
#pragma unroll
    for (int k = 0; k < INNER / 8; ++k)
#pragma unroll
      for (int part = 0; part < 2; ++part)
        sum[part] = multiplied(of_a[part][k], of_b[k], sum[part]);
    __builtin_amdgcn_s_setprio(0);
    BAR; /* in turn: read */
    now = now == STAGES - 1 ? 0 : now + 1;
    next = next == STAGES - 1 ? 0 : next + 1;
  }
  if (w < 4) BAR; /* ahead */
  for (int part = 0; part < 2; ++part)
    for (int i = 0; i < 16; ++i) {
      int r = row + (w & 1) * 64 + part * 32 + i / 4 * 8 + (lane >> 5) * 4 + i % 4;
      c[r * n + column + (w >> 1) * 32 + (lane & 31)] = sum[part][i];
    }
}
