// The machine: threads as fibers, a seeded scheduler that chooses the next one at every primitive,
// and engines whose work is delayed as long as the seed likes. Failures end the process with a
// message that names role, thread and primitive.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "fibers.h"
#include "runtime.h"

namespace titan::emulation {

constexpr int fault_exit = 3;  // the process ends with this when the kernel is at fault
constexpr int warp_threads = 32;
constexpr int warps_of_group = 4;
constexpr std::uint32_t all_lanes = 0xffffffffu;
constexpr std::size_t stack_bytes = 64 * 1024;

enum class Policy { uniform, priority, round_robin, starve, uneven, latest };
enum class Delay { mixed, lazy, eager };
enum class State { runnable, blocked, done };

struct Role {
  std::string name;
  int first = 0, threads = 0;
};

struct Settings {
  std::uint64_t seed = 0;
  Policy policy = Policy::uniform;
  Delay delay = Delay::mixed;
  std::string starved;
  int block = 0, grid = 0, cluster = 1;
  int shared_bytes = 0;
  std::vector<Role> roles;
};
inline Settings settings;

struct Random {
  std::uint64_t state = 1;
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>((next() >> 32) * bound >> 32);
  }
  bool one_in(std::uint32_t bound) { return below(bound) == 0; }
};
inline Random dice;

// Poison: as any floating-point type it is NaN, or for odd seeds a huge number, because maxima
// swallow NaN.
inline unsigned char poison_byte() { return settings.seed % 2 ? 0x7f : 0xff; }
inline float poison_float() {
  const unsigned char byte = poison_byte();
  unsigned char bytes[4] = {byte, byte, byte, byte};
  float value;
  std::memcpy(&value, bytes, 4);
  return value;
}

struct BulkGroup {
  int unread = 0, unwritten = 0;  // operations not yet read, not yet written
};

struct Thread {
  Fiber fiber;
  unsigned char *stack = nullptr;
  int number = 0;  // within its CTA
  int cta = 0;     // rank in the cluster
  int slot = 0;    // rank * block + number
  State state = State::runnable;
  const char *primitive = "start";
  int line = 0;
  std::string waits_for;
  std::vector<std::pair<int, int>> written;     // (CTA, word): not yet fenced
  std::vector<std::pair<int, int>> read;        // (CTA, unit): not yet fenced
  std::deque<std::shared_ptr<BulkGroup>> bulk;  // committed groups, oldest first
  std::shared_ptr<BulkGroup> open;              // operations not yet committed
  bool waited_unfenced = false;  // a wait since the last tensor_fence_after
  int retired = 0;  // bulk groups no longer listed
  int awaited = 0;  // groups, from the first, whose reads a wait has covered

  int committed() const { return retired + static_cast<int>(bulk.size()); }
  int warp() const { return number / warp_threads; }
  int lane() const { return number % warp_threads; }
  int group() const { return number / (warp_threads * warps_of_group); }
};

struct Operation {  // the work of an engine, done in steps at times of its own choice
  std::uint32_t urgency = 0;  // who goes last waits until nothing else can happen
  virtual ~Operation() = default;
  virtual bool step() = 0;  // true when there is nothing left to do
  virtual bool ready() const { return true; }
  virtual std::string describe() const = 0;
};

inline std::vector<std::unique_ptr<Thread>> threads;  // of the cluster that runs
inline Thread *current = nullptr;
inline Fiber main_fiber;
inline int first_block = 0;  // number of the first CTA of the cluster that runs
inline std::vector<std::uint32_t> runnable_lanes;  // one mask for each warp of the cluster
inline std::vector<std::uint64_t> woken_at;        // for each warp
inline std::vector<std::uint32_t> priorities;
inline std::vector<bool> starved_warps;  // run only when no other warp can
inline std::vector<std::unique_ptr<Operation>> engine;
inline std::uint64_t decisions = 0;
inline int engine_rate = 4;

inline int warps_of_cta() { return (settings.block + warp_threads - 1) / warp_threads; }
inline int warp_slot(const Thread &thread) {
  return thread.cta * warps_of_cta() + thread.warp();
}

