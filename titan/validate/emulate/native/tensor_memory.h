// Tensor memory and tcgen05: 128 lanes of 512 words, multiplications that an engine executes in the
// order in which a thread issued them, commits that arrive behind them, fetches into registers that
// hold poison until a wait, puts whose words hold poison until a wait. PTX ISA, tcgen05: tensor
// memory, data movement shapes, instruction and matrix descriptors, memory consistency model.
//
// Taken as stricter than hardware may be: every wait at an mbarrier and every barrier of the whole
// CTA or cluster is followed by `tensor_fence_after` before the thread's next access of tensor
// memory. Taken as more orderly: commits of one thread arrive in their order, and a multiplication
// overwrites what an earlier one of the same thread reads only once that one has read it.
#pragma once

#include "matrices.h"

namespace titan::emulation {

constexpr int tensor_lanes = 128, tensor_columns = 512, tensor_columns_min = 32;
constexpr int lanes_of_warp = 32, fragment_rows = 16, blocks_of_rows = 8, warps_of_cta_max = 32;

struct Access {     // of one sort, to 16 rows of a column
  int running = 0;  // that nobody has waited for
  int unfenced = 0;                                // without a tensor_fence_before since
  std::array<std::uint16_t, warps_of_cta_max> by{};  // those of each warp

  void count(int warp, int more) {
    unfenced += more;
    by[warp] = static_cast<std::uint16_t>(by[warp] + more);
  }
  bool foreign(int warp) const { return unfenced != by[warp]; }
};

struct Reach {
  bool written = false;
  Access fetches, puts;
};

struct TensorColumn {
  int allocation = 0;   // 0: not allocated; else the number of the allocation
  int writers = 0;      // multiplications in flight
  int writer = 0;       // slot of the thread that issued the last of them
  int first = 0, count = 0, type = 0;  // the accumulator and element type of the last of them
  int readers = 0;      // multiplications in flight that take A from here
  int reader = 0;       // slot of the thread that issued the last of them
  std::array<Reach, blocks_of_rows> reach;
};

enum class Shape { fragment, pairs };  // 16x256b and 16x128b: 2 words of a row in turn, or 1

struct Transfer {  // what a thread has asked for
  Shape shape = Shape::fragment;
  bool put = false;
  int column = 0, columns = 0;  // words of 32 bits
  int lane = 0;                 // the first row
  float *registers = nullptr;          // of a fetch
  std::vector<std::uint32_t> values;   // of a put
};

struct TensorThread {
  std::uint64_t issued = 0, executed = 0;  // multiplications and commits
  std::vector<Transfer> pending, unfenced;
};

struct TensorMemory {
  std::vector<float> words;  // [lane][column]
  std::vector<TensorColumn> columns;
  int allocations = 0, start = 0, size = 0, warp = -1;  // of the allocation that lives

