// The primitives of titan_device.hip.h on the CPU: one fiber for each lane of a workgroup.
//
// What is adverse: which wave runs next, and when a direct-to-LDS copy lands (LAZY: when its wave
// waits for it; EAGER: at once; MIXED: at any time between). Copies of a lane land in the order
// of issue, and vmcnt counts them together with other accesses of global memory. An LDS read has
// returned, and an LDS write is seen by others, when the wave has waited for lgkmcnt. Faults: a
// read of LDS where a copy has not landed or a write is not seen yet, a copy to where a read has
// not returned, an access outside of a tensor or of LDS, work in flight at the end, waves that do
// not meet. Matrix instructions follow the register layouts of the CDNA3 instruction set
// architecture.
#pragma once

#define TITAN_PRIMITIVES  // the device header leaves its own out

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "fibers.h"

#define TITAN_FUNCTION static inline
#define TITAN_FUNCTION_MEMBER inline
#define TITAN_LAMBDA
#define TITAN_KERNEL(threads) static

namespace titan::emulation {

enum Mode { LAZY = 0, EAGER = 1, MIXED = 2 };
enum State { READY, AT_BARRIER, AT_WAVE, DONE };

struct Copy {
  unsigned char *to = nullptr;  // null: an access that has no effect of its own left
  const unsigned char *from = nullptr;
  unsigned bytes = 0;
};

struct Lane {
  Fiber fiber;
  unsigned char *stack = nullptr;
  State state = READY;
  std::deque<Copy> flying;
  std::vector<unsigned> reading, writing;  // LDS words whose accesses have not returned
};

struct Range {
  const unsigned char *start = nullptr;
  std::uint64_t bytes = 0;
  bool output = false;
};

struct Exchange {  // what the lanes of a wave bring to an instruction that they execute together
  const void *first[64], *second[64];
  void *result[64];
  int kind = 0, arrived = 0;
};

struct Machine {
  std::vector<Lane> lanes;
  std::vector<Exchange> waves;
  std::vector<unsigned char> shared;
  std::vector<unsigned short> landing, reading, writing;  // by LDS word
  std::vector<Range> ranges;
  Fiber scheduler;
  std::uint64_t random = 1;
  Mode mode = LAZY;
  int now = 0, group = 0;
  void (*kernel)() = nullptr;
  char message[200] = "";