inline const char *role_of(int number) {
  for (const Role &role : settings.roles)
    if (number >= role.first && number < role.first + role.threads) return role.name.c_str();
  return "no role";
}

inline std::string where(const Thread &thread) {
  char text[240];
  std::snprintf(text, sizeof text, "%s, thread %d (warp %d, lane %d) of CTA %d, %s, line %d",
                role_of(thread.number), thread.number, thread.warp(), thread.lane(),
                first_block + thread.cta, thread.primitive, thread.line);
  return text;
}

[[noreturn]] inline void stop(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  _exit(fault_exit);
}

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(const Thread *thread,
                                                                     const char *format, ...) {
  char text[1200];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  std::string message = text;
  if (thread != nullptr) message += "\n  at: " + where(*thread);
  stop(message);
}

inline void wake(Thread &thread) {
  if (thread.state != State::blocked) return;
  thread.state = State::runnable;
  const int warp = warp_slot(thread);
  runnable_lanes[warp] |= 1u << thread.lane();
  woken_at[warp] = decisions;
}

inline void rest(Thread &thread, State state) {
  thread.state = state;
  runnable_lanes[warp_slot(thread)] &= ~(1u << thread.lane());
}

// -------------------------------------------------------------------------------- engines

inline void engine_step(std::size_t choice) {
  if (engine[choice]->step()) {
    engine[choice] = std::move(engine.back());
    engine.pop_back();
  }
}

// Operations of one sort (the loads of one tensor map, all stores, all wgmma) are early or late
// together, as the seed has it; so that one kind of data is late in every iteration of a run.
inline void start_operation(std::unique_ptr<Operation> operation, std::uint64_t sort) {
  Random own{settings.seed * 1000003 + sort};
  operation->urgency = own.below(1u << 20) << 8 | dice.below(256);
  engine.push_back(std::move(operation));
}

inline bool run_engine_once() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < engine.size(); ++i)
    if (engine[i]->ready()) ready.push_back(i);
  if (ready.empty()) return false;
  std::size_t choice = ready[dice.below(static_cast<std::uint32_t>(ready.size()))];
  if (settings.delay == Delay::lazy)
    for (const std::size_t other : ready)
      if (engine[other]->urgency > engine[choice]->urgency) choice = other;
  engine_step(choice);
  return true;
}

inline void maybe_run_engine() {
  if (engine.empty() || settings.delay == Delay::lazy) return;
  if (settings.delay == Delay::eager) {
    while (run_engine_once()) {
    }
    return;
  }
  if (decisions % 256 == 0) engine_rate = 1 << (2 * dice.below(6));
  if (dice.one_in(static_cast<std::uint32_t>(engine_rate))) run_engine_once();
}

// ------------------------------------------------------------------------------ scheduler

[[noreturn]] inline void report_hang() {
  std::map<std::string, std::vector<const Thread *>> places;
  for (const auto &thread : threads) {
    if (thread->state != State::blocked) continue;
    char text[400];
    std::snprintf(text, sizeof text, "%s of CTA %d waits in %s, line %d: %s",
                  role_of(thread->number), first_block + thread->cta, thread->primitive,
                  thread->line, thread->waits_for.c_str());
    places[text].push_back(thread.get());
  }
  std::string message = "hang: every thread that has not ended is blocked";
  for (const auto &[text, list] : places) {
    message += "\n  " + text + " (" + std::to_string(list.size()) + " threads, from thread " +
               std::to_string(list.front()->number) + ")";
  }
  stop(message);
}

inline int lane_of(std::uint32_t mask, bool at_random) {
  int skip = at_random ? static_cast<int>(dice.below(__builtin_popcount(mask))) : 0;
  while (skip-- > 0) mask &= mask - 1;
  return __builtin_ctz(mask);
}

