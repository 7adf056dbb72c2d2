// Primitives of sm_90a for kernels that add to what a tensor holds.
//
// Emission writes this file behind the others where a kernel does. Source: PTX ISA,
// cp.reduce.async.bulk.tensor.

namespace titan {

// Adds a box of f32 in shared memory to the tensor, each element at once with those that other CTAs
// add to it, in any order; what lies outside is left out. One bulk group takes up all of this thread
// until `bulk_commit`.
#define TITAN_PLAIN(...) __VA_ARGS__
#define TITAN_TENSOR_ADD(RANK, PARAMETERS, VALUES, AT)                                           \
  TITAN_DEVICE void tensor_add(const TensorMap* map, const void* source,                         \
                               TITAN_PLAIN PARAMETERS) {                                         \
    disturb(25);                                                                                 \
    asm volatile("cp.reduce.async.bulk.tensor." RANK ".global.shared::cta.add.tile.bulk_group "  \
                 "[%1, {" AT "}], [%0];\n" ::"r"(shared_address(source)),                        \
                 "l"((u64)map), TITAN_PLAIN VALUES                                               \
                 : "memory");                                                                    \
    disturb(26);                                                                                 \
  }
TITAN_TENSOR_ADD("2d", (int c0, int c1), ("r"(c0), "r"(c1)), "%2, %3")
TITAN_TENSOR_ADD("3d", (int c0, int c1, int c2), ("r"(c0), "r"(c1), "r"(c2)), "%2, %3, %4")
TITAN_TENSOR_ADD("4d", (int c0, int c1, int c2, int c3), ("r"(c0), "r"(c1), "r"(c2), "r"(c3)),
                 "%2, %3, %4, %5")
#undef TITAN_PLAIN
#undef TITAN_TENSOR_ADD

}  // namespace titan
