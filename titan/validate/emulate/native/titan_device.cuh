// The names of the device header of sm_90a (and, below, of sm_100a) with their meaning on a CPU, written from the PTX ISA
// and from that header's comments, not from its instructions. A kernel that includes
// "titan_device.cuh" gets this file when it is compiled for emulation.
#ifndef TITAN_DEVICE_CUH
#define TITAN_DEVICE_CUH

#include <algorithm>
#include <cstdlib>

#include "runtime.h"

#define TITAN_KERNEL(count)                  \
  constexpr int titan_emulation_block = count; \
  constexpr int titan_emulation_cluster = 1;   \
  extern "C" void
#define TITAN_CLUSTER_KERNEL(count, ctas)    \
  constexpr int titan_emulation_block = count; \
  constexpr int titan_emulation_cluster = ctas; \
  extern "C" void
#define TITAN_GRID_CONSTANT
#define TITAN_DEVICE static inline
#define TITAN_CONSTANT static constexpr
#define TITAN_UNROLL
#define TITAN_NO_UNROLL
#define TITAN_SHARED(name) unsigned char *const name = titan::emulation::dynamic_shared()
#define TITAN_LINE int line = __builtin_LINE()

namespace titan {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
  u8 opaque[128];
};

struct f32 { static constexpr int bytes = 4; };
struct f16 { static constexpr int bytes = 2; };
struct bf16 { static constexpr int bytes = 2; };
struct e4m3 { static constexpr int bytes = 1; };
struct e5m2 { static constexpr int bytes = 1; };

template <class First, class Second>
struct same { static constexpr bool value = false; };
template <class First>
struct same<First, First> { static constexpr bool value = true; };