  std::uint64_t draw() {
    random ^= random << 13;
    random ^= random >> 7;
    return random ^= random << 17;
  }
};

inline Machine machine;
constexpr std::size_t STACK_BYTES = 192 * 1024;

[[noreturn]] inline void fault(const char *format, ...) {
  va_list list;
  va_start(list, format);
  int used = std::snprintf(machine.message, sizeof machine.message, "wave %d, lane %d: ",
                           machine.now / 64, machine.now % 64);
  std::vsnprintf(machine.message + used, sizeof machine.message - used, format, list);
  va_end(list);
  switch_fiber(machine.lanes[machine.now].fiber, machine.scheduler);
  __builtin_trap();
}

inline Lane &self() { return machine.lanes[machine.now]; }

inline void leave(State state) {
  self().state = state;
  switch_fiber(self().fiber, machine.scheduler);
}

inline void land(Lane &lane) {
  Copy copy = lane.flying.front();
  lane.flying.pop_front();
  if (copy.to == nullptr) return;
  if (copy.from != nullptr)
    std::memcpy(copy.to, copy.from, copy.bytes);
  else
    std::memset(copy.to, 0, copy.bytes);
  unsigned word = static_cast<unsigned>(copy.to - machine.shared.data()) / 4;
  for (unsigned i = 0; i < copy.bytes / 4; ++i) --machine.landing[word + i];
}

inline const unsigned char *global(std::uint64_t base, std::uint32_t offset, unsigned bytes,
                                   bool output) {
  const auto *at = reinterpret_cast<const unsigned char *>(base) + offset;
  for (const Range &range : machine.ranges)
    if (at >= range.start && at + bytes <= range.start + range.bytes && range.output == output)
      return at;
  fault("%s of %u bytes outside of every tensor", output ? "write" : "read", bytes);
}

inline void shared_bounds(std::uint32_t place, unsigned bytes) {
  if (place % (bytes < 16 ? bytes : 16) != 0) fault("LDS access at %u is not aligned", place);
  if (place + bytes > machine.shared.size()) fault("LDS access at %u is outside", place);
}

inline void returned() {
  for (unsigned word : self().reading) --machine.reading[word];
  for (unsigned word : self().writing) --machine.writing[word];
  self().reading.clear();
  self().writing.clear();
}

// All lanes of the wave bring their operands; the last one to come computes for all.
template <class F>
inline void together(int kind, const void *first, const void *second, void *result, F compute) {
  Exchange &wave = machine.waves[machine.now / 64];
  int lane = machine.now % 64;
  if (wave.arrived > 0 && wave.kind != kind) fault("lanes of a wave are at different instructions");
  wave.kind = kind;
  wave.first[lane] = first;
  wave.second[lane] = second;
  wave.result[lane] = result;
  if (++wave.arrived < 64) {
    leave(AT_WAVE);
    return;
  }
  compute(wave);
  wave.arrived = 0;
  int base = machine.now - lane;
  for (int i = 0; i < 64; ++i) machine.lanes[base + i].state = READY;
}

inline void enter() {
  machine.kernel();
  if (!self().flying.empty()) {
    for (const Copy &copy : self().flying)
      if (copy.to != nullptr) fault("a copy is in flight at the end");
    self().flying.clear();
  }
  leave(DONE);
}

inline bool ready(int wave) {
  for (int i = 0; i < 64; ++i)
    if (machine.lanes[wave * 64 + i].state == READY) return true;
  return false;
}

inline void open_barrier() {
  int waiting = 0;
  for (const Lane &lane : machine.lanes) waiting += lane.state == AT_BARRIER;
  if (waiting != static_cast<int>(machine.lanes.size())) return;
  for (Lane &lane : machine.lanes) lane.state = READY;
}

// One workgroup until its end; False with a message where something is wrong.
inline bool run_group() {
  int waves = static_cast<int>(machine.waves.size());
  for (;;) {
    std::vector<int> able;
    for (int wave = 0; wave < waves; ++wave)
      if (ready(wave)) able.push_back(wave);
    if (able.empty()) {
      for (const Lane &lane : machine.lanes)
        if (lane.state != DONE) {
          std::snprintf(machine.message, sizeof machine.message, "the waves do not meet");
          return false;
        }
      return true;
    }
    int wave = able[machine.draw() % able.size()];
    for (int i = 0; i < 64; ++i) {
      Lane &lane = machine.lanes[wave * 64 + i];
      if (machine.mode == MIXED && !lane.flying.empty() && machine.draw() % 4 == 0) land(lane);
      if (lane.state != READY) continue;
      machine.now = wave * 64 + i;
      switch_fiber(machine.scheduler, lane.fiber);
      if (machine.message[0] != 0) return false;
    }
    open_barrier();
  }
}

}  // namespace titan::emulation