  float &at(int lane, int column) { return words[lane * tensor_columns + column]; }
};
inline std::vector<TensorMemory> tensors_of;         // for each CTA of the cluster
inline std::vector<TensorThread> tensor_threads;     // for each thread of the cluster

inline void prepare_tensor_memory(int ctas, int count) {
  tensors_of.assign(ctas, TensorMemory{});
  for (TensorMemory &memory : tensors_of) {
    memory.words.assign(tensor_lanes * tensor_columns, poison_float());
    memory.columns.assign(tensor_columns, TensorColumn{});
  }
  tensor_threads.assign(count, TensorThread{});
}

inline TensorMemory &tensor_memory() { return tensors_of[current->cta]; }

inline void check_fenced(const Thread &self) {
  if (self.waited_unfenced)
    fail(&self, "missing tensor_fence_after: the thread has waited at a barrier since its last "
         "one");
}

// The columns from that of `address` on; they are allocated.
inline int checked_columns(std::uint32_t address, int count, const char *what) {
  const int column = static_cast<int>(address & 0xffff);
  if (column + count > tensor_columns)
    fail(current, "%s: columns %d to %d of tensor memory; there are %d", what, column,
         column + count - 1, tensor_columns);
  for (int c = column; c < column + count; ++c)
    if (tensor_memory().columns[c].allocation == 0)
      fail(current, "%s: column %d of tensor memory is not allocated", what, c);
  return column;
}

inline bool power_of_two(int columns) {
  return columns >= tensor_columns_min && columns <= tensor_columns &&
         (columns & (columns - 1)) == 0;
}

// All lanes of the warp say the same, or it is an error.
inline void agreed(const char *name, int line, std::uint32_t value) {
  if (exchange(name, line, value, 0) != value)
    fail(current, "divergence: %s with different operands within a warp", name);
}

// -------------------------------------------------------------------------- allocation

// Where the columns begin is up to the machine. The primitive gives up the right to allocate again.
void tensor_allocate(void *slot, int columns, int line) {
  const char *name = "tensor_memory_allocate";
  const Place place = place_of(slot, word_bytes, name);
  check_aligned(place.offset, word_bytes, name);
  agreed(name, line, static_cast<std::uint32_t>(place.offset));
  Thread &self = *current;
  if (!power_of_two(columns)) fail(&self, "%s: %d columns", name, columns);
  if (place.cta != self.cta) fail(&self, "%s: the slot is in another CTA", name);
  TensorMemory &memory = tensor_memory();
  if (!meet_warp(self, key_of(name, line))) return;
  if (memory.allocations++ > 0) fail(&self, "%s: allocation after the right was given up", name);
  memory.start = columns * static_cast<int>(dice.below(tensor_columns / columns));
  memory.size = columns;
  memory.warp = self.warp();
  for (int c = memory.start; c < memory.start + columns; ++c)
    memory.columns[c].allocation = memory.allocations;
  const auto address = static_cast<std::uint32_t>(memory.start);
  std::memcpy(slot, &address, word_bytes);
  Shared &shared = shared_of[place.cta];
  const int word = place.offset / word_bytes, unit = place.offset / unit_bytes;
  if (shared.barrier[word]) fail(&self, "%s: the slot is a live mbarrier", name);
  if (shared.filling[unit] != nullptr || shared.readers[unit] != 0)
    fail(&self, "%s: the slot is where an operation in flight works", name);
  shared.known[word] = 1;
  part(warp_meetings[warp_slot(self)]);
}

void tensor_free(std::uint32_t address, int columns, int line) {
  const char *name = "tensor_memory_free";
  agreed(name, line, address);
  Thread &self = *current;
  check_fenced(self);
  TensorMemory &memory = tensor_memory();
  if (!meet_warp(self, key_of(name, line))) return;
  if (memory.size == 0 || static_cast<int>(address) != memory.start || columns != memory.size)
    fail(&self, "%s: %d columns at %x are not what is allocated", name, columns, address);
  if (memory.warp != self.warp())
    fail(&self, "%s: warp %d has allocated them", name, memory.warp);
  for (int c = memory.start; c < memory.start + columns; ++c) {
    TensorColumn &column = memory.columns[c];
    if (column.writers != 0)
      fail(&self, "%s: a tensor_multiply in flight writes column %d", name, c);
    if (column.readers != 0)
      fail(&self, "%s: a tensor_multiply in flight reads column %d", name, c);
    for (const Reach &reach : column.reach) {
      if (reach.fetches.running != 0) fail(&self, "%s: a fetch in flight reads column %d", name, c);
      if (reach.puts.running != 0) fail(&self, "%s: a put in flight writes column %d", name, c);
      if (reach.fetches.unfenced != 0 || reach.puts.unfenced != 0)
        fail(&self, "%s: missing tensor_fence_before of a thread that %s column %d", name,
             reach.puts.unfenced != 0 ? "put to" : "fetched", c);
    }
    column = TensorColumn{};
    for (int lane = 0; lane < tensor_lanes; ++lane) memory.at(lane, c) = poison_float();
  }
  memory.size = 0;
  part(warp_meetings[warp_slot(self)]);
}

// ------------------------------------------------------------------------ multiplication

// Version 1 in bits 46 to 48, the swizzle in bits 61 to 63; otherwise as for wgmma.
inline Descriptor decode_tensor_descriptor(std::uint64_t bits, const char *operand) {
  constexpr std::uint64_t unused = 0x3ull << 14 | 0x3ull << 30 | 0x1ffull << 52;
  if (bits & unused)
    fail(current, "descriptor of %s: %016llx has bits outside of its fields", operand,
         static_cast<unsigned long long>(bits));
  if ((bits >> 46 & 7) != 1) fail(current, "descriptor of %s: its version is not 1", operand);
  if (bits >> 49 & 7)
    fail(current, "descriptor of %s: a base offset is not supported here", operand);
  const int mode = static_cast<int>(bits >> 61);
  if (mode != 0 && mode != 2 && mode != 4 && mode != 6)
    fail(current, "descriptor of %s: swizzle mode %d is not supported here", operand, mode);
  constexpr int width[8] = {0, 0, 128, 0, 64, 0, 32, 0};
  return {static_cast<int>(bits & 0x3fff) * 16, static_cast<int>(bits >> 16 & 0x3fff) * 16,
          static_cast<int>(bits >> 32 & 0x3fff) * 16, width[mode]};
}

struct TensorOperation : Operation {  // in the order of the thread that issued it
  int slot = 0, cta = 0;
  std::uint64_t number = 0;
  std::string text;