inline int choose_warp(const std::vector<int> &candidates) {
  const auto any = [&](const std::vector<int> &from) {
    return from[dice.below(static_cast<std::uint32_t>(from.size()))];
  };
  switch (settings.policy) {
    case Policy::uniform:
      return any(candidates);
    case Policy::uneven:
    case Policy::priority: {
      if (settings.policy == Policy::priority && dice.one_in(700))
        for (auto &priority : priorities) priority = static_cast<std::uint32_t>(dice.next());
      return *std::max_element(candidates.begin(), candidates.end(), [](int a, int b) {
        return priorities[a] < priorities[b];
      });
    }
    case Policy::latest:
      return *std::max_element(candidates.begin(), candidates.end(), [](int a, int b) {
        return woken_at[a] < woken_at[b];
      });
    case Policy::starve: {
      std::vector<int> fed;
      for (int warp : candidates)
        if (!starved_warps[warp]) fed.push_back(warp);
      return any(fed.empty() ? candidates : fed);
    }
    case Policy::round_robin: {
      static int last = 0;
      for (int warp : candidates)
        if (warp > last) return last = warp;
      return last = candidates.front();
    }
  }
  return candidates.front();
}

inline Thread *choose() {
  static std::vector<int> candidates;
  for (;;) {
    ++decisions;
    maybe_run_engine();
    candidates.clear();
    for (std::size_t warp = 0; warp < runnable_lanes.size(); ++warp)
      if (runnable_lanes[warp]) candidates.push_back(static_cast<int>(warp));
    if (!candidates.empty()) break;
    if (run_engine_once()) continue;
    bool over = true;
    for (const auto &thread : threads) over = over && thread->state == State::done;
    if (over) return nullptr;
    report_hang();
  }
  const int warp = choose_warp(candidates);
  const bool at_random =
      settings.policy == Policy::uniform || settings.policy == Policy::priority;
  const int lane = lane_of(runnable_lanes[warp], at_random);
  const int cta = warp / warps_of_cta();
  const int number = warp % warps_of_cta() * warp_threads + lane;
  return threads[cta * settings.block + number].get();
}


// Lets another thread run; returns when this one is chosen again.
inline void schedule() {
  Thread *self = current;
  Thread *next = choose();
  if (next == self) return;
  current = next;
  if (next == nullptr) {
    switch_fiber(self->fiber, main_fiber);
    return;
  }
  switch_fiber(self->fiber, next->fiber);
}

// Every primitive begins here: the thread says what it does, and others may come first.
inline Thread &primitive(const char *name, int line) {
  current->primitive = name;
  current->line = line;
  schedule();
  return *current;
}

inline void block(const std::string &waits_for) {
  Thread &self = *current;
  self.waits_for = waits_for;
  rest(self, State::blocked);
  schedule();
}

// ---------------------------------------------------------------------------- rendezvous

// Threads of a warp or of a warpgroup that must execute one instruction together.
struct Meeting {
  int members = 0;
  std::string key;
  int arrived = 0;
  std::uint64_t generation = 0;
  std::vector<Thread *> waiting;
  std::vector<bool> here;
};

// Returns true in the thread that comes last; all others wait until it has called `part`.
inline bool meet(Meeting &meeting, int index, const std::string &key, const char *unit) {
  Thread &self = *current;
  if (meeting.arrived == 0) {
    meeting.key = key;
    meeting.here.assign(meeting.members, false);
  } else if (meeting.key != key) {
    fail(&self, "divergence: threads of one %s execute `%s` and `%s` where all must execute the "
         "same instruction", unit, meeting.key.c_str(), key.c_str());
  }
  if (meeting.here[index])
    fail(&self, "divergence: the thread comes twice to one `%s`", key.c_str());
  meeting.here[index] = true;
  if (++meeting.arrived == meeting.members) return true;
  const std::uint64_t generation = meeting.generation;
  meeting.waiting.push_back(&self);
  while (meeting.generation == generation)
    block(std::string("the other threads of its ") + unit + " at `" + key + "`");
  return false;
}

inline void part(Meeting &meeting) {
  meeting.arrived = 0;
  ++meeting.generation;
  for (Thread *thread : meeting.waiting) wake(*thread);
  meeting.waiting.clear();
}

}  // namespace titan::emulation
