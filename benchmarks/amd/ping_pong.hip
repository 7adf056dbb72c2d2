// Two groups of four waves alternate: while one multiplies, the other one loads its fragments. The
// second group is one barrier behind. The stages are two; each wave copies 512 bytes to one.
#define DEVICE static __attribute__((device)) inline
#define BAR asm volatile("s_barrier" ::: "memory")
#define WAIT(text) asm volatile("s_waitcnt " text ::: "memory")
typedef __attribute__((address_space(3))) void* lds_pointer;
typedef __attribute__((address_space(1))) void* global_pointer;
DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int wave() { return __builtin_amdgcn_readfirstlane(tid() >> 6); }
DEVICE void copy(float* from, float* to) {
  __builtin_amdgcn_global_load_lds((global_pointer)from, (lds_pointer)to, 4, 0, 0);
}

typedef float f4 __attribute__((ext_vector_type(4)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(512, 512)))
void k(float* p, int trips) {
  static __attribute__((shared)) float stage[2][1024];
  int t = tid(), w = wave(), lane = t & 63;
  f4 sum = {0, 0, 0, 0};
  copy(p + t, &stage[0][w * 64]);
  copy(p + 512 + t, &stage[0][512 + w * 64]);
  WAIT("vmcnt(0)");
  BAR;
  if (w >= 4) BAR; /* behind */
#pragma clang loop unroll(disable)
  for (int trip = 0; trip < trips; ++trip) {
    const float* now = stage[trip & 1];
    float* next = stage[(trip + 1) & 1];
    float* from = p + (trip + 1) * 1024;
    h4 a = *(const h4*)&now[(lane * 2 + w * 128) & 1023];
    h4 b = *(const h4*)&now[(lane * 2 + (w ^ 4) * 128) & 1023];
    WAIT("lgkmcnt(0)"); /* fragments */
    BAR;                /* fragments are loaded */
    __builtin_amdgcn_s_setprio(1);
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0);
    __builtin_amdgcn_s_setprio(0);
    BAR; /* in turn */
    copy(from + t, next + w * 64);
    copy(from + 512 + t, next + 512 + w * 64);
    WAIT("vmcnt(0)"); /* copies */
    BAR;              /* copies are done */
    BAR;              /* of both groups */
  }
  if (w < 4) BAR; /* ahead */
  for (int i = 0; i < 4; ++i) p[1 << 20 | t * 4 + i] = sum[i];
}