  std::string describe() const override { return text; }
  bool ready() const override { return number == tensor_threads[slot].executed + 1; }
};

struct TensorMultiply final : TensorOperation {
  Kind kind;
  int column = 0, columns = 0, depth = 0;
  int left = -1;  // the first column of A; -1: A is in shared memory
  bool transposed = false, accumulate = false;
  Snapshot a_seen, b_seen;

  int left_columns() const { return left < 0 ? 0 : operand_bytes / word_bytes; }

  // A from tensor memory: lane = row, the element with the lower number in the lower half. [k][row]
  std::vector<float> left_values(TensorMemory &memory) const {
    std::vector<float> values(static_cast<std::size_t>(tensor_lanes) * depth);
    for (int row = 0; row < tensor_lanes; ++row)
      for (int k = 0; k < depth; ++k) {
        std::uint32_t word;
        std::memcpy(&word, &memory.at(row, left + k / 2), word_bytes);
        values[static_cast<std::size_t>(k) * tensor_lanes + row] =
            decode(kind, word >> 16 * (k % 2) & 0xffff);
      }
    return values;
  }

  bool step() override {
    TensorMemory &memory = tensors_of[cta];
    if (left < 0) end_read(a_seen, text);
    end_read(b_seen, text);
    const std::vector<float> a =
        left < 0 ? operand_values(a_seen.bytes, kind, tensor_lanes, depth, false)
                 : left_values(memory);
    const std::vector<float> b = operand_values(b_seen.bytes, kind, columns, depth, transposed);
    std::vector<float> sums(columns);
    for (int row = 0; row < tensor_lanes; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int k = 0; k < depth; ++k) {
        const float factor = a[static_cast<std::size_t>(k) * tensor_lanes + row];
        const float *values = &b[static_cast<std::size_t>(k) * columns];
        for (int j = 0; j < columns; ++j) sums[j] += factor * values[j];
      }
      float *out = &memory.at(row, column);
      for (int j = 0; j < columns; ++j) out[j] = (accumulate ? out[j] : 0.0f) + sums[j];
    }
    for (int c = column; c < column + columns; ++c) --memory.columns[c].writers;
    for (int c = left; c < left + left_columns(); ++c) --memory.columns[c].readers;
    tensor_threads[slot].executed = number;
    return true;
  }
};

struct TensorCommit final : TensorOperation {
  Place barrier;

  bool step() override {
    Barrier &target = barrier_at(barrier);
    if (target.pending == 0)
      fail(nullptr, "more arrivals than the count of the phase: %s, %s",
           state_of(barrier, target).c_str(), text.c_str());
    if (!target.observed)
      fail(nullptr, "arrival in a phase although no wait has seen the end of the phase before: %s, "
           "%s", state_of(barrier, target).c_str(), text.c_str());
    --target.pending;
    settle(barrier, target);
    tensor_threads[slot].executed = number;
    return true;
  }
};

