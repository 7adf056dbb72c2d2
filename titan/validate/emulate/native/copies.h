// Bulk tensor copies: boxes of a tensor to and from shared memory, moved by engines at times of
// their own choice, loads in instalments. Coordinates, strides and boxes are innermost first.
#pragma once

#include "barriers.h"

namespace titan::emulation {

constexpr int rank_max = 5;

struct Map {  // the arguments of cuTensorMapEncodeTiled
  std::string name;
  unsigned char *base = nullptr;
  int rank = 0, element_bytes = 0, swizzle_bytes = 0;
  long long size[rank_max] = {}, stride_bytes[rank_max] = {}, box[rank_max] = {};

  long long box_elements() const {
    long long count = 1;
    for (int i = 0; i < rank; ++i) count *= box[i];
    return count;
  }
  long long box_bytes() const { return box_elements() * element_bytes; }
};
inline std::vector<Map> maps;

// The shared-memory units of a box whose first byte lies at `offset`, in the order of the elements.
inline std::vector<int> box_units(const Map &map, int offset) {
  std::vector<int> units;
  for (long long byte = 0; byte < map.box_bytes(); byte += unit_bytes) {
    const auto logical = shared_base + static_cast<std::uint32_t>(offset + byte);
    units.push_back(
        static_cast<int>(swizzle_address(logical, map.swizzle_bytes) - shared_base) / unit_bytes);
  }
  return units;
}

// The address of an element of the box in global memory; null where it lies outside of the tensor.
inline unsigned char *element_of(const Map &map, const std::vector<int> &start, long long number) {
  unsigned char *address = map.base;
  for (int i = 0; i < map.rank; ++i) {
    const long long index = start[i] + number % map.box[i];
    number /= map.box[i];
    if (index < 0 || index >= map.size[i]) return nullptr;
    address += index * map.stride_bytes[i];
  }
  return address;
}

inline std::string copy_text(const char *what, const Map &map, const std::vector<int> &start,
                             int offset) {
  std::string text = std::string(what) + " of " + map.name + " at (";
  for (std::size_t i = 0; i < start.size(); ++i)
    text += (i ? ", " : "") + std::to_string(start[i]);
  return text + ") and offset " + std::to_string(offset) + " of shared memory, issued by " +
         where(*current);
}

struct TensorLoad final : Operation {
  const Map *map;
  std::vector<int> start;
  int cta, offset;
  Place barrier;
  std::vector<int> units;
  std::size_t done = 0;
  bool backwards = false;
  std::string text;

  std::string describe() const override { return text; }

  bool step() override {
    const auto left = static_cast<std::uint32_t>(units.size() - done);
    const std::uint32_t part = dice.one_in(2) ? left : 1 + dice.below(left);
    for (std::uint32_t i = 0; i < part; ++i, ++done)
      move(backwards ? units.size() - 1 - done : done);
    complete_bytes(barrier, static_cast<std::int64_t>(part) * unit_bytes);
    return done == units.size();
  }

  void move(std::size_t number) {
    unsigned char bytes[unit_bytes] = {};
    const int each = map->element_bytes, count = unit_bytes / each;
    for (int i = 0; i < count; ++i) {
      const auto element = static_cast<long long>(number) * count + i;
      const unsigned char *source = element_of(*map, start, element);
      if (source != nullptr) std::memcpy(bytes + i * each, source, each);
    }
    check_untouched(units[number]);
    write_unit(cta, units[number], bytes);
  }

  void check_untouched(int unit) const {
    const unsigned char *bytes = shared_of[cta].data + unit * unit_bytes;
    for (int i = 0; i < unit_bytes; ++i)
      if (bytes[i] != poison_byte())
        fail(nullptr, "shared memory at offset %d changed while an operation writes it: %s",
             unit * unit_bytes + i, text.c_str());
  }
};

struct TensorStore final : Operation {
  const Map *map;
  std::vector<int> start;
  Snapshot seen;
  std::shared_ptr<BulkGroup> group;
  Thread *issuer;
  bool read = false;
  std::string text;

  std::string describe() const override { return text; }

  bool step() override {
    const bool last = read;
    if (!read) {
      end_read(seen, text);
      read = true;
      --group->unread;
    } else {
      write();
      --group->unwritten;
    }
    if (issuer->state == State::blocked && issuer->waits_for.rfind("bulk", 0) == 0) wake(*issuer);
    return last;
  }

