// wgmma: operands through 64-bit descriptors or in registers, accumulators in the fragment layout
// of m64nNkK. An engine executes the instructions of a warpgroup in order, as late as a wait
// allows; until then the accumulator registers hold poison. PTX ISA, "Asynchronous warpgroup level
// matrix instructions": register fragments, shared memory matrix layout, matrix descriptor.
#pragma once

#include <array>

#include "copies.h"

namespace titan::emulation {

constexpr int matrix_rows = 64;
constexpr int group_threads = warp_threads * warps_of_group;
constexpr int operand_bytes = 32;  // K is 32 bytes of elements for every type

struct Descriptor {
  int start = 0, leading = 0, stride = 0, swizzle_bytes = 0;
};

inline Descriptor decode_descriptor(std::uint64_t bits, const char *operand) {
  constexpr std::uint64_t unused = 0x3ull << 14 | 0x3ull << 30 | 0x7ull << 46 | 0x3ffull << 52;
  if (bits & unused) fail(current, "descriptor of %s: %016llx has bits outside of its fields",
                          operand, static_cast<unsigned long long>(bits));
  if (bits >> 49 & 7)
    fail(current, "descriptor of %s: a base offset is not supported here", operand);
  constexpr int width[4] = {0, 128, 64, 32};
  return {static_cast<int>(bits & 0x3fff) * 16, static_cast<int>(bits >> 16 & 0x3fff) * 16,
          static_cast<int>(bits >> 32 & 0x3fff) * 16, width[bits >> 62]};
}

// The 16-byte units of an operand of `rows` rows (M or N) and `depth` values of K.
// K-major: units (row, half of K), a unit holds consecutive values of K of one row.
// Transposed: units (8 rows, value of K), a unit holds consecutive rows of one value of K.
inline std::vector<int> operand_units(const Descriptor &d, int rows, int depth, bool transposed) {
  const int pattern = d.swizzle_bytes == 0 ? unit_bytes : d.swizzle_bytes;
  const int panel = pattern / unit_bytes;  // units in a row of the pattern
  std::vector<int> units;
  const auto add = [&](int offset) {
    const auto logical = static_cast<std::uint32_t>(d.start + offset);
    const auto place = swizzle_address(logical, d.swizzle_bytes);
    units.push_back((static_cast<int>(place) - static_cast<int>(shared_base)) / unit_bytes);
  };
  if (!transposed) {
    const int across = d.swizzle_bytes == 0 ? d.leading : unit_bytes;
    for (int row = 0; row < rows; ++row)
      for (int half = 0; half < 2; ++half)
        add(row % 8 * pattern + row / 8 * d.stride + half * across);
  } else {
    for (int part = 0; part < rows / 8; ++part)
      for (int k = 0; k < depth; ++k)
        add(d.swizzle_bytes == 0
                ? part * d.stride + k % 8 * unit_bytes + k / 8 * d.leading
                : part % panel * unit_bytes + part / panel * d.leading + k % 8 * pattern +
                      k / 8 * d.stride);
  }
  return units;
}

inline float element(Kind kind, const unsigned char *place) {
  if (kind != Kind::f16) return decode_at(kind, place);
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (std::uint32_t code = 0; code < 65536; ++code) values[code] = decode(Kind::f16, code);
    return values;
  }();
  std::uint16_t code;
  std::memcpy(&code, place, 2);
  return table[code];
}

// Bytes of `operand_units` as numbers, [k][row].
inline std::vector<float> operand_values(const std::vector<unsigned char> &bytes, Kind kind,
                                         int rows, int depth, bool transposed) {
  const int each = bytes_of(kind), count = unit_bytes / each;
  std::vector<float> values(static_cast<std::size_t>(rows) * depth);
  for (std::size_t unit = 0; unit * unit_bytes < bytes.size(); ++unit)
    for (int i = 0; i < count; ++i) {
      const int row = transposed ? static_cast<int>(unit) / depth * count + i
                                 : static_cast<int>(unit) / 2;
      const int k = transposed ? static_cast<int>(unit) % depth
                               : static_cast<int>(unit) % 2 * count + i;
      values[static_cast<std::size_t>(k) * rows + row] =
          element(kind, &bytes[unit * unit_bytes + i * each]);
    }
  return values;
}

// Register `index` of thread `number` of the warpgroup: its place in a 64 x N fragment.
inline std::size_t fragment_place(int number, int index, int columns) {
  const int row = number / 32 * 16 + number % 32 / 4 + 8 * (index / 2 % 2);
  const int column = index / 4 * 8 + number % 4 * 2 + index % 2;
  return static_cast<std::size_t>(row) * columns + column;
}