inline void enqueue(std::unique_ptr<TensorOperation> operation, const Thread &self) {
  operation->slot = self.slot;
  operation->cta = self.cta;
  operation->number = ++tensor_threads[self.slot].issued;
  start_operation(std::move(operation), 0);
}

// What threads fetch from or put to a column is over, and fenced.
inline void check_settled(const TensorColumn &column, int c, const char *does) {
  for (const Reach &reach : column.reach) {
    if (reach.puts.running != 0)
      fail(current, "tensor_multiply %s column %d, which a put in flight writes", does, c);
    if (reach.puts.unfenced != 0)
      fail(current, "missing tensor_fence_before: tensor_multiply %s column %d, to which a thread "
           "has put without one since", does, c);
  }
}

// Multiplications in flight on one accumulator are ordered when one thread issued them with the
// same shape and type, and not otherwise.
inline void take_columns(const TensorMultiply &what, int type) {
  TensorMemory &memory = tensor_memory();
  for (int c = what.left; c < what.left + what.left_columns(); ++c) {
    TensorColumn &column = memory.columns[c];
    check_settled(column, c, "reads A from");
    for (const Reach &reach : column.reach)
      if (!reach.written)
        fail(current, "tensor_multiply reads A from column %d, which nobody wrote", c);
    if (column.writers != 0)
      fail(current, "tensor_multiply reads A from column %d, which one in flight writes", c);
    ++column.readers;
    column.reader = current->slot;
  }
  for (int c = what.column; c < what.column + what.columns; ++c) {
    TensorColumn &column = memory.columns[c];
    check_settled(column, c, "writes");
    for (const Reach &reach : column.reach) {
      if (reach.fetches.running != 0)
        fail(current, "tensor_multiply writes column %d, which a fetch in flight reads", c);
      if (reach.fetches.unfenced != 0)
        fail(current, "missing tensor_fence_before: tensor_multiply writes column %d, which a "
             "thread has fetched without one since", c);
      if (what.accumulate && !reach.written)
        fail(current, "tensor_multiply adds to column %d, which nobody wrote", c);
    }
    const bool alike = column.writer == current->slot && column.first == what.column &&
                       column.count == what.columns && column.type == type;
    if (column.writers != 0 && !alike)
      fail(current, "tensor_multiply writes column %d, which another one in flight writes, of "
           "another thread, shape or type", c);
    const bool own = what.left >= 0 && c >= what.left && c < what.left + what.left_columns();
    if (column.readers != 0 && (column.reader != current->slot || own))
      fail(current, "tensor_multiply writes column %d, from which one in flight takes A", c);
    for (Reach &reach : column.reach) reach.written = true;
    ++column.writers;
    column.writer = current->slot;
    column.first = what.column;
    column.count = what.columns;
    column.type = type;
  }
}

void tensor_multiplication(std::uint32_t d, const Instruction &request, int line) {
  const char *name = request.a_in_registers ? "tensor_multiply_pairs" : "tensor_multiply";
  Thread &self = primitive(name, line);
  check_fenced(self);
  if (request.columns < 16 || request.columns > 256 || request.columns % 16 != 0)
    fail(&self, "%s: %d columns", name, request.columns);
  if (d >> 16 != 0) fail(&self, "%s: the accumulator begins at lane %u", name, d >> 16);
  auto operation = std::make_unique<TensorMultiply>();
  operation->kind = request.kind;
  operation->column = checked_columns(d, request.columns, name);
  operation->columns = request.columns;
  operation->depth = operand_bytes / bytes_of(request.kind);
  operation->transposed = request.transpose_b;
  operation->accumulate = request.accumulate;
  operation->text = "tensor_multiply into column " + std::to_string(operation->column) +
                    " of tensor memory, issued by " + where(self);
  const Descriptor b = decode_tensor_descriptor(request.b, "B");
  if (request.a_in_registers) {  // in tensor memory
    const auto left = static_cast<std::uint32_t>(request.a);
    if (left >> 16 != 0) fail(&self, "%s: A begins at lane %u", name, left >> 16);
    operation->left = checked_columns(left, operand_bytes / word_bytes, name);
  } else {
    const Descriptor a = decode_tensor_descriptor(request.a, "A");
    operation->a_seen =
        begin_read(self.cta, operand_units(a, tensor_lanes, operation->depth, false),
                   operation->text + ", A");
  }
  operation->b_seen = begin_read(
      self.cta, operand_units(b, request.columns, operation->depth, request.transpose_b),
      operation->text + ", B");
  take_columns(*operation, static_cast<int>(request.kind));
  enqueue(std::move(operation), self);
}