namespace emulation {

template <class Type> struct KindOf;
template <> struct KindOf<f32> { static constexpr Kind kind = Kind::f32; };
template <> struct KindOf<f16> { static constexpr Kind kind = Kind::f16; };
template <> struct KindOf<bf16> { static constexpr Kind kind = Kind::bf16; };
template <> struct KindOf<e4m3> { static constexpr Kind kind = Kind::e4m3; };
template <> struct KindOf<e5m2> { static constexpr Kind kind = Kind::e5m2; };

constexpr u32 map_mark = 0x7469746e;  // marks a tensor map of the launch among other bytes

inline int number_of(const TensorMap *map) {
  u32 words[2];
  std::memcpy(words, map->opaque, sizeof words);
  if (words[0] != map_mark) stop_here("not a tensor map of the launch", 0);
  return static_cast<int>(words[1]);
}

inline TensorMap map_with(int number) {
  TensorMap map{};
  const u32 words[2] = {map_mark, static_cast<u32>(number)};
  std::memcpy(map.opaque, words, sizeof words);
  return map;
}

inline float flushed(float value) {  // .ftz
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

}  // namespace emulation

// ---------------------------------------------------------------------- threads and groups

inline int thread_index() { return emulation::own_thread(); }
inline int block_index() { return emulation::own_block(); }
inline int grid_size() { return emulation::grid_blocks(); }
inline int lane_index() { return emulation::own_thread() % 32; }
inline int uniform(int value, TITAN_LINE) {
  return static_cast<int>(emulation::exchange("uniform", line, static_cast<u32>(value), 0));
}
inline bool elect_one(TITAN_LINE) { return emulation::elect(line); }
inline void warp_sync(TITAN_LINE) { emulation::warp_barrier(line); }
inline void named_barrier_sync(int id, int count, TITAN_LINE) {
  emulation::named_barrier("named_barrier_sync", line, id, count, true);
}
inline void named_barrier_arrive(int id, int count, TITAN_LINE) {
  emulation::named_barrier("named_barrier_arrive", line, id, count, false);
}
inline void block_sync(TITAN_LINE) { emulation::block_barrier(line); }
inline u32 cluster_rank() { return static_cast<u32>(emulation::own_rank()); }
inline void cluster_sync(TITAN_LINE) { emulation::cluster_barrier(line); }
template <int Registers>
inline void registers_increase(TITAN_LINE) {
  emulation::change_registers("registers_increase", line, Registers, true);
}
template <int Registers>
inline void registers_decrease(TITAN_LINE) {
  emulation::change_registers("registers_decrease", line, Registers, false);
}
inline void trap(TITAN_LINE) { emulation::stop_here("trap", line); }

// -------------------------------------------------------------------------- shared memory

inline u32 shared_address(const void *pointer) { return emulation::address_of(pointer); }
inline u32 map_shared(const void *pointer, u32 cta) { return emulation::address_in(pointer, cta); }
inline void require_alignment(const void *pointer, u32 bytes, TITAN_LINE) {
  if (shared_address(pointer) % bytes != 0) trap(line);
}
template <int Bytes>
inline u32 swizzled(u32 offset) {
  static_assert(Bytes == 0 || Bytes == 32 || Bytes == 64 || Bytes == 128, "swizzle");
  return emulation::swizzle_address(offset, Bytes);
}
template <class Word>
inline Word load_shared(const void *pointer, int line) {
  Word value;
  emulation::ordinary_load(pointer, &value, sizeof value, line);
  return value;
}
inline u16 load_shared16(const void *pointer, TITAN_LINE) {
  return load_shared<u16>(pointer, line);
}
inline u32 load_shared32(const void *pointer, TITAN_LINE) {
  return load_shared<u32>(pointer, line);
}
inline u64 load_shared64(const void *pointer, TITAN_LINE) {
  return load_shared<u64>(pointer, line);
}
inline void store_shared16(void *pointer, u16 value, TITAN_LINE) {
  emulation::ordinary_store(pointer, &value, sizeof value, line);
}
inline void store_shared32(void *pointer, u32 value, TITAN_LINE) {
  emulation::ordinary_store(pointer, &value, sizeof value, line);
}
inline void store_shared64(void *pointer, u64 value, TITAN_LINE) {
  emulation::ordinary_store(pointer, &value, sizeof value, line);
}
inline void store_shared128(void *pointer, u32 first, u32 second, u32 third, u32 fourth,
                            TITAN_LINE) {
  const u32 words[4] = {first, second, third, fourth};
  emulation::ordinary_store(pointer, words, sizeof words, line);
}
inline void fence_proxy_async(TITAN_LINE) { emulation::fence_async(line); }

// ------------------------------------------------------------------------------ mbarriers

inline void barrier_init(u64 *barrier, u32 count, TITAN_LINE) {
  emulation::barrier_create(barrier, count, line);
}
inline void fence_barrier_init(TITAN_LINE) { emulation::barrier_fence(line); }
inline void barrier_arrive(u64 *barrier, TITAN_LINE) {
  emulation::barrier_arrival("barrier_arrive", line, barrier, true, 0);
}
inline void barrier_expect(u64 *barrier, u32 bytes, TITAN_LINE) {
  emulation::barrier_arrival("barrier_expect", line, barrier, false, bytes);
}
inline void barrier_arrive_expect(u64 *barrier, u32 bytes, TITAN_LINE) {
  emulation::barrier_arrival("barrier_arrive_expect", line, barrier, true, bytes);
}
inline void barrier_arrive_remote(u64 *barrier, u32 cta, TITAN_LINE) {
  emulation::barrier_remote(barrier, cta, line);
}
// A weak memory is not emulated: what is relaxed does the same here.
inline void barrier_arrive_remote_relaxed(u64 *barrier, u32 cta, TITAN_LINE) {
  emulation::barrier_remote(barrier, cta, line);
}
inline bool barrier_try_wait(u64 *barrier, u32 parity, TITAN_LINE) {
  return emulation::barrier_test(barrier, parity, line);
}
inline bool barrier_try_wait_relaxed(u64 *barrier, u32 parity, TITAN_LINE) {
  return emulation::barrier_test(barrier, parity, line);
}
inline bool barrier_try_wait_cluster(u64 *barrier, u32 parity, TITAN_LINE) {
  return emulation::barrier_test(barrier, parity, line);
}
inline void barrier_wait(u64 *barrier, u32 parity, TITAN_LINE) {
  emulation::barrier_block(barrier, parity, line);
}
inline void barrier_wait_cluster(u64 *barrier, u32 parity, TITAN_LINE) {
  emulation::barrier_block(barrier, parity, line);
}

inline void barrier_wait_relaxed(u64 *barrier, u32 parity, TITAN_LINE) {
  emulation::barrier_block(barrier, parity, line);
}

// ---------------------------------------------------------------------- bulk tensor copies

inline void prefetch_tensor_map(const TensorMap *map) { emulation::number_of(map); }

// Pointers with the line of the call: the coordinates behind them vary in number.
struct BarrierOf {
  u64 *barrier;
  int line;
  BarrierOf(u64 *pointer, TITAN_LINE) : barrier(pointer), line(line) {}
};
struct MapOf {
  const TensorMap *map;
  int line;
  MapOf(const TensorMap *pointer, TITAN_LINE) : map(pointer), line(line) {}
};

template <int Rank>
inline void load_box(const char *name, void *to, const TensorMap *map, const BarrierOf &of,
                     const int (&start)[Rank], int mask) {
  emulation::start_load(name, of.line, to, emulation::number_of(map), of.barrier, start, Rank,
                        mask);
}
inline void tensor_load(void *to, const TensorMap *map, BarrierOf of, int c0, int c1) {
  load_box("tensor_load", to, map, of, {c0, c1}, -1);
}
inline void tensor_load(void *to, const TensorMap *map, BarrierOf of, int c0, int c1, int c2) {
  load_box("tensor_load", to, map, of, {c0, c1, c2}, -1);
}
inline void tensor_load(void *to, const TensorMap *map, BarrierOf of, int c0, int c1, int c2,
                        int c3) {
  load_box("tensor_load", to, map, of, {c0, c1, c2, c3}, -1);
}
inline void tensor_load_multicast(void *to, const TensorMap *map, BarrierOf of, int c0, int c1,
                                  u16 mask) {
  load_box("tensor_load_multicast", to, map, of, {c0, c1}, mask);
}
inline void tensor_load_multicast(void *to, const TensorMap *map, BarrierOf of, int c0, int c1,
                                  int c2, u16 mask) {
  load_box("tensor_load_multicast", to, map, of, {c0, c1, c2}, mask);
}
inline void tensor_load_multicast(void *to, const TensorMap *map, BarrierOf of, int c0, int c1,
                                  int c2, int c3, u16 mask) {
  load_box("tensor_load_multicast", to, map, of, {c0, c1, c2, c3}, mask);
}
template <int Rank>
inline void store_box(const MapOf &of, const void *from, const int (&start)[Rank]) {
  emulation::start_store(of.line, emulation::number_of(of.map), from, start, Rank);
}
inline void tensor_store(MapOf of, const void *from, int c0, int c1) {
  store_box(of, from, {c0, c1});
}
inline void tensor_store(MapOf of, const void *from, int c0, int c1, int c2) {
  store_box(of, from, {c0, c1, c2});
}
inline void tensor_store(MapOf of, const void *from, int c0, int c1, int c2, int c3) {
  store_box(of, from, {c0, c1, c2, c3});
}
inline void bulk_commit(TITAN_LINE) { emulation::commit_bulk(line); }
template <int Pending>
inline void bulk_wait(TITAN_LINE) {
  emulation::wait_bulk("bulk_wait", line, Pending, false);
}
template <int Pending>
inline void bulk_wait_read(TITAN_LINE) {
  emulation::wait_bulk("bulk_wait_read", line, Pending, true);
}

// ---------------------------------------------------------------- numbers and element types

inline float bits_to_float(u32 bits) { return emulation::float_of(bits); }
inline u32 float_to_bits(float value) { return emulation::bits_of(value); }
inline float infinity() { return INFINITY; }
// Of a number and a NaN, the number.
inline float maximum(float first, float second) { return std::fmax(first, second); }
inline float minimum(float first, float second) { return std::fmin(first, second); }
inline float exp2_fast(float value) {
  return emulation::flushed(std::exp2(emulation::flushed(value)));
}
inline float log2_fast(float value) {
  return emulation::flushed(std::log2(emulation::flushed(value)));
}
inline float rsqrt_fast(float value) { return 1.0f / std::sqrt(emulation::flushed(value)); }
inline float reciprocal(float value) { return 1.0f / value; }
inline float divide(float first, float second) { return first / second; }
inline float activation_relu(float value) { return maximum(value, 0.0f); }
inline float activation_tanh(float value) { return std::tanh(value); }
inline float activation_silu(float value) { return value / (1.0f + std::exp(-value)); }
inline float activation_gelu(float value) {
  const double x = value, inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  return static_cast<float>(0.5 * x * (1 + std::tanh(inner)));
}
template <class Type>
inline u32 pack_pair(float low, float high) {
  static_assert(Type::bytes == 2, "two numbers of a word");
  constexpr emulation::Kind kind = emulation::KindOf<Type>::kind;
  return emulation::encode(kind, low) | emulation::encode(kind, high) << 16;
}
template <class Type>
inline u16 pack_pair8(float low, float high) {
  static_assert(Type::bytes == 1, "two numbers of a half word");
  constexpr emulation::Kind kind = emulation::KindOf<Type>::kind;
  return static_cast<u16>(emulation::encode(kind, low) | emulation::encode(kind, high) << 8);
}
inline float half_to_float(u16 half) { return emulation::decode(emulation::Kind::f16, half); }
template <class Type, int Part>
inline float unpack_pair(u32 word) {
  static_assert(Type::bytes < 4 && (Part == 0 || Part == 1), "part of a pair");
  return emulation::decode(emulation::KindOf<Type>::kind,
                           Part == 0 ? word & ((1u << 8 * Type::bytes) - 1)
                                     : word >> 8 * Type::bytes & ((1u << 8 * Type::bytes) - 1));
}
template <class Type>
inline float rounded(float value) {
  constexpr emulation::Kind kind = emulation::KindOf<Type>::kind;
  return emulation::decode(kind, emulation::encode(kind, value));
}
template <class Type>
inline float load_global(const void *base, long long index) {
  return emulation::decode_at(emulation::KindOf<Type>::kind,
                              static_cast<const u8 *>(base) + index * Type::bytes);
}
template <class Type>
inline void store_global(void *base, long long index, float value) {
  const u32 code = emulation::encode(emulation::KindOf<Type>::kind, value);
  std::memcpy(static_cast<u8 *>(base) + index * Type::bytes, &code, Type::bytes);
}
template <class Type, int Swizzle>
inline void store_tile_pair(u8 *tile, u32 offset, float first, float second, TITAN_LINE) {
  u8 *place = tile + swizzled<Swizzle>(offset);
  const u32 low = emulation::encode(emulation::KindOf<Type>::kind, first);
  const u32 high = emulation::encode(emulation::KindOf<Type>::kind, second);
  const u64 both = static_cast<u64>(high) << 8 * Type::bytes | low;
  emulation::ordinary_store(place, &both, 2 * Type::bytes, line);
}
template <class Type, int Swizzle>
inline void load_tile_pair(const u8 *tile, u32 offset, float &first, float &second, TITAN_LINE) {
  u8 both[8];
  emulation::ordinary_load(tile + swizzled<Swizzle>(offset), both, 2 * Type::bytes, line);
  first = emulation::decode_at(emulation::KindOf<Type>::kind, both);
  second = emulation::decode_at(emulation::KindOf<Type>::kind, both + Type::bytes);
}
template <class Type>
inline u32 load_global_bits(const void *base, long long index) {
  u32 bits = 0;
  std::memcpy(&bits, static_cast<const u8 *>(base) + index * Type::bytes, Type::bytes);
  return bits;
}
// Unit by unit of 16 bytes, the units of a tile dealt out to the threads in turn.
template <class Type, int Swizzle, int Rows, int Columns, int Threads>
inline void fill_tile(u8 *tile, u32 panel_stride, const void *base, long long outer, bool inside,
                      int rows, int columns, int row0, int column0, int thread, TITAN_LINE) {
  if (thread < 0 || thread >= Threads) emulation::stop_here("fill_tile by too many threads", line);
  constexpr int row_bytes = Columns * Type::bytes;
  const auto *const matrix = static_cast<const u8 *>(base);
  for (int start = 16 * thread; start < Rows * row_bytes; start += 16 * Threads) {
    const int row = start / row_bytes, byte = start % row_bytes;
    u8 unit[16] = {};
    for (int at = 0; at < 16; at += Type::bytes) {
      const int r = row0 + row, c = column0 + (byte + at) / Type::bytes;
      if (!inside || r < 0 || r >= rows || c < 0 || c >= columns) continue;
      std::memcpy(unit + at, matrix + ((outer * rows + r) * columns + c) * Type::bytes,
                  Type::bytes);
    }
    const u32 offset = static_cast<u32>(row * Swizzle + byte % Swizzle);
    emulation::ordinary_store(tile + byte / Swizzle * panel_stride + swizzled<Swizzle>(offset), unit,
                              sizeof unit, line);
  }
}
inline float quad_partner(const char *name, int line, float value, int distance) {
  const int source = lane_index() ^ distance;
  return bits_to_float(emulation::exchange(name, line, float_to_bits(value), source));
}
inline float quad_max(float value, TITAN_LINE) {
  value = maximum(value, quad_partner("quad_max", line, value, 1));
  return maximum(value, quad_partner("quad_max", line, value, 2));
}
inline float quad_sum(float value, TITAN_LINE) {
  value += quad_partner("quad_sum", line, value, 1);
  return value + quad_partner("quad_sum", line, value, 2);
}
inline int floor_divide(int first, int second) {
  const long long quotient = std::llabs(first) / std::llabs(second);
  if ((first < 0) == (second < 0)) return static_cast<int>(quotient);
  return static_cast<int>(-quotient - (std::llabs(first) % std::llabs(second) != 0));
}
inline int floor_modulo(int first, int second) {
  return first - second * floor_divide(first, second);
}
inline int smaller(int first, int second) { return std::min(first, second); }
inline int larger(int first, int second) { return std::max(first, second); }

template <int Depth>
struct RingPosition {
  int stage, parity;
};
template <int Depth>
inline void advance(RingPosition<Depth> &position) {
  const int next = position.stage + Depth * position.parity + 1;
  position = {next % Depth, next / Depth % 2};
}

// --------------------------------------------------------------------------------- wgmma

inline void wgmma_fence(TITAN_LINE) { emulation::matrix_fence(line); }
inline void wgmma_commit(TITAN_LINE) { emulation::matrix_commit(line); }
template <int Pending>
inline void wgmma_wait(TITAN_LINE) {
  emulation::matrix_wait(line, Pending);
}
template <int Count>
inline void hold(float (&)[Count]) {}
template <int Count>
inline void hold(u32 (&)[Count]) {}
template <int Count>
inline void discard(float (&registers)[Count]) {
  emulation::poison_registers(registers, Count);
}

template <int Swizzle>
inline u64 shared_descriptor(const void *start, u32 leading_bytes, u32 stride_bytes) {
  static_assert(Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "swizzle of a descriptor");
  const u64 mode = Swizzle == 128 ? 1 : Swizzle == 64 ? 2 : 3;
  const auto encoded = [](u32 value) { return static_cast<u64>((value & 0x3ffff) / 16); };
  return encoded(shared_address(start)) + (encoded(leading_bytes) << 16) +
         (encoded(stride_bytes) << 32) + (mode << 62);
}
inline u64 descriptor_ahead(u64 descriptor, u32 bytes) {
  return (descriptor & ~static_cast<u64>(0x3fff)) + ((descriptor & 0x3fff) + bytes / 16) % 0x4000;
}
template <int Bytes>
inline u64 descriptor_of_stage(u64 descriptor, int stage) {
  return descriptor_ahead(descriptor, static_cast<u32>(stage * Bytes));
}
inline u64 kept(u64 number) { return number; }

namespace emulation {
template <class Type, int N>
inline Instruction instruction(float *d, u64 b, int accumulate, bool transpose_b) {
  static_assert(N >= 8 && N <= 256 && N % 8 == 0, "N of wgmma");
  static_assert(Type::bytes <= 2, "element type of wgmma");
  Instruction request;
  request.kind = KindOf<Type>::kind;
  request.columns = N;
  request.transpose_b = transpose_b;
  request.b = b;
  request.accumulate = accumulate != 0;
  request.d = d;
  return request;
}
}  // namespace emulation

template <class Type, int N, bool TransposeB, bool TransposeA = false>
inline void wgmma_ss(float (&d)[N / 2], u64 a, u64 b, int accumulate, TITAN_LINE) {
  static_assert(Type::bytes == 2 || (!TransposeA && !TransposeB), "8-bit operands are K-major");
  auto request = emulation::instruction<Type, N>(d, b, accumulate, TransposeB);
  request.a = a;
  request.transpose_a = TransposeA;
  emulation::matrix_multiply("wgmma_ss", line, request);
}
template <class Type, int N, bool TransposeB>
inline void wgmma_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate, TITAN_LINE) {
  static_assert(Type::bytes == 2 || !TransposeB, "8-bit operands are K-major");
  auto request = emulation::instruction<Type, N>(d, b, accumulate, TransposeB);
  request.a_in_registers = true;
  std::copy(a, a + 4, request.registers);
  emulation::matrix_multiply("wgmma_rs", line, request);
}

}  // namespace titan

#include "titan_tcgen05.h"

#undef TITAN_LINE
#endif  // TITAN_DEVICE_CUH