  void write() const {
    const int each = map->element_bytes;
    for (long long i = 0; i < map->box_elements(); ++i) {
      unsigned char *target = element_of(*map, start, i);
      if (target != nullptr) std::memcpy(target, &seen.bytes[i * each], each);
    }
  }
};

inline const Map &checked_map(int number, const std::vector<int> &start, const char *what) {
  if (number < 0 || number >= static_cast<int>(maps.size()))
    fail(current, "%s: not a tensor map of the launch", what);
  const Map &map = maps[number];
  if (map.rank != static_cast<int>(start.size()))
    fail(current, "%s: %zu coordinates for %s, which has %d dimensions", what, start.size(),
         map.name.c_str(), map.rank);
  return map;
}

inline int checked_offset(const Place &place, const char *what) {
  if (place.offset % 128 != 0)
    fail(current, "%s: offset %d of shared memory is not a multiple of 128", what, place.offset);
  return place.offset;
}

// `targets` negative: the issuing CTA alone.
void start_load(const char *name, int line, void *destination, int map_number,
                const void *barrier, const int *coordinates, int rank, int targets) {
  Thread &self = primitive(name, line);
  const std::vector<int> start(coordinates, coordinates + rank);
  const unsigned mask = targets < 0 ? 1u << self.cta : static_cast<unsigned>(targets);
  const Map &map = checked_map(map_number, start, name);
  const Place place = place_of(destination, static_cast<int>(map.box_bytes()), name);
  const Place gate = barrier_place(barrier);
  if (place.cta != self.cta || gate.cta != self.cta)
    fail(&self, "%s: destination and mbarrier must be the issuing CTA's own", name);
  if (mask == 0 || mask >> settings.cluster != 0)
    fail(&self, "%s: mask %x names CTAs outside of the cluster", name, mask);
  for (int cta = 0; cta < settings.cluster; ++cta) {
    if ((mask >> cta & 1) == 0) continue;
    auto load = std::make_unique<TensorLoad>();
    load->map = &map;
    load->start = start;
    load->cta = cta;
    load->offset = checked_offset(place, name);
    load->barrier = {cta, gate.offset};
    load->text = copy_text(name, map, start, place.offset);
    load->units = box_units(map, place.offset);
    load->backwards = dice.one_in(2);
    check_visible(load->barrier, barrier_at(load->barrier), self);
    begin_write(cta, load->units, load.get());
    start_operation(std::move(load), 2 + static_cast<std::uint64_t>(map_number));
  }
}

void start_store(int line, int map_number, const void *source, const int *coordinates, int rank) {
  const char *name = "tensor_store";
  Thread &self = primitive(name, line);
  const std::vector<int> start(coordinates, coordinates + rank);
  const Map &map = checked_map(map_number, start, name);
  const Place place = place_of(source, static_cast<int>(map.box_bytes()), name);
  if (place.cta != self.cta) fail(&self, "%s: the source must be the issuing CTA's own", name);
  for (const int coordinate : start)
    if (coordinate < 0) fail(&self, "%s: negative coordinate %d", name, coordinate);
  auto store = std::make_unique<TensorStore>();
  store->map = &map;
  store->start = start;
  store->text = copy_text(name, map, start, place.offset);
  store->seen = begin_read(self.cta, box_units(map, checked_offset(place, name)), store->text);
  if (self.open == nullptr) self.open = std::make_shared<BulkGroup>();
  store->group = self.open;
  store->issuer = &self;
  ++self.open->unread;
  ++self.open->unwritten;
  start_operation(std::move(store), 1);
}

void commit_bulk(int line) {
  Thread &self = primitive("bulk_commit", line);
  self.bulk.push_back(self.open != nullptr ? self.open : std::make_shared<BulkGroup>());
  self.open = nullptr;
}

// Groups that a wait has found read stay listed until one has found them written.
void wait_bulk(const char *name, int line, int pending, bool read_only) {
  Thread &self = primitive(name, line);
  const auto over = [&] {
    const auto older = static_cast<int>(self.bulk.size()) - pending;
    for (int i = 0; i < older; ++i)
      if (read_only ? self.bulk[i]->unread : self.bulk[i]->unwritten) return false;
    return true;
  };
  while (!over())
    block("bulk groups: at most " + std::to_string(pending) +
          (read_only ? " unread" : " unwritten"));
  self.awaited = std::max(self.awaited, self.committed() - pending);
  if (read_only) return;
  while (static_cast<int>(self.bulk.size()) > pending) {
    self.bulk.pop_front();
    ++self.retired;
  }
}

inline void check_bulk_at_exit(const Thread &self) {
  if (self.open != nullptr) fail(&self, "exit with bulk stores that are not committed");
  if (self.awaited < self.committed())
    fail(&self, "exit with %d bulk groups whose reads of shared memory nobody waited for",
         self.committed() - self.awaited);
}

}  // namespace titan::emulation