void tensor_arrival(const void *barrier, int line) {
  Thread &self = primitive("tensor_commit", line);
  const Place place = barrier_place(barrier);
  if (place.cta != self.cta) fail(&self, "tensor_commit to an mbarrier of another CTA");
  check_visible(place, barrier_at(place), self);
  auto operation = std::make_unique<TensorCommit>();
  operation->barrier = place;
  operation->text = "tensor_commit issued by " + where(self);
  enqueue(std::move(operation), self);
}

// ------------------------------------------------------------------------ fetches and puts

inline int registers_of(const Transfer &transfer) { return transfer.columns / 2; }

// The word of register `index` of lane `lane` of the warp.
inline float &word_of(TensorMemory &memory, const Transfer &transfer, int lane, int index) {
  if (transfer.shape == Shape::pairs)
    return memory.at(transfer.lane + lane / 4 + 8 * (index % 2),
                     transfer.column + lane % 4 + 4 * (index / 2));
  return memory.at(transfer.lane + lane / 4 + 8 * (index / 2 % 2),
                   transfer.column + index / 4 * 8 + lane % 4 * 2 + index % 2);
}

inline Access &access_of(const Transfer &transfer, int column) {
  Reach &reach = tensor_memory().columns[column].reach[transfer.lane / fragment_rows];
  return transfer.put ? reach.puts : reach.fetches;
}

// The transfer of a warp, as far as `address` and the columns (of 32 bits) say it.
inline Transfer transfer_of(const char *name, int line, std::uint32_t address, int columns) {
  agreed(name, line, address);
  const Thread &self = *current;
  check_fenced(self);
  const int first = static_cast<int>(address >> 16), own = self.warp() % 4 * lanes_of_warp;
  if (first < own || first + fragment_rows > own + lanes_of_warp || first % fragment_rows != 0)
    fail(&self, "%s: lanes %d to %d; the warp reaches %d to %d", name, first,
         first + fragment_rows - 1, own, own + lanes_of_warp - 1);
  Transfer transfer;
  transfer.column = checked_columns(address, columns, name);
  transfer.columns = columns;
  transfer.lane = first;
  return transfer;
}

// What this warp has put is in its own order once it has waited; what another one has put is there
// once that one has waited and fenced, too.
inline void begin_transfer(const char *name, Transfer transfer) {
  const Thread &self = *current;
  for (int c = transfer.column; c < transfer.column + transfer.columns; ++c) {
    TensorColumn &column = tensor_memory().columns[c];
    Reach &reach = column.reach[transfer.lane / fragment_rows];
    const char *does = transfer.put ? "writes" : "reads";
    if (column.writers != 0)
      fail(&self, "%s %s column %d, which a tensor_multiply in flight writes", name, does, c);
    if (reach.puts.running != 0 && !transfer.put)
      fail(&self, "%s reads column %d, which a put in flight writes", name, c);
    if (reach.puts.foreign(self.warp()))
      fail(&self, "missing tensor_fence_before: %s %s column %d, to which another warp has put "
           "without one since", name, does, c);
    if (!transfer.put && !reach.written)
      fail(&self, "%s reads column %d, which nobody wrote", name, c);
    if (transfer.put && column.readers != 0)
      fail(&self, "%s writes column %d, from which a tensor_multiply in flight takes A", name, c);
    if (transfer.put && reach.fetches.running != 0)
      fail(&self, "%s writes column %d, which a fetch in flight reads", name, c);
    if (transfer.put && reach.fetches.foreign(self.warp()))
      fail(&self, "missing tensor_fence_before: %s writes column %d, which another warp has "
           "fetched without one since", name, c);
    if (transfer.put) reach.written = true;
    Access &access = access_of(transfer, c);
    ++access.running;
    access.count(self.warp(), 1);
  }
  tensor_threads[self.slot].pending.push_back(std::move(transfer));
}