struct Accumulator {
  int columns = 0;
  std::array<float *, group_threads> registers{};
  std::vector<float> values;
  std::uint64_t last = 0;  // number of the last instruction that adds to it
};

inline bool agree(const Instruction &one, const Instruction &other) {
  const auto same = [&](auto field) { return one.*field == other.*field; };
  return same(&Instruction::kind) && same(&Instruction::columns) &&
         same(&Instruction::transpose_a) && same(&Instruction::transpose_b) &&
         same(&Instruction::a_in_registers) && same(&Instruction::a) && same(&Instruction::b) &&
         same(&Instruction::accumulate);
}

struct ThreadOfGroup {
  std::deque<std::uint64_t> groups;  // committed: number of the last instruction of each
  std::uint64_t retired = 0;
  bool fenced = false;
  bool waiting = false;
};

struct Group {
  std::uint64_t issued = 0, executed = 0;
  std::map<float *, Accumulator> accumulators;  // by the registers of the first thread
  std::array<Instruction, group_threads> request;
  std::array<ThreadOfGroup, group_threads> members;
  int first_slot = 0;
};
inline std::vector<Group> groups;

void poison_registers(float *registers, int count) {
  std::memset(registers, poison_byte(), sizeof(float) * count);
}

inline void check_poisoned(const float *registers, int count, const Thread &thread) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(registers);
  for (std::size_t i = 0; i < sizeof(float) * count; ++i)
    if (bytes[i] != poison_byte())
      fail(&thread, "accumulator register %zu was written while a wgmma on it is in flight", i / 4);
}

struct MatrixOperation final : Operation {
  Group *group;
  Accumulator *target;
  std::uint64_t number;
  Instruction what;
  int depth;
  std::vector<float> a;  // [k][row], where A comes from registers
  Snapshot a_seen, b_seen;
  std::string text;

  std::string describe() const override { return text; }
  bool ready() const override { return number == group->executed + 1; }

  bool step() override {
    if (!what.a_in_registers) {
      end_read(a_seen, text);
      a = operand_values(a_seen.bytes, what.kind, matrix_rows, depth, what.transpose_a);
    }
    end_read(b_seen, text);
    const std::vector<float> b =
        operand_values(b_seen.bytes, what.kind, what.columns, depth, what.transpose_b);
    std::vector<float> sums(what.columns);
    for (int row = 0; row < matrix_rows; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int k = 0; k < depth; ++k) {
        const float factor = a[static_cast<std::size_t>(k) * matrix_rows + row];
        const float *values = &b[static_cast<std::size_t>(k) * what.columns];
        for (int column = 0; column < what.columns; ++column)
          sums[column] += factor * values[column];
      }
      float *out = &target->values[static_cast<std::size_t>(row) * what.columns];
      for (int column = 0; column < what.columns; ++column)
        out[column] = (what.accumulate ? out[column] : 0.0f) + sums[column];
    }
    group->executed = number;
    for (int i = 0; i < group_threads; ++i)
      if (group->members[i].waiting) wake(*threads[group->first_slot + i]);
    return true;
  }
};

// Accumulators that share registers with these and are not in flight are over; in flight, an error.
inline Accumulator &accumulator_of(Group &group, const Instruction &request) {
  float *first = request.d;
  for (auto entry = group.accumulators.begin(); entry != group.accumulators.end();) {
    auto &[start, old] = *entry;
    const bool same = start == first && old.columns == request.columns;
    const bool apart = start + old.columns / 2 <= first || first + request.columns / 2 <= start;
    if (!same && !apart) {
      if (old.last > group.members[0].retired)
        fail(current, "wgmma on a part of accumulator registers that another one in flight writes");
      entry = group.accumulators.erase(entry);
    } else {
      ++entry;
    }
  }
  Accumulator &result = group.accumulators[first];
  result.columns = request.columns;
  result.values.resize(static_cast<std::size_t>(matrix_rows) * request.columns);
  return result;
}

inline void take_registers(Group &group, Accumulator &target, const Instruction &request) {
  const int count = request.columns / 2;
  for (int i = 0; i < group_threads; ++i) {
    const Thread &thread = *threads[group.first_slot + i];
    ThreadOfGroup &member = group.members[i];
    float *registers = group.request[i].d;
    const bool in_flight = target.last > member.retired;
    if (in_flight && target.registers[i] != registers)
      fail(&thread, "wgmma: accumulators of the threads do not correspond");
    if (in_flight)
      check_poisoned(registers, count, thread);
    else
      for (int k = 0; k < count; ++k)
        target.values[fragment_place(i, k, request.columns)] = registers[k];
    if ((!in_flight || request.a_in_registers) && !member.fenced)
      fail(&thread, "wgmma without wgmma_fence since its registers were touched");
    target.registers[i] = registers;
    poison_registers(registers, count);
  }
}

