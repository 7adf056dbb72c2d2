// Shared memory with what is known of every byte: written or not, by whom and whether a proxy fence
// followed, and which engine is about to read or write it. Engines work on units of 16 bytes,
// ordinary accesses on words of 4.
#pragma once

#include "machine.h"

namespace titan::emulation {

constexpr std::uint32_t shared_base = 0x400;          // where the CTA's memory starts
constexpr std::uint32_t cta_stride = 0x01000000;      // from one CTA of the cluster to the next
constexpr int unit_bytes = 16;
constexpr int word_bytes = 4;

struct Shared {
  unsigned char *data = nullptr;
  int bytes = 0;
  std::vector<char> known;                   // for each word: something has been written
  std::vector<int> writer;                   // for each word: slot + 1 of who wrote without a fence
  std::vector<int> readers;                  // for each unit: engines that will read it
  std::vector<const Operation *> filling;    // for each unit: the engine that will write it
  std::vector<int> read_unfenced;            // for each unit: ordinary reads without a fence
  std::vector<char> barrier;                 // for each word: part of a live mbarrier

  void create(int size) {
    bytes = (size + unit_bytes - 1) / unit_bytes * unit_bytes;
    if (data == nullptr) data = guarded(bytes, 1024);
    std::memset(data, poison_byte(), bytes);
    known.assign(bytes / word_bytes, 0);
    writer.assign(bytes / word_bytes, 0);
    barrier.assign(bytes / word_bytes, 0);
    readers.assign(bytes / unit_bytes, 0);
    filling.assign(bytes / unit_bytes, nullptr);
    read_unfenced.assign(bytes / unit_bytes, 0);
  }
};
inline std::vector<Shared> shared_of;  // for each CTA of the cluster
inline bool reads_need_fences = true;

struct Place {
  int cta = 0;
  int offset = 0;
};

inline Place place_of(const void *pointer, int bytes, const char *what) {
  const auto *address = static_cast<const unsigned char *>(pointer);
  for (std::size_t cta = 0; cta < shared_of.size(); ++cta) {
    const Shared &memory = shared_of[cta];
    const std::ptrdiff_t offset = address - memory.data;
    if (offset >= 0 && offset < memory.bytes) {
      if (offset + bytes > memory.bytes)
        fail(current, "%s reaches beyond the shared memory: offset %td, %d bytes of %d", what,
             offset, bytes, memory.bytes);
      return {static_cast<int>(cta), static_cast<int>(offset)};
    }
  }
  fail(current, "%s: the address is not in shared memory", what);
}

std::uint32_t address_of(const void *pointer) {
  const Place place = place_of(pointer, 1, "shared_address");
  const std::uint32_t rank = place.cta == current->cta ? 0 : place.cta;  // own CTA: shared::cta
  return shared_base + static_cast<std::uint32_t>(place.offset) + rank * cta_stride;
}

std::uint32_t address_in(const void *pointer, std::uint32_t cta) {
  const Place place = place_of(pointer, 1, "map_shared");
  if (cta >= static_cast<std::uint32_t>(settings.cluster))
    fail(current, "map_shared: no CTA %u in the cluster", cta);
  return shared_base + static_cast<std::uint32_t>(place.offset) + cta * cta_stride;
}

inline std::string thread_name(int slot) { return where(*threads[slot]); }

// ------------------------------------------------------------------- ordinary accesses

inline void check_aligned(int offset, int bytes, const char *what) {
  if (offset % bytes != 0)
    fail(current, "%s of %d bytes at offset %d of shared memory is not aligned", what, bytes,
         offset);
}

void ordinary_store(void *pointer, const void *value, int bytes, int line) {
  current->primitive = "store to shared memory";
  current->line = line;
  if (dice.one_in(8)) schedule();
  const Place place = place_of(pointer, bytes, "store");
  check_aligned(place.offset, bytes, "store");
  Shared &memory = shared_of[place.cta];
  const int unit = place.offset / unit_bytes;
  if (memory.filling[unit] != nullptr)
    fail(current, "store to shared memory at offset %d, which an operation in flight writes: %s",
         place.offset, memory.filling[unit]->describe().c_str());
  if (memory.readers[unit] != 0)
    fail(current, "store to shared memory at offset %d, which an operation in flight reads",
         place.offset);
  for (int word = place.offset / word_bytes; word * word_bytes < place.offset + bytes; ++word) {
    if (memory.barrier[word])
      fail(current, "store into a live mbarrier at offset %d", place.offset);
    memory.known[word] = 1;
    memory.writer[word] = current->slot + 1;
    current->written.emplace_back(place.cta, word);
  }
  std::memcpy(pointer, value, bytes);
}

void ordinary_load(const void *pointer, void *value, int bytes, int line) {
  current->primitive = "load from shared memory";
  current->line = line;
  if (dice.one_in(8)) schedule();
  const Place place = place_of(pointer, bytes, "load");
  check_aligned(place.offset, bytes, "load");
  Shared &memory = shared_of[place.cta];
  const int unit = place.offset / unit_bytes;
  if (memory.filling[unit] != nullptr)
    fail(current, "load of bytes in flight at offset %d of shared memory: %s", place.offset,
         memory.filling[unit]->describe().c_str());
  for (int word = place.offset / word_bytes; word * word_bytes < place.offset + bytes; ++word) {
    if (memory.barrier[word])
      fail(current, "load from a live mbarrier at offset %d", place.offset);
    if (!memory.known[word])
      fail(current, "load of bytes that nobody wrote at offset %d of shared memory", place.offset);
  }
  if (reads_need_fences) {
    ++memory.read_unfenced[unit];
    current->read.emplace_back(place.cta, unit);
  }
  std::memcpy(value, pointer, bytes);
}

void fence_async(int line) {
  Thread &self = primitive("fence_proxy_async", line);
  for (const auto &[cta, word] : self.written)
    if (shared_of[cta].writer[word] == self.slot + 1) shared_of[cta].writer[word] = 0;
  for (const auto &[cta, unit] : self.read) --shared_of[cta].read_unfenced[unit];
  self.written.clear();
  self.read.clear();
}

// ------------------------------------------------------------------- accesses of engines

struct Snapshot {  // what an engine will read, as it was when the operation was issued
  int cta = 0;
  std::vector<int> units;
  std::vector<unsigned char> bytes;
};

inline Snapshot begin_read(int cta, std::vector<int> units, const std::string &what) {
  Shared &memory = shared_of[cta];
  Snapshot seen{cta, std::move(units), {}};
  seen.bytes.resize(seen.units.size() * unit_bytes);
  for (std::size_t i = 0; i < seen.units.size(); ++i) {
    const int unit = seen.units[i], offset = unit * unit_bytes;
    if (offset < 0 || offset + unit_bytes > memory.bytes)
      fail(current, "%s reads beyond the shared memory: offset %d of %d", what.c_str(), offset,
           memory.bytes);
    if (memory.filling[unit] != nullptr)
      fail(current, "%s reads bytes in flight at offset %d of shared memory: %s", what.c_str(),
           offset, memory.filling[unit]->describe().c_str());
    for (int word = offset / word_bytes; word < (offset + unit_bytes) / word_bytes; ++word) {
      if (memory.barrier[word])
        fail(current, "%s reads a live mbarrier at offset %d", what.c_str(), offset);
      if (!memory.known[word])
        fail(current, "%s reads bytes that nobody wrote at offset %d of shared memory",
             what.c_str(), word * word_bytes);
      if (memory.writer[word] != 0)
        fail(current, "missing proxy fence: %s reads shared memory at offset %d, written by %s, "
             "which executed no fence_proxy_async since", what.c_str(), word * word_bytes,
             thread_name(memory.writer[word] - 1).c_str());
    }
    ++memory.readers[unit];
    std::memcpy(&seen.bytes[i * unit_bytes], memory.data + offset, unit_bytes);
  }
  return seen;
}

inline void end_read(const Snapshot &seen, const std::string &what) {
  Shared &memory = shared_of[seen.cta];
  for (std::size_t i = 0; i < seen.units.size(); ++i) {
    const int offset = seen.units[i] * unit_bytes;
    if (std::memcmp(&seen.bytes[i * unit_bytes], memory.data + offset, unit_bytes) != 0)
      fail(nullptr, "shared memory at offset %d changed while an operation in flight reads it: %s",
           offset, what.c_str());
    --memory.readers[seen.units[i]];
  }
}

inline void begin_write(int cta, const std::vector<int> &units, const Operation *operation) {
  Shared &memory = shared_of[cta];
  const std::string what = operation->describe();
  for (const int unit : units) {
    const int offset = unit * unit_bytes;
    if (offset < 0 || offset + unit_bytes > memory.bytes)
      fail(current, "%s writes beyond the shared memory: offset %d of %d", what.c_str(), offset,
           memory.bytes);
    if (memory.filling[unit] != nullptr)
      fail(current, "%s writes where another operation in flight writes, offset %d: %s",
           what.c_str(), offset, memory.filling[unit]->describe().c_str());
    if (memory.readers[unit] != 0)
      fail(current, "%s writes shared memory at offset %d, which an operation in flight reads",
           what.c_str(), offset);
    if (memory.read_unfenced[unit] != 0)
      fail(current, "missing proxy fence: %s overwrites offset %d of shared memory, which a thread "
           "has read without a fence_proxy_async since", what.c_str(), offset);
    for (int word = offset / word_bytes; word < (offset + unit_bytes) / word_bytes; ++word) {
      if (memory.barrier[word])
        fail(current, "%s overwrites a live mbarrier at offset %d", what.c_str(), offset);
      if (memory.writer[word] != 0)
        fail(current, "missing proxy fence: %s overwrites offset %d of shared memory, written by "
             "%s, which executed no fence_proxy_async since", what.c_str(), word * word_bytes,
             thread_name(memory.writer[word] - 1).c_str());
      memory.known[word] = 0;
    }
    memory.filling[unit] = operation;
    std::memset(memory.data + offset, poison_byte(), unit_bytes);
  }
}

inline void write_unit(int cta, int unit, const unsigned char *bytes) {
  Shared &memory = shared_of[cta];
  std::memcpy(memory.data + unit * unit_bytes, bytes, unit_bytes);
  for (int i = 0; i < unit_bytes / word_bytes; ++i)
    memory.known[unit * unit_bytes / word_bytes + i] = 1;
  memory.filling[unit] = nullptr;
}

}  // namespace titan::emulation
