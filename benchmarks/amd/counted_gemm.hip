// A GEMM in the manner of hipBLASLt, c = a @ b.T: eight waves, tiles of 128 x 128 x 32, one barrier a
// tile. On gfx950 copies go to LDS two stages ahead, and a counted wait leaves the youngest stage in
// flight; on gfx942 they go through registers into the other one of two stages.
#define DEVICE static __attribute__((device)) inline
#define BAR asm volatile("s_barrier" ::: "memory")
#define WAIT(text) asm volatile("s_waitcnt " text ::: "memory")
typedef float f16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef __attribute__((address_space(3))) char* lds_pointer;
typedef const __attribute__((address_space(1))) i4* global_pointer;
#if defined(__gfx950__)
enum { STAGES = 3 };
DEVICE void copy(const _Float16* from, int to) {
  asm volatile("s_mov_b32 m0, %1\n\ts_nop 0\n\tglobal_load_lds_dwordx4 %0, off"
               ::"v"(from), "s"(to) : "memory");
}
#else
enum { STAGES = 2 };
#endif
enum { ROWS = 128, INNER = 32, HALF = ROWS * INNER * 2, STAGE = 2 * HALF };  // bytes
DEVICE int least(int one, int other) { return one < other ? one : other; }
DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int wave() { return __builtin_amdgcn_readfirstlane(tid() >> 6); }
DEVICE h4 fragment(const char* at, int row, int k) {
  return *(const h4*)(at + (row * INNER + k) * 2);
}

extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(512, 512)))
void k(const _Float16* a, const _Float16* b, float* c, int n, int inner) {
  static __attribute__((shared)) char stages[STAGES * STAGE];
  int t = tid(), w = wave(), lane = t & 63, across = n / ROWS;
  int row = __builtin_amdgcn_workgroup_id_x() / across * ROWS;
  int column = __builtin_amdgcn_workgroup_id_x() % across * ROWS;
  a += (row + t / 4) * inner + t % 4 * 8;  // 16 bytes a thread are a tile
  b += (column + t / 4) * inner + t % 4 * 8;
  int trips = inner / INNER;
  f16x16 sum[2] = {};
#if defined(__gfx950__)
  int base = (int)(unsigned long)(lds_pointer)stages;
#define LOAD(stage, tile)                                    \
  {                                                          \
    int to = base + (stage) * STAGE + w * 1024;              \
    copy(a + (tile) * INNER, to);                            \
    copy(b + (tile) * INNER, to + HALF);                     \
  }
  LOAD(0, 0)
  LOAD(1, least(1, trips - 1))
#else
  *(i4*)(stages + t * 16) = *(global_pointer)a;
  *(i4*)(stages + HALF + t * 16) = *(global_pointer)b;
  WAIT("lgkmcnt(0)"); /* the first stage */
  BAR;                /* of all waves */
#endif
  int now = 0, next = STAGES - 1;
#pragma clang loop unroll(disable)
  for (int tile = 0; tile < trips; ++tile) {
#if defined(__gfx950__)
    WAIT("vmcnt(2)"); /* all but the youngest stage */
    BAR;              /* everybody has it, and has read the one before */
    LOAD(next, least(tile + 2, trips - 1))  // past the end the last one again
#else
    int following = least(tile + 1, trips - 1) * INNER;  // past the end the last one again
    i4 left = *(global_pointer)(a + following);
    i4 right = *(global_pointer)(b + following);
#endif
    const char* at = stages + now * STAGE;
    int first = (w & 1) * 64 + (lane & 31), other = (w >> 1) * 32 + (lane & 31);
#pragma unroll
    for (int k = 0; k < INNER; k += 8) {
      h4 of_b = fragment(at + HALF, other, k + (lane >> 5) * 4);
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        h4 of_a = fragment(at, first + part * 32, k + (lane >> 5) * 4);
        sum[part] = __builtin_amdgcn_mfma_f32_32x32x8f16(of_a, of_b, sum[part], 0, 0, 0);
      }
    }
#if !defined(__gfx950__)
    *(i4*)(stages + next * STAGE + t * 16) = left;
    *(i4*)(stages + next * STAGE + HALF + t * 16) = right;
    WAIT("lgkmcnt(0)"); /* the next stage */
    BAR;                /* of all waves */
#endif
    now = now == STAGES - 1 ? 0 : now + 1;
    next = next == STAGES - 1 ? 0 : next + 1;
  }
  for (int part = 0; part < 2; ++part)
    for (int i = 0; i < 16; ++i) {
      int r = row + (w & 1) * 64 + part * 32 + i / 4 * 8 + (lane >> 5) * 4 + i % 4;
      c[r * n + column + (w >> 1) * 32 + (lane & 31)] = sum[part][i];
    }
}