inline std::vector<float> a_of_registers(const Group &group, Kind kind, int depth) {
  std::vector<float> values(static_cast<std::size_t>(matrix_rows) * depth);
  const int each = bytes_of(kind), count = 4 / each;
  for (int i = 0; i < group_threads; ++i)
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < count; ++e) {
        const int row = i / 32 * 16 + i % 32 / 4 + 8 * (r % 2);
        const int k = r / 2 * 4 * count + i % 4 * count + e;
        const auto code = group.request[i].registers[r] >> (8 * each * e);
        values[static_cast<std::size_t>(k) * matrix_rows + row] = decode(kind, code);
      }
  return values;
}

inline void issue(Group &group, const Thread &self, int line) {
  const Instruction &request = group.request[0];
  for (int i = 1; i < group_threads; ++i)
    if (!agree(group.request[i], request))
      fail(threads[group.first_slot + i].get(),
           "divergence: operands of one wgmma differ between the threads of the warpgroup");
  auto operation = std::make_unique<MatrixOperation>();
  operation->group = &group;
  operation->what = request;
  operation->depth = operand_bytes / bytes_of(request.kind);
  operation->text = "wgmma of " + std::string(role_of(self.number)) + " (warpgroup " +
                    std::to_string(self.group()) + ") of CTA " +
                    std::to_string(first_block + self.cta) + ", line " + std::to_string(line);
  const auto read = [&](std::uint64_t bits, int rows, bool transposed, const char *operand) {
    const Descriptor descriptor = decode_descriptor(bits, operand);
    return begin_read(self.cta, operand_units(descriptor, rows, operation->depth, transposed),
                      operation->text + ", operand " + operand);
  };
  if (request.a_in_registers)
    operation->a = a_of_registers(group, request.kind, operation->depth);
  else
    operation->a_seen = read(request.a, matrix_rows, request.transpose_a, "A");
  operation->b_seen = read(request.b, request.columns, request.transpose_b, "B");
  Accumulator &target = accumulator_of(group, request);
  take_registers(group, target, request);
  operation->target = &target;
  operation->number = target.last = ++group.issued;
  start_operation(std::move(operation), 0);
}

inline ThreadOfGroup &member_of(const Thread &self) {
  return groups[group_slot(self)].members[self.number % group_threads];
}

void matrix_multiply(const char *name, int line, const Instruction &request) {
  Thread &self = primitive(name, line);
  Group &group = groups[group_slot(self)];
  group.request[self.number % group_threads] = request;
  if (!meet_group(self, key_of(name, line))) return;
  issue(group, self, line);
  part(group_meetings[group_slot(self)]);
}

void matrix_fence(int line) {
  warp_together("wgmma_fence", line);
  member_of(*current).fenced = true;
}

void matrix_commit(int line) {
  warp_together("wgmma_commit", line);
  member_of(*current).groups.push_back(groups[group_slot(*current)].issued);
}

// The instructions of this thread up to `number` are done: their results come into its registers.
inline void retire(Thread &self, std::uint64_t number) {
  Group &group = groups[group_slot(self)];
  ThreadOfGroup &member = member_of(self);
  const int i = self.number % group_threads;
  for (auto &[first, target] : group.accumulators) {
    if (target.last <= member.retired || target.last > number) continue;
    const int count = target.columns / 2;
    check_poisoned(target.registers[i], count, self);
    for (int k = 0; k < count; ++k)
      target.registers[i][k] = target.values[fragment_place(i, k, target.columns)];
  }
  member.retired = std::max(member.retired, number);
  member.fenced = false;
}

void matrix_wait(int line, int pending) {
  warp_together("wgmma_wait", line);
  Thread &self = *current;
  const Group &group = groups[group_slot(self)];
  ThreadOfGroup &member = member_of(self);
  std::uint64_t number = 0;
  while (static_cast<int>(member.groups.size()) > pending) {
    number = member.groups.front();
    member.groups.pop_front();
  }
  member.waiting = true;
  while (group.executed < number) block("wgmma groups");
  member.waiting = false;
  if (number > 0) retire(self, number);
}

inline void check_matrices_at_exit(const Thread &self) {
  if ((self.group() + 1) * group_threads > settings.block) return;
  if (groups[group_slot(self)].issued > member_of(self).retired)
    fail(&self, "exit with wgmma in flight that nobody waited for");
}

}  // namespace titan::emulation
