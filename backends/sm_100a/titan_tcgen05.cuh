// Primitives of sm_100a (Blackwell) beyond those of titan_device.cuh: tensor memory and tcgen05.
//
// Emission writes this file behind titan_device.cuh into one header. Tensor memory has 128 lanes
// (bits 31..16 of an address) and 512 columns of 32 bits (bits 15..0).
// Source: PTX ISA, tcgen05 (allocation, mma, commit, ld, memory consistency).

namespace titan {

// Columns of tensor memory for the CTA: a power of two from 32 to 512. The address of the first one
// goes to shared memory. The whole warp executes it.
template <int Columns>
TITAN_DEVICE void tensor_memory_allocate(u32* address) {
  static_assert(Columns >= 32 && Columns <= 512 && (Columns & (Columns - 1)) == 0, "columns");
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n" ::"r"(
                   shared_address(address)),
               "n"(Columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n");
}

// The same warp gives them back before the CTA ends.
template <int Columns>
TITAN_DEVICE void tensor_memory_free(u32 address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\n" ::"r"(address),
               "n"(Columns));
}

// Order tcgen05 operations before, or behind, a synchronisation of threads.
TITAN_DEVICE void tensor_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;\n" ::: "memory");
}
TITAN_DEVICE void tensor_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;\n" ::: "memory");
}

// The descriptor of a K-major matrix with swizzle in shared memory; the fields of
// `shared_descriptor`, the version 1 in bits 46..48 and the mode in bits 61..63.
template <int Swizzle>
TITAN_DEVICE u64 tensor_descriptor(const void* start, u32 leading_bytes, u32 stride_bytes) {
  static_assert(Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "swizzle of a descriptor");
  const u64 mode = Swizzle == 128 ? 2 : Swizzle == 64 ? 4 : 6;
  return (u64)((shared_address(start) & 0x3ffffu) >> 4) | (u64)(leading_bytes >> 4) << 16 |
         (u64)(stride_bytes >> 4) << 32 | (u64)1 << 46 | mode << 61;
}

// What tcgen05.mma is to do: float accumulators, M = 128 rows, N columns.
// PTX: instruction descriptor of kind::f16 and kind::f8f6f4.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE u32 tensor_instruction() {
  static_assert(N % 16 == 0 && N >= 16 && N <= 256, "columns of tcgen05.mma with 128 rows");
  constexpr bool wide = same<Type, f16>::value || same<Type, bf16>::value;
  static_assert(wide || same<Type, e4m3>::value || same<Type, e5m2>::value, "element type");
  constexpr u32 type = same<Type, bf16>::value || same<Type, e5m2>::value ? 1 : 0;
  return 1u << 4 | type << 7 | type << 10 | (TransposeB ? 1u : 0u) << 16 | (u32)(N >> 3) << 17 |
         (u32)(128 >> 4) << 24;
}

// D (128 x N in tensor memory) = A * B [+ D where `accumulate`], K = 32 bytes of elements, both
// operands in shared memory. One thread executes it; it runs on its own.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void tensor_multiply(u32 d, u64 a, u64 b, int accumulate) {
  const u32 instruction = tensor_instruction<Type, N, TransposeB>();
  if constexpr (same<Type, f16>::value || same<Type, bf16>::value) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  } else {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  }
}

// An arrival at the barrier once all that the thread has multiplied so far is done.
TITAN_DEVICE void tensor_commit(u64* barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\n" ::"r"(
          shared_address(barrier))
      : "memory");
}

// 16 rows of an accumulator of `Columns` columns, in the order of a fragment of wgmma: lane l of the
// warp gets rows l / 4 and l / 4 + 8, of every 8 columns those from 2 (l % 4) on. `address` names the
// first of the rows, which lie in the 32 lanes of the warp. The whole warp executes it;
// `tensor_load_wait` makes it known. PTX: tcgen05.ld.16x256b.
template <int Columns>
TITAN_DEVICE void tensor_memory_fetch(float (&values)[Columns / 2], u32 address) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  TITAN_UNROLL
  for (int c = 0; c < Columns; c += 16) {
    u32 r[8];
    asm volatile(
        "tcgen05.ld.sync.aligned.16x256b.x2.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\n"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
          "=r"(r[7])
        : "r"(address + c)
        : "memory");
    TITAN_UNROLL
    for (int i = 0; i < 8; ++i) values[c / 2 + i] = __uint_as_float(r[i]);
  }
}

// 32 columns of the 32 lanes of the warp: lane l of the warp gets row 32 * (warp of its warpgroup)
// + l, `values[j]` is column j. The whole warp executes it; `tensor_load_wait` makes it known.
TITAN_DEVICE void tensor_memory_load(u32 address, float* values) {
  u32 r[32];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
        "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]),
        "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]),
        "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]),
        "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
      : "r"(address)
      : "memory");
  TITAN_UNROLL
  for (int j = 0; j < 32; ++j) values[j] = __uint_as_float(r[j]);
}

TITAN_DEVICE void tensor_load_wait() {
  asm volatile("tcgen05.wait::ld.sync.aligned;\n" ::: "memory");
}

}  // namespace titan
