// The names of the device header of sm_100a beyond those of sm_90a, with their meaning on a CPU;
// titan_device.cuh includes this file. Written from the PTX ISA, not from the device header.
#pragma once

namespace titan {

template <int Columns>
inline void tensor_memory_allocate(u32 *address, TITAN_LINE) {
  emulation::tensor_allocate(address, Columns, line);
}
template <int Columns>
inline void tensor_memory_free(u32 address, TITAN_LINE) {
  emulation::tensor_free(address, Columns, line);
}
inline void tensor_fence_before(TITAN_LINE) { emulation::tensor_fence(false, line); }
inline void tensor_fence_after(TITAN_LINE) { emulation::tensor_fence(true, line); }

template <int Swizzle>
inline u64 tensor_descriptor(const void *start, u32 leading_bytes, u32 stride_bytes) {
  static_assert(Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "swizzle of a descriptor");
  const u64 mode = Swizzle == 128 ? 2 : Swizzle == 64 ? 4 : 6;
  const auto encoded = [](u32 value) { return static_cast<u64>((value & 0x3ffff) / 16); };
  return encoded(shared_address(start)) + (encoded(leading_bytes) << 16) +
         (encoded(stride_bytes) << 32) + (u64{1} << 46) + (mode << 61);
}

template <class Type, int N, bool TransposeB>
inline void tensor_multiply(u32 d, u64 a, u64 b, int accumulate, TITAN_LINE) {
  static_assert(N >= 16 && N <= 256 && N % 16 == 0, "N of tcgen05.mma with 128 rows");
  static_assert(Type::bytes <= 2, "element type of tcgen05.mma");
  static_assert(Type::bytes == 2 || !TransposeB, "8-bit operands are K-major here");
  emulation::Instruction request;
  request.kind = emulation::KindOf<Type>::kind;
  request.columns = N;
  request.transpose_b = TransposeB;
  request.a = a;
  request.b = b;
  request.accumulate = accumulate != 0;
  emulation::tensor_multiplication(d, request, line);
}
template <class Type, int N, bool TransposeB>
inline void tensor_multiply_pairs(u32 d, u32 a, u64 b, int accumulate, TITAN_LINE) {
  static_assert(N >= 16 && N <= 256 && N % 16 == 0, "N of tcgen05.mma with 128 rows");
  static_assert(Type::bytes == 2, "pairs of 16 bits");
  emulation::Instruction request;
  request.kind = emulation::KindOf<Type>::kind;
  request.columns = N;
  request.transpose_b = TransposeB;
  request.a_in_registers = true;
  request.a = a;
  request.b = b;
  request.accumulate = accumulate != 0;
  emulation::tensor_multiplication(d, request, line);
}
inline void tensor_commit(u64 *barrier, TITAN_LINE) { emulation::tensor_arrival(barrier, line); }

template <int Columns>
inline void tensor_memory_fetch(float (&values)[Columns / 2], u32 address, TITAN_LINE) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  emulation::tensor_fetch(line, values, address, Columns);
}
inline void tensor_load_wait(TITAN_LINE) { emulation::tensor_wait(false, line); }
template <int Columns>
inline void tensor_memory_put(u32 address, const float (&values)[Columns / 2], TITAN_LINE) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  emulation::tensor_put("tensor_memory_put", line, values, address, Columns, false);
}
template <int Columns>
inline void tensor_memory_put_pairs(u32 address, const u32 (&pairs)[Columns / 16][4], TITAN_LINE) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  emulation::tensor_put("tensor_memory_put_pairs", line, pairs, address, Columns / 2, true);
}
inline void tensor_put_wait(TITAN_LINE) { emulation::tensor_wait(true, line); }

inline void store_row(u8 *rows, int row, float value, TITAN_LINE) {
  u32 bits;
  std::memcpy(&bits, &value, sizeof bits);
  store_shared32(rows + 4 * row, bits, line);
}
inline float load_row(const u8 *rows, int row, TITAN_LINE) {
  const u32 bits = load_shared32(rows + 4 * row, line);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace titan