namespace titan {

typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((vector_size(8)));
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x16 __attribute__((vector_size(64)));

inline int thread_index() { return emulation::machine.now; }
inline int workgroup_index() { return emulation::machine.group; }
inline int uniform(int value) { return value; }
inline int opaque(int value) { return value; }
inline int lane_afresh(int lane) { return lane; }
inline int never_negative(int value) { return value; }
inline u32 opaque_of_lane(u32 value) { return value; }
template <class T> inline void loaded_words(T &) {}
template <class T> inline void accumulation_words(T &) {}
inline void keep_order() {}
template <int> inline void reads_first() {}
enum class Beside { loads, reads, writes };
template <Beside, int, int> inline void between_products() {}

template <int N> inline void wait_vector() {
  static_assert(N >= 0 && N <= 62, "vmcnt counts to 62");
  while (static_cast<int>(emulation::self().flying.size()) > N) emulation::land(emulation::self());
}

inline void wait_shared() { emulation::returned(); }
inline void workgroup_barrier() { emulation::leave(emulation::AT_BARRIER); }

constexpr u32 END = 0x40000000u;

struct Resource {
  u64 base;
  u32 bytes;
};

inline Resource resource(u64 base, u32 bytes = END) { return Resource{base, bytes}; }

typedef Resource Source;
inline Source source(Resource at) { return at; }

inline u32 target_of(u32 place) { return place; }

template <int WIDTH> inline void direct_copy(Source at, u32 offset, u32 place) {
  using namespace emulation;
  u32 target = place + static_cast<u32>(machine.now % 64 * WIDTH);
  shared_bounds(target, WIDTH);
  bool there = u64(offset) + WIDTH <= at.bytes;
  const unsigned char *from = there ? global(at.base, offset, WIDTH, false) : nullptr;
  for (u32 word = target / 4; word < (target + WIDTH) / 4; ++word) {
    if (machine.reading[word]) fault("a copy to LDS byte %u, which is being read", 4 * word);
    if (machine.writing[word]) fault("a copy to LDS byte %u, which is being written", 4 * word);
    if (machine.landing[word]) fault("two copies to LDS byte %u at once", 4 * word);
    ++machine.landing[word];
  }
  self().flying.push_back({machine.shared.data() + target, from, WIDTH});
  if (machine.mode == EAGER)
    while (!self().flying.empty()) land(self());
}

// The offset of an instruction counts on both sides; a sum beyond 32 bits is there for no lane.
template <int WIDTH, int FURTHER, int COUNT>
inline void direct_copies(Source at, const u32 (&offset)[COUNT], u32 place) {
  for (int i = 0; i < COUNT; ++i) {
    u32 added = static_cast<u32>(i * 64 * WIDTH);
    if (offset[i] > 0xffffffffu - added) emulation::fault("an offset of a copy wraps around");
    direct_copy<WIDTH>(at, offset[i] + added, place + FURTHER + added);
  }
}

template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef u32 type; };
template <> struct Bits<8> { typedef u32x2 type; };
template <> struct Bits<16> { typedef u32x4 type; };

template <int BYTES> inline typename Bits<BYTES>::type global_read(Resource at, u32 offset) {
  typename Bits<BYTES>::type value = {};
  emulation::self().flying.push_back({});
  if (offset < END && offset + BYTES <= at.bytes)
    std::memcpy(&value, emulation::global(at.base, offset, BYTES, false), BYTES);
  return value;
}

template <int BYTES>
inline void global_write(Resource at, u32 offset, typename Bits<BYTES>::type value) {
  emulation::self().flying.push_back({});
  if (offset >= END || offset + BYTES > at.bytes) return;
  const unsigned char *to = emulation::global(at.base, offset, BYTES, true);
  std::memcpy(const_cast<unsigned char *>(to), &value, BYTES);
}

template <int BYTES> inline typename Bits<BYTES>::type shared_read(u32 place) {
  using namespace emulation;
  typename Bits<BYTES>::type value;
  shared_bounds(place, BYTES);
  for (u32 word = place / 4; word <= (place + BYTES - 1) / 4; ++word) {
    if (machine.landing[word]) fault("a read of LDS byte %u before a copy has landed", 4 * word);
    if (machine.writing[word]) fault("a read of LDS byte %u, which is being written", 4 * word);
    ++machine.reading[word];
    self().reading.push_back(word);
  }
  std::memcpy(&value, machine.shared.data() + place, BYTES);
  return value;
}

inline u32 address_of(u32 place) { return place; }
template <int BYTES>
inline typename Bits<BYTES>::type shared_read_at(u32 address, int distance) {
  return shared_read<BYTES>(address + static_cast<u32>(distance));
}

