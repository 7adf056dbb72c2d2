// mbarriers, hardware barriers, the barrier of a cluster, and warp- and warpgroup-wide meetings.
#pragma once

#include "memory.h"

namespace titan::emulation {

constexpr std::int64_t barrier_limit = (1 << 20) - 1;  // of counts and of outstanding bytes
constexpr int named_barriers = 16;

// ------------------------------------------------------------------------------ mbarrier

struct Barrier {
  std::int64_t count = 0, pending = 0, bytes = 0;
  std::uint64_t phase = 0;
  bool observed = true;  // a wait has seen the end of the phase before
  bool fenced = false;   // fence_barrier_init came after the initialisation
  int by = 0;            // slot of the thread that initialised it
  bool published = false;  // that thread has since come to a barrier of the CTA or cluster
  bool published_to_warp = false;
  std::vector<Thread *> waiting;
};
inline std::vector<std::map<int, Barrier>> barriers_of;  // for each CTA: offset -> barrier

inline std::string state_of(const Place &place, const Barrier &barrier) {
  char text[200];
  std::snprintf(text, sizeof text,
                "mbarrier at offset %d (phase %llu, %lld of %lld arrivals missing, "
                "%lld bytes missing)",
                place.offset, static_cast<unsigned long long>(barrier.phase),
                static_cast<long long>(barrier.pending), static_cast<long long>(barrier.count),
                static_cast<long long>(barrier.bytes));
  return text;
}

inline Barrier &barrier_at(const Place &place) {
  auto &table = barriers_of[place.cta];
  const auto found = table.find(place.offset);
  if (found == table.end())
    fail(current, "no initialised mbarrier at offset %d of shared memory", place.offset);
  return found->second;
}

inline Place barrier_place(const void *pointer) {
  const Place place = place_of(pointer, 8, "mbarrier");
  check_aligned(place.offset, 8, "mbarrier");
  return place;
}

inline void create_barrier(const void *pointer, std::uint32_t count) {
  const Place place = barrier_place(pointer);
  Shared &memory = shared_of[place.cta];
  if (place.cta != current->cta) fail(current, "initialisation of an mbarrier of another CTA");
  if (count < 1 || count > barrier_limit) fail(current, "mbarrier count %u out of range", count);
  const int word = place.offset / word_bytes;
  if (memory.barrier[word] || memory.barrier[word + 1])
    fail(current, "initialisation of a live mbarrier at offset %d", place.offset);
  if (memory.filling[place.offset / unit_bytes] || memory.readers[place.offset / unit_bytes])
    fail(current, "an mbarrier at offset %d where an operation in flight works", place.offset);
  memory.barrier[word] = memory.barrier[word + 1] = 1;
  Barrier &barrier = barriers_of[place.cta][place.offset];
  barrier.count = barrier.pending = count;
  barrier.by = current->slot;
}

inline void settle(const Place &place, Barrier &barrier) {
  if (barrier.pending != 0) return;
  if (barrier.bytes < 0)
    fail(current, "more bytes arrived than the phase expected: %s",
         state_of(place, barrier).c_str());
  if (barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.observed = false;
  for (Thread *thread : barrier.waiting) wake(*thread);
  barrier.waiting.clear();
}

// A barrier of the CTA or cluster, or of the warp alone, after the initialisation.
inline void publish_barriers(const Thread &self, bool warp_only) {
  for (auto &[offset, barrier] : barriers_of[self.cta]) {
    if (barrier.by != self.slot) continue;
    barrier.published_to_warp = true;
    barrier.published = barrier.published || !warp_only;
  }
}

inline void check_visible(const Place &place, const Barrier &barrier, const Thread &user) {
  const Thread &by = *threads[barrier.by];
  const bool same_warp = by.cta == user.cta && by.warp() == user.warp();
  if (by.slot != user.slot && !barrier.published && !(same_warp && barrier.published_to_warp))
    fail(&user, "mbarrier at offset %d is used by another thread than initialised it, with no "
         "barrier of the CTA in between", place.offset);
  if (settings.cluster > 1 && barrier.by != user.slot && !barrier.fenced)
    fail(&user, "mbarrier at offset %d is used by another thread than initialised it, without "
         "fence_barrier_init", place.offset);
}

inline void expect_bytes(const Place &place, std::int64_t bytes) {
  Barrier &barrier = barrier_at(place);
  check_visible(place, barrier, *current);
  barrier.bytes += bytes;
  if (barrier.bytes > barrier_limit)
    fail(current, "transaction count out of range: %s", state_of(place, barrier).c_str());
}

inline void arrive(const Place &place) {
  if (place.cta != current->cta) {
    bool gone = true;
    for (int i = 0; i < settings.block; ++i)
      gone = gone && threads[place.cta * settings.block + i]->state == State::done;
    if (gone) fail(current, "arrival at an mbarrier of a CTA that has exited");
  }
  Barrier &barrier = barrier_at(place);
  check_visible(place, barrier, *current);
  if (barrier.pending == 0)
    fail(current, "more arrivals than the count of the phase: %s",
         state_of(place, barrier).c_str());
  if (!barrier.observed)
    fail(current, "arrival in a phase although no wait has seen the end of the phase before: %s",
         state_of(place, barrier).c_str());
  --barrier.pending;
  settle(place, barrier);
}

inline void complete_bytes(const Place &place, std::int64_t bytes) {
  auto &table = barriers_of[place.cta];
  const auto found = table.find(place.offset);
  if (found == table.end())
    fail(nullptr, "a copy completes on offset %d of shared memory, where no mbarrier is",
         place.offset);
  Barrier &barrier = found->second;
  barrier.bytes -= bytes;
  if (barrier.bytes < -barrier_limit)
    fail(nullptr, "transaction count out of range: %s", state_of(place, barrier).c_str());
  settle(place, barrier);
}

// True iff the current phase is not the one asked for: the phase before counts as complete, also
// before the first.
inline bool phase_over(Barrier &barrier, std::uint32_t parity) {
  if ((barrier.phase & 1) == parity) return false;
  barrier.observed = true;
  return true;
}

inline bool test_phase(const void *pointer, std::uint32_t parity) {
  const Place place = barrier_place(pointer);
  if (place.cta != current->cta) fail(current, "wait at an mbarrier of another CTA");
  if (parity > 1) fail(current, "parity %u of a wait is neither 0 nor 1", parity);
  Barrier &barrier = barrier_at(place);
  check_visible(place, barrier, *current);
  return phase_over(barrier, parity);
}

inline void wait_phase(const void *pointer, std::uint32_t parity) {
  while (!test_phase(pointer, parity)) {
    const Place place = barrier_place(pointer);
    Barrier &barrier = barrier_at(place);
    barrier.waiting.push_back(current);
    block("parity " + std::to_string(parity) + " of the mbarrier at offset " +
          std::to_string(place.offset));
  }
  current->waited_unfenced = true;
}

void barrier_create(const void *barrier, std::uint32_t count, int line) {
  primitive("barrier_init", line);
  create_barrier(barrier, count);
}

void barrier_fence(int line) {
  const Thread &self = primitive("fence_barrier_init", line);
  for (auto &[offset, barrier] : barriers_of[self.cta])
    if (barrier.by == self.slot) barrier.fenced = true;
}

void barrier_arrival(const char *name, int line, const void *barrier, bool arrives,
                     std::uint32_t bytes) {
  primitive(name, line);
  const Place place = barrier_place(barrier);
  if (bytes > 0) expect_bytes(place, bytes);
  if (arrives) arrive(place);
}

void barrier_remote(const void *barrier, std::uint32_t cta, int line) {
  primitive("barrier_arrive_remote", line);
  if (cta >= static_cast<std::uint32_t>(settings.cluster))
    fail(current, "barrier_arrive_remote: no CTA %u in the cluster", cta);
  arrive({static_cast<int>(cta), barrier_place(barrier).offset});
}

bool barrier_test(const void *barrier, std::uint32_t parity, int line) {
  primitive("barrier_try_wait", line);
  const bool over = test_phase(barrier, parity);
  current->waited_unfenced = current->waited_unfenced || over;
  return over;
}

void barrier_block(const void *barrier, std::uint32_t parity, int line) {
  primitive("barrier_wait", line);
  wait_phase(barrier, parity);
}

// --------------------------------------------------------------------- hardware barriers

struct NamedBarrier {
  int expected = 0, arrived = 0;
  std::uint64_t generation = 0;
  std::vector<Thread *> waiting;
  std::vector<bool> here;  // threads that have arrived
};
inline std::vector<std::vector<NamedBarrier>> named_of;  // for each CTA

inline void named_barrier_here(int id, int count, bool wait) {
  Thread &self = *current;
  publish_barriers(self, false);
  if (id < 0 || id >= named_barriers) fail(&self, "hardware barrier %d: there are 16", id);
  if (count <= 0 || count % warp_threads != 0 || count > settings.block)
    fail(&self, "hardware barrier for %d threads: not a multiple of 32 up to the CTA's %d", count,
         settings.block);
  NamedBarrier &barrier = named_of[self.cta][id];
  if (barrier.arrived == 0) {
    barrier.expected = count;
    barrier.here.assign(settings.block, false);
  } else if (barrier.expected != count) {
    fail(&self, "hardware barrier %d: one thread says %d threads, another %d", id,
         barrier.expected, count);
  }
  if (barrier.here[self.number])
    fail(&self, "hardware barrier %d: a thread that has arrived comes again before the others", id);
  barrier.here[self.number] = true;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    for (Thread *thread : barrier.waiting) wake(*thread);
    barrier.waiting.clear();
    return;
  }
  if (!wait) return;
  const std::uint64_t generation = barrier.generation;
  barrier.waiting.push_back(&self);
  while (named_of[self.cta][id].generation == generation)
    block("hardware barrier " + std::to_string(id) + " for " + std::to_string(count) + " threads");
}

// ------------------------------------------------------------- warps, warpgroups, clusters

struct Exchange {  // values of a shuffle, two sets in turn: a fast lane may be one shuffle ahead
  std::uint32_t given[warp_threads];
  std::uint32_t taken[2][warp_threads];
  std::uint64_t turn = 0;
};
inline std::vector<Meeting> warp_meetings, group_meetings;
inline std::vector<Exchange> exchanges;
inline Meeting cluster_meeting;

inline std::string key_of(const char *name, int line) {
  return std::string(name) + ", line " + std::to_string(line);
}

inline bool meet_warp(const Thread &self, const std::string &key) {
  return meet(warp_meetings[warp_slot(self)], self.lane(), key, "warp");
}

inline void warp_together(const char *name, int line) {
  Thread &self = primitive(name, line);
  if (meet_warp(self, key_of(name, line))) part(warp_meetings[warp_slot(self)]);
}

inline int group_slot(const Thread &self) {
  const int groups = (warps_of_cta() + warps_of_group - 1) / warps_of_group;
  return self.cta * groups + self.group();
}

inline bool meet_group(const Thread &self, const std::string &key) {
  const int size = warp_threads * warps_of_group;
  if ((self.group() + 1) * size > settings.block)
    fail(&self, "a warpgroup instruction outside of a whole warpgroup");
  return meet(group_meetings[group_slot(self)], self.number % size, key, "warpgroup");
}

// Every lane gives a word and gets that of lane `source`.
std::uint32_t exchange(const char *name, int line, std::uint32_t value, int source) {
  Thread &self = primitive(name, line);
  Exchange &table = exchanges[warp_slot(self)];
  const std::uint64_t turn = warp_meetings[warp_slot(self)].generation;
  table.given[self.lane()] = value;
  if (meet_warp(self, key_of(name, line))) {
    std::memcpy(table.taken[turn % 2], table.given, sizeof table.given);
    part(warp_meetings[warp_slot(self)]);
  }
  return table.taken[turn % 2][source];
}

// The leader is the same for every call of a warp, and any lane: the architecture promises no more.
inline int leader_of(const Thread &self) {
  Random own{settings.seed * 977 + static_cast<std::uint64_t>(self.warp())};
  return static_cast<int>(own.below(warp_threads));
}

void cluster_barrier(int line) {
  Thread &self = primitive("cluster_sync", line);
  publish_barriers(self, false);
  if (meet(cluster_meeting, self.slot, "cluster_sync", "cluster")) part(cluster_meeting);
  self.waited_unfenced = true;
}

bool elect(int line) {
  warp_together("elect_one", line);
  return current->lane() == leader_of(*current);
}

void warp_barrier(int line) {
  publish_barriers(*current, true);
  warp_together("warp_sync", line);
}

void named_barrier(const char *name, int line, int id, int count, bool wait) {
  warp_together(name, line);
  named_barrier_here(id, count, wait);
}

void block_barrier(int line) {
  named_barrier("block_sync", line, 0, settings.block, true);
  current->waited_unfenced = true;
}

// -------------------------------------------------------------------------- register pool

struct Pool {
  int left = 0;
  std::vector<int> group;  // registers of each thread of the group
  std::vector<Thread *> waiting;
};
inline std::vector<Pool> pools;  // for each CTA

void change_registers(const char *name, int line, int count, bool increase) {
  Thread &self = primitive(name, line);
  if (count < 24 || count > 256 || count % 8 != 0)
    fail(&self, "setmaxnreg: %d is not a multiple of 8 from 24 to 256", count);
  const bool last = meet_group(self, key_of(name, line) + ", " + std::to_string(count));
  if (!last) return;
  Pool &pool = pools[self.cta];
  int &held = pool.group[self.group()];
  if (increase ? held > count : held < count)
    fail(&self, "setmaxnreg: from %d registers to %d is not an %s", held, count,
         increase ? "increase" : "decrease");
  while (pool.left < count - held) {
    pool.waiting.push_back(&self);
    block("registers: " + std::to_string(count - held) + " a thread more, the pool has " +
          std::to_string(pool.left));
  }
  pool.left -= count - held;
  held = count;
  for (Thread *thread : pool.waiting) wake(*thread);
  pool.waiting.clear();
  part(group_meetings[group_slot(self)]);
}

}  // namespace titan::emulation
