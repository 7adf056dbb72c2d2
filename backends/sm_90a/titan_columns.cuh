// Primitives of sm_90a for kernels that read a number for each column of a tile.
//
// Emission writes this file behind the others where a kernel does.

namespace titan {

// Elements `start` to `start + 4 Count` of row `outer` of `extent` elements: a lane's are two of each
// eight, the first of them `column0`, which is even. What lies outside becomes zero. One test, alike
// for all lanes, says whether all of them are there and pairs of them begin where a load may.
template <class Type, int Count>
TITAN_DEVICE void load_columns(float (&values)[Count], const void* base, long long outer,
                               bool inside, int extent, int start, int column0) {
  TITAN_CONSTANT int bytes = Type::bytes;
  const long long first = outer * extent + start;
  const u64 place = (u64)base + (u64)first * bytes;
  if (inside && start >= 0 && start <= extent - 4 * Count && place % (2 * bytes) == 0) {
    const u8* const own = (const u8*)place + column0 * bytes;
    TITAN_UNROLL
    for (int j = 0; j < Count; j += 2) {
      if constexpr (bytes == 4) {
        const u64 both = *(const u64*)(own + 4 * j * bytes);
        values[j] = bits_to_float((u32)both), values[j + 1] = bits_to_float((u32)(both >> 32));
      } else if constexpr (bytes == 2) {
        const u32 both = *(const u32*)(own + 4 * j * bytes);
        values[j] = unpack_pair<Type, 0>(both), values[j + 1] = unpack_pair<Type, 1>(both);
      } else {
        const u32 both = *(const u16*)(own + 4 * j * bytes);
        values[j] = unpack_pair<Type, 0>(both), values[j + 1] = unpack_pair<Type, 1>(both);
      }
    }
  } else {
    TITAN_UNROLL
    for (int j = 0; j < Count; ++j) {
      const int offset = column0 + 8 * (j / 2) + j % 2;
      const bool there = inside && (u32)(start + offset) < (u32)extent;
      values[j] = there ? load_global<Type>(base, first + offset) : 0.0f;
    }
  }
}

}  // namespace titan