void tensor_fetch(int line, float *registers, std::uint32_t address, int columns) {
  const char *name = "tensor_memory_fetch";
  Transfer transfer = transfer_of(name, line, address, columns);
  transfer.registers = registers;
  begin_transfer(name, transfer);
  poison_registers(registers, registers_of(transfer));
}

// `values`: the words of the lane's registers. They may be overwritten at once.
void tensor_put(const char *name, int line, const void *values, std::uint32_t address, int columns,
                bool pairs) {
  Transfer transfer = transfer_of(name, line, address, columns);
  transfer.put = true;
  transfer.shape = pairs ? Shape::pairs : Shape::fragment;
  transfer.values.resize(registers_of(transfer));
  std::memcpy(transfer.values.data(), values, transfer.values.size() * word_bytes);
  begin_transfer(name, transfer);
  for (int i = 0; i < registers_of(transfer); ++i)
    word_of(tensor_memory(), transfer, current->lane(), i) = poison_float();
}

inline void end_fetch(const Transfer &fetch) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(fetch.registers);
  for (std::size_t i = 0; i < sizeof(float) * registers_of(fetch); ++i)
    if (bytes[i] != poison_byte())
      fail(current, "register %zu was written while a fetch into it is in flight", i / 4);
  for (int i = 0; i < registers_of(fetch); ++i)
    fetch.registers[i] = word_of(tensor_memory(), fetch, current->lane(), i);
}

void tensor_wait(bool puts, int line) {
  warp_together(puts ? "tensor_put_wait" : "tensor_load_wait", line);
  TensorThread &mine = tensor_threads[current->slot];
  std::vector<Transfer> others;
  for (Transfer &transfer : mine.pending) {
    if (transfer.put != puts) {
      others.push_back(std::move(transfer));
      continue;
    }
    if (!puts) end_fetch(transfer);
    for (int i = 0; puts && i < registers_of(transfer); ++i)
      std::memcpy(&word_of(tensor_memory(), transfer, current->lane(), i), &transfer.values[i],
                  word_bytes);
    for (int c = transfer.column; c < transfer.column + transfer.columns; ++c)
      --access_of(transfer, c).running;
    mine.unfenced.push_back(std::move(transfer));
  }
  mine.pending = std::move(others);
}

// -------------------------------------------------------------------------------- fences

void tensor_fence(bool after, int line) {
  Thread &self = primitive(after ? "tensor_fence_after" : "tensor_fence_before", line);
  if (after) {
    self.waited_unfenced = false;
    return;
  }
  TensorThread &mine = tensor_threads[self.slot];
  for (const Transfer &transfer : mine.unfenced)
    for (int c = transfer.column; c < transfer.column + transfer.columns; ++c)
      access_of(transfer, c).count(self.warp(), -1);
  mine.unfenced.clear();
}

inline void check_tensor_at_exit(const Thread &self) {
  if (!tensor_threads[self.slot].pending.empty())
    fail(&self, "exit with fetches from tensor memory or puts that nobody waited for");
}

// Once all threads of the CTA are done.
inline void check_tensor_at_end(const Thread &self) {
  if (tensors_of[self.cta].size != 0)
    fail(&self, "the CTA exits with %d columns of tensor memory not freed",
         tensors_of[self.cta].size);
  for (const auto &operation : engine) {
    const auto *tensor = dynamic_cast<const TensorOperation *>(operation.get());
    if (tensor != nullptr && tensor->cta == self.cta)
      fail(&self, "the CTA exits with an operation in flight: %s", tensor->text.c_str());
  }
}

}  // namespace titan::emulation
