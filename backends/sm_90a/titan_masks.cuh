// Primitives of sm_90a for kernels that mask fragments, where each row keeps a range of columns.
//
// Emission writes this file behind the others where a kernel does.

namespace titan {

// A lane has two columns of each eight of a row, neighbours, the first of all at an even one: how
// many of them lie below column `end`, which counts from that first one.
TITAN_DEVICE int elements_below(int end) {
  const int whole = larger(end, 0);
  return whole / 8 * 2 + smaller(whole % 8, 2);
}

// A bit for each of these, set from column `begin` up to `end`; `begin` of 0 or less keeps all of
// them. PTX: shl and shr, which give 0 for 32 and more. Bits become predicates seven at a time where
// those of one word stand together in the text.
template <int Words>
TITAN_DEVICE void elements_kept(u32 (&kept)[Words], int begin, int end) {
  const int first = elements_below(begin), last = elements_below(end);
  TITAN_UNROLL
  for (int i = 0; i < Words; ++i) {
    u32 from, below;
    asm("shl.b32 %0, %1, %2;\n" : "=r"(from) : "r"(0xffffffffu), "r"(larger(first - 32 * i, 0)));
    asm("shr.u32 %0, %1, %2;\n" : "=r"(below) : "r"(0xffffffffu), "r"(larger(32 * i + 32 - last, 0)));
    kept[i] = from & below;
  }
}
template <int Words>
TITAN_DEVICE bool element_kept(const u32 (&kept)[Words], int element) {
  return (kept[element / 32] >> element % 32 & 1) != 0;
}

}  // namespace titan
