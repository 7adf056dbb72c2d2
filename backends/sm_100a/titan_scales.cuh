// Primitives of sm_100a for products whose operands have a scale for each block along K.
//
// Emission writes this file behind titan_tcgen05.cuh where a kernel has such products. An atom of
// scales is that of 128 rows and four blocks: 32 x 16 bytes, in shared memory row by row, in tensor
// memory four columns in the lanes of each of the four warps. Of a pair of CTAs (`Ctas` is 2) the one
// thread of CTA 0 copies and multiplies for both, at the same places in each. Source: PTX ISA,
// tcgen05.cp (32x128b, warpx4), tcgen05.mma (block scaling, instruction descriptors of its kinds).

namespace titan {

struct ue8m0 { TITAN_CONSTANT int bytes = 1; };
struct e2m1x2 { TITAN_CONSTANT int bytes = 1; };  // two numbers

// The descriptor of scales: no swizzle, 8 rows of 16 bytes follow each other, and so do the next 8.
TITAN_DEVICE u64 scale_descriptor(const void* tile) {
  return (u64)((shared_address(tile) & 0x3ffffu) >> 4) | (u64)(16 >> 4) << 16 |
         (u64)(128 >> 4) << 32 | (u64)1 << 46;
}

// `Atoms` of scales to tensor memory, from `columns` on, every `Apart` columns. One thread executes
// it; products that the thread issues behind it read what it copies.
template <int Atoms, int Apart = 4, int Ctas = 1>
TITAN_DEVICE void tensor_copy_scales(u32 columns, u64 start) {
  TITAN_UNROLL
  for (int atom = 0; atom < Atoms; ++atom) {
    const u32 place = columns + Apart * atom;
    if constexpr (Ctas == 2) {
      asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;\n" ::"r"(place),
                   "l"(start + atom * (512 / 16))
                   : "memory");
    } else {
      asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;\n" ::"r"(place),
                   "l"(start + atom * (512 / 16))
                   : "memory");
    }
  }
}

// D (128 x N in tensor memory, 256 x N of a pair) = A * B [+ D where `accumulate`], K = 32 bytes of elements, both
// operands in shared memory and K-major, each element times the scale of its block: 32 numbers of 8
// bits, or 64 of 4 in blocks of 32 or 16. Scales are those of atoms from `of_a` and `of_b` on, in each
// atom from block `first` on. Each CTA of a pair has 128 rows of A and their scales, N / 2 rows of B,
// and the scales of all N. One thread executes it.
#define TITAN_SCALED_PRODUCT(GROUP, KIND)                                                      \
  asm volatile(                                                                                \
      "{\n .reg .pred p;\n setp.ne.b32 p, %6, 0;\n"                                            \
      " tcgen05.mma.cta_group::" GROUP ".kind::" KIND                                          \
      " [%0], %1, %2, %3, [%4], [%5], p;\n}\n" ::"r"(d),                                       \
      "l"(a), "l"(b), "r"(instruction), "r"(of_a), "r"(of_b), "r"(accumulate)                  \
      : "memory")
#define TITAN_SCALED_PRODUCT_OF(KIND)  \
  if constexpr (Ctas == 2) {           \
    TITAN_SCALED_PRODUCT("2", KIND);   \
  } else {                             \
    TITAN_SCALED_PRODUCT("1", KIND);   \
  }
template <class Type, class Scale, int N, int Ctas = 1>
TITAN_DEVICE void tensor_multiply_scaled(u32 d, u64 a, u64 b, u32 of_a, u32 of_b, int first,
                                         int accumulate) {
  static_assert(N % 16 == 0 && N >= 16 * Ctas && N <= 256, "columns of tcgen05.mma");
  constexpr bool pairs = same<Type, e2m1x2>::value;
  constexpr bool powers = same<Scale, ue8m0>::value;
  static_assert(powers || (pairs && same<Scale, e4m3>::value), "type of scales");
  static_assert(pairs || same<Type, e4m3>::value || same<Type, e5m2>::value, "element type");
  constexpr u32 type = pairs || same<Type, e5m2>::value ? 1 : 0;
  const u32 instruction = type << 7 | type << 10 | (u32)(N >> 3) << 17 | (powers ? 1u : 0u) << 23 |
                          (u32)Ctas << 27 | (u32)first << 4 | (u32)first << 29;
  if constexpr (!pairs) {
    TITAN_SCALED_PRODUCT_OF("mxf8f6f4.block_scale.scale_vec::1X")
  } else if constexpr (powers) {
    TITAN_SCALED_PRODUCT_OF("mxf4.block_scale.scale_vec::2X")
  } else {
    TITAN_SCALED_PRODUCT_OF("mxf4nvf4.block_scale.scale_vec::4X")
  }
}
#undef TITAN_SCALED_PRODUCT_OF
#undef TITAN_SCALED_PRODUCT

}  // namespace titan
