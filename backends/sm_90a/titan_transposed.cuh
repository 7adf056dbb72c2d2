// Primitives of sm_90a for kernels that write fragments transposed.
//
// Emission writes this file behind the others where a kernel does. Source: PTX ISA, stmatrix.

namespace titan {

// As store_matrices, each of the four matrices of 8 x 8 numbers of 16 bits transposed: a lane says
// where its column goes.
TITAN_DEVICE void store_matrices_transposed(void* destination, u32 a, u32 b, u32 c, u32 d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(
          shared_address(destination)),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

}  // namespace titan