template <int BYTES> inline void shared_write(u32 place, typename Bits<BYTES>::type value) {
  using namespace emulation;
  shared_bounds(place, BYTES);
  for (u32 word = place / 4; word <= (place + BYTES - 1) / 4; ++word) {
    if (machine.reading[word]) fault("a write of LDS byte %u, which is being read", 4 * word);
    ++machine.writing[word];
    self().writing.push_back(word);
  }
  std::memcpy(machine.shared.data() + place, &value, BYTES);
}

inline float exp2_fast(float x) { return std::exp2(x); }
inline float log2_fast(float x) { return std::log2(x); }
inline float reciprocal_fast(float x) { return 1.0f / x; }
inline float rsqrt_fast(float x) { return 1.0f / std::sqrt(x); }

inline u32 lower_halves(u32 low, u32 high) { return (low & 0xffffu) | high << 16; }
inline u32 upper_halves(u32 low, u32 high) { return low >> 16 | (high & 0xffff0000u); }

inline float lane_xor(float value, int mask) {
  float result = 0;
  emulation::together(1000 + mask, &value, nullptr, &result, [mask](emulation::Exchange &wave) {
    for (int i = 0; i < 64; ++i)
      *static_cast<float *>(wave.result[i]) = *static_cast<const float *>(wave.first[i ^ mask]);
  });
  return result;
}

template <int B> struct AccumulatorOf;
template <> struct AccumulatorOf<32> { typedef f32x16 type; };
template <> struct AccumulatorOf<16> { typedef f32x4 type; };
template <int B> using Accumulator = typename AccumulatorOf<B>::type;

// 8-bit floating point of OCP: `exponent` bits, the rest mantissa; e4m3 has no infinities.
inline float widen_small(u32 bits, int exponent) {
  int mantissa = 7 - exponent, bias = (1 << (exponent - 1)) - 1;
  int field = static_cast<int>(bits >> mantissa & ((1u << exponent) - 1));
  int fraction = static_cast<int>(bits & ((1u << mantissa) - 1));
  bool top = field == (1 << exponent) - 1;
  float size;
  if (exponent == 4 && top && fraction == 7)
    size = __builtin_nanf("");
  else if (exponent == 5 && top)
    size = fraction ? __builtin_nanf("") : __builtin_inff();
  else if (field == 0)
    size = std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
  else
    size = std::ldexp(static_cast<float>(fraction + (1 << mantissa)), field - bias - mantissa);
  return bits & 0x80u ? -size : size;
}

inline u32 narrow_small(float x, int exponent) {
  if (x != x) return 0x7fu;
  u32 sign = std::signbit(x) ? 0x80u : 0u, best = 0;
  float size = std::fabs(x), near = __builtin_inff();
  for (u32 code = 0; code < 0x80u; ++code) {  // in the order of the numbers; ties to even codes
    float number = widen_small(code, exponent);
    if (!std::isfinite(number)) continue;
    float distance = std::fabs(number - size);
    if (distance < near || (distance == near && code % 2 == 0)) near = distance, best = code;
  }
  return sign | best;
}

inline float widen_e4m3(u32 bits) { return widen_small(bits, 4); }
inline float widen_e5m2(u32 bits) { return widen_small(bits, 5); }
inline u32 narrow_e4m3(float x) { return narrow_small(x, 4); }
inline u32 narrow_e5m2(float x) { return narrow_small(x, 5); }

#if defined(TITAN_WIDE_PRODUCTS)
// Of 16 lanes: number l % 4 of the four numbers that lane 4 j + l / 4 has read becomes number j.
inline u32x2 shared_read_transposed(u32 address, int distance) {
  u32x2 own = shared_read_at<8>(address, distance), result = {};
  emulation::together(900, &own, nullptr, &result, [](emulation::Exchange &wave) {
    for (int lane = 0; lane < 64; ++lane)
      for (int j = 0; j < 4; ++j) {
        const void *from = wave.first[lane / 16 * 16 + 4 * j + lane % 16 / 4];
        std::memcpy(static_cast<unsigned char *>(wave.result[lane]) + 2 * j,
                    static_cast<const unsigned char *>(from) + 2 * (lane % 4), 2);
      }
  });
  return result;
}
#endif

