// Primitives of sm_100a for a pair of CTAs that multiply together (cta_group::2).
//
// Emission writes this file behind titan_tcgen05.cuh where a kernel has such pairs. CTA 0 of the
// cluster issues products for both; all tcgen05 instructions of the kernel then work in pairs.
// Source: PTX ISA, tcgen05 (cta_group), cp.async.bulk.tensor (cta_group), mapa.

namespace titan {

// `barrier_arrive_remote_relaxed` at a barrier whose address in the cluster is known (mapa).
TITAN_DEVICE void barrier_arrive_mapped_relaxed(u32 address) {
  disturb(19);
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(address)
               : "memory");
  disturb(20);
}

// Columns of tensor memory for both CTAs, the same in each. One whole warp of each executes it, and
// waits for the other.
template <int Columns>
TITAN_DEVICE void tensor_memory_allocate_together(u32* address) {
  static_assert(Columns >= 32 && Columns <= 512 && (Columns & (Columns - 1)) == 0, "columns");
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;\n" ::"r"(
                   shared_address(address)),
               "n"(Columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n");
}

// The same warps give them back when neither CTA uses them any more.
template <int Columns>
TITAN_DEVICE void tensor_memory_free_together(u32 address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;\n" ::"r"(address),
               "n"(Columns));
}

// D (256 x N, 128 rows in the tensor memory of each CTA) = A * B [+ D where `accumulate`], K = 32
// bytes of elements. Each CTA has 128 rows of A and N / 2 columns of B at the places that the
// descriptors name. One thread of CTA 0 executes it; it runs on its own.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void tensor_multiply_together(u32 d, u64 a, u64 b, int accumulate) {
  static_assert(N % 16 == 0 && N >= 32, "columns of tcgen05.mma with 256 rows");
  // M in units of 16 from bit 24 on: 256 rows instead of 128
  const u32 instruction = tensor_instruction<Type, N, TransposeB>() + ((u32)(128 >> 4) << 24);
  if constexpr (same<Type, f16>::value || same<Type, bf16>::value) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  } else {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  }
}

// The same with A in tensor memory, at the same place in each CTA: lane = row, two elements of 16 bits
// in a column, so that K = 16 are 8 columns from `a` on.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void tensor_multiply_pairs_together(u32 d, u32 a, u64 b, int accumulate) {
  static_assert(same<Type, f16>::value || same<Type, bf16>::value, "pairs of 16 bits");
  static_assert(N % 16 == 0 && N >= 32, "columns of tcgen05.mma with 256 rows");
  const u32 instruction = tensor_instruction<Type, N, TransposeB>() + ((u32)(128 >> 4) << 24);
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
      " tcgen05.mma.cta_group::2.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(d),
      "r"(a), "l"(b), "r"(instruction), "r"(accumulate)
      : "memory");
}

// An arrival at the barrier at the same place of every CTA whose bit is in `mask`, once all that the
// thread has multiplied so far is done.
TITAN_DEVICE void tensor_commit_everywhere(u64* barrier, u32 mask) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%0], %1;\n" ::"r"(shared_address(barrier)),
      "h"((u16)mask)
      : "memory");
}

// A box of the tensor into shared memory of this CTA; its bytes come off the barrier that lies at
// the same place in CTA 0.
#define TITAN_LED_LOAD(RANK, PARAMETERS, COORDINATES, ...)                                       \
  TITAN_DEVICE void tensor_load_led(void* destination, const TensorMap* map, u64* barrier,       \
                                    PARAMETERS) {                                                \
    disturb(21);                                                                                 \
    asm volatile("cp.async.bulk.tensor." RANK                                                    \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], " \
                 "[%1, {" COORDINATES "}], [%2];\n" ::"r"(shared_address(destination)),          \
                 "l"((u64)map), "r"(map_shared(barrier, 0)), __VA_ARGS__                         \
                 : "memory");                                                                    \
    disturb(22);                                                                                 \
  }
#define TITAN_LIST(...) __VA_ARGS__
TITAN_LED_LOAD("2d", TITAN_LIST(int c0, int c1), "%3, %4", "r"(c0), "r"(c1))
TITAN_LED_LOAD("3d", TITAN_LIST(int c0, int c1, int c2), "%3, %4, %5", "r"(c0), "r"(c1), "r"(c2))
TITAN_LED_LOAD("4d", TITAN_LIST(int c0, int c1, int c2, int c3), "%3, %4, %5, %6", "r"(c0),
               "r"(c1), "r"(c2), "r"(c3))
#undef TITAN_LIST
#undef TITAN_LED_LOAD

}  // namespace titan