template <class D> inline float element(const void *operand, int number) {
  u32 bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char *>(operand) + number * D::bytes, D::bytes);
  return D::widen(bits);
}

// D[i][j] += sum over k of A[i][k] B[k][j]. A[i][k] is in lane i + B (k / E), element k % E, with E
// elements in the BYTES of a lane; B[k][j] in lane j + B (k / E); D[i][j] in lane j + B (i / 4 mod
// H), register 4 (i / (4 H)) + i % 4, H = 64 / B.
template <class D, int B, int BYTES>
inline Accumulator<B> matrix(const void *first, const void *second, Accumulator<B> sum) {
  Accumulator<B> result = sum;
  int kind = (B * 16 + D::bytes) * 32 + BYTES;
  emulation::together(kind, first, second, &result, [](emulation::Exchange &wave) {
    constexpr int E = BYTES / D::bytes, H = 64 / B;
    for (int j = 0; j < B; ++j)
      for (int i = 0; i < B; ++i) {
        float *total = static_cast<float *>(wave.result[j + B * (i / 4 % H)]);
        float &d = total[4 * (i / (4 * H)) + i % 4];
        for (int k = 0; k < E * H; ++k)
          d += element<D>(wave.first[i + B * (k / E)], k % E) *
               element<D>(wave.second[j + B * (k / E)], k % E);
      }
  });
  return result;
}

template <class D, int B>
inline Accumulator<B> multiply(u32x2 first, u32x2 second, Accumulator<B> sum) {
  return matrix<D, B, 8>(&first, &second, sum);
}

#if defined(TITAN_WIDE_PRODUCTS)
template <class D, int B>
inline Accumulator<B> multiply_wide(u32x4 first, u32x4 second, Accumulator<B> sum) {
  return matrix<D, B, 16>(&first, &second, sum);
}
#endif

}  // namespace titan

// One launch: 0, or 1 with a message. `sizes` are bytes of the tensors, `outputs` says which are
// written.
extern "C" inline int titan_emulation_launch(int groups, int threads, int shared_bytes,
                                             unsigned long long seed, int mode, int tensors,
                                             unsigned char **pointers, const long long *sizes,
                                             const int *outputs, void (*kernel)(), char *message) {
  using namespace titan::emulation;
  machine.mode = static_cast<Mode>(mode);
  machine.random = seed * 0x9e3779b97f4a7c15ull + 1;
  machine.kernel = kernel;
  machine.message[0] = 0;
  machine.ranges.clear();
  for (int i = 0; i < tensors; ++i)
    machine.ranges.push_back({pointers[i], static_cast<std::uint64_t>(sizes[i]), outputs[i] != 0});
  machine.lanes.resize(threads);
  for (Lane &lane : machine.lanes)
    if (lane.stack == nullptr) lane.stack = guarded(STACK_BYTES, 64);
  bool fine = true;
  for (machine.group = 0; fine && machine.group < groups; ++machine.group) {
    machine.shared.assign(shared_bytes, 0xff);
    for (auto *marks : {&machine.landing, &machine.reading, &machine.writing})
      marks->assign(shared_bytes / 4 + 1, 0);
    machine.waves.assign(threads / 64, Exchange{});
    for (Lane &lane : machine.lanes) {
      lane.state = READY;
      lane.flying.clear();
      lane.reading.clear();
      lane.writing.clear();
      lane.fiber.prepare(lane.stack, STACK_BYTES, enter);
    }
    fine = run_group();
  }
  std::strcpy(message, machine.message);
  return fine ? 0 : 1;
}
