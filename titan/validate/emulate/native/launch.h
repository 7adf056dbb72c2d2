// Runs a launch that a text file describes, cluster by cluster, and writes the tensors back.
#pragma once

#include <csignal>
#include <fstream>
#include <sstream>

#include "tensor_memory.h"

namespace titan::emulation {

struct Tensor {
  std::string name, path;
  std::size_t bytes = 0;
  bool output = false;
  unsigned char *data = nullptr;
};
struct Argument {
  std::string kind;
  long long number = 0;  // of the map or tensor; the value of a size
};
inline std::vector<Tensor> tensors;
inline std::vector<Argument> arguments;
inline void (*kernel)() = nullptr;

[[noreturn]] inline void refuse(const std::string &why) {
  std::fprintf(stderr, "emulation: %s\n", why.c_str());
  _exit(4);
}

inline void read_tensor(std::istream &line) {
  Tensor tensor;
  int output = 0;
  line >> tensor.name >> tensor.path >> tensor.bytes >> output;
  tensor.output = output != 0;
  tensor.data = guarded(tensor.bytes, 16);
  std::ifstream file(tensor.path, std::ios::binary);
  file.read(reinterpret_cast<char *>(tensor.data), static_cast<std::streamsize>(tensor.bytes));
  if (static_cast<std::size_t>(file.gcount()) != tensor.bytes)
    refuse("the file of tensor " + tensor.name + " is too short");
  tensors.push_back(tensor);
}

inline void read_map(std::istream &line) {
  Map map;
  std::size_t tensor = 0;
  line >> map.name >> tensor >> map.rank >> map.element_bytes >> map.swizzle_bytes;
  for (int i = 0; i < map.rank; ++i) line >> map.size[i] >> map.stride_bytes[i] >> map.box[i];
  map.base = tensors.at(tensor).data;
  maps.push_back(map);
}

inline void read_policy(std::istream &line) {
  std::string policy, delay;
  line >> settings.seed >> policy >> delay >> settings.starved;
  const std::map<std::string, Policy> policies = {
      {"uniform", Policy::uniform}, {"priority", Policy::priority}, {"latest", Policy::latest},
      {"round_robin", Policy::round_robin}, {"starve", Policy::starve},
      {"uneven", Policy::uneven}};
  const std::map<std::string, Delay> delays = {
      {"mixed", Delay::mixed}, {"lazy", Delay::lazy}, {"eager", Delay::eager}};
  if (!policies.count(policy) || !delays.count(delay)) refuse("unknown policy");
  settings.policy = policies.at(policy);
  settings.delay = delays.at(delay);
}

inline void read_settings(const char *path) {
  std::ifstream file(path);
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "launch") {
      line >> settings.grid >> settings.block >> settings.cluster >> settings.shared_bytes;
    } else if (word == "policy") {
      read_policy(line);
    } else if (word == "read_fences") {
      line >> reads_need_fences;
    } else if (word == "role") {
      Role role;
      line >> role.name >> role.first >> role.threads;
      settings.roles.push_back(role);
    } else if (word == "tensor") {
      read_tensor(line);
    } else if (word == "map") {
      read_map(line);
    } else if (word == "argument") {
      Argument argument;
      line >> argument.kind >> argument.number;
      arguments.push_back(argument);
    } else {
      refuse("unknown line " + text);
    }
    if (line.fail()) refuse("unreadable line " + text);
  }
}

inline void leave() {
  Thread &self = *current;
  self.primitive = "exit";
  check_bulk_at_exit(self);
  check_matrices_at_exit(self);
  check_tensor_at_exit(self);
  rest(self, State::done);
  bool last = true;
  for (int i = 0; i < settings.block; ++i)
    last = last && threads[self.cta * settings.block + i]->state == State::done;
  if (last) check_tensor_at_end(self);
  if (last)
    for (const auto &operation : engine) {
      const auto *load = dynamic_cast<const TensorLoad *>(operation.get());
      if (load != nullptr && load->cta == self.cta)
        fail(&self, "the CTA exits with a copy in flight: %s", load->text.c_str());
    }
  schedule();
  std::abort();
}

inline void enter() {
  kernel();
  leave();
}

inline int entry_registers() { return std::min(255 / 8 * 8, 65536 / settings.block / 8 * 8); }

inline void prepare_tables() {
  const int ctas = settings.cluster, warps = warps_of_cta() * ctas;
  const int per_cta = (warps_of_cta() + warps_of_group - 1) / warps_of_group;
  runnable_lanes.assign(warps, 0);
  woken_at.assign(warps, 0);
  priorities.resize(warps);
  for (auto &priority : priorities) priority = static_cast<std::uint32_t>(dice.next());
  starved_warps.assign(warps, false);
  shared_of.resize(ctas);
  for (auto &memory : shared_of) memory.create(settings.shared_bytes);
  barriers_of.assign(ctas, {});
  named_of.assign(ctas, std::vector<NamedBarrier>(named_barriers));
  warp_meetings.assign(warps, Meeting{warp_threads, {}, 0, 0, {}, {}});
  group_meetings.assign(per_cta * ctas, Meeting{group_threads, {}, 0, 0, {}, {}});
  cluster_meeting = Meeting{settings.block * ctas, {}, 0, 0, {}, {}};
  exchanges.assign(warps, Exchange{});
  pools.assign(ctas, Pool{0, std::vector<int>(per_cta, entry_registers()), {}});
  prepare_tensor_memory(ctas, settings.block * ctas);
  groups.assign(per_cta * ctas, Group{});
  for (int i = 0; i < per_cta * ctas; ++i)
    groups[i].first_slot = i / per_cta * settings.block + i % per_cta * group_threads;
}

inline void create_threads() {
  static std::vector<unsigned char *> stacks;
  threads.clear();
  const int count = settings.block * settings.cluster;
  while (static_cast<int>(stacks.size()) < count) stacks.push_back(guarded(stack_bytes, 16));
  for (int slot = 0; slot < count; ++slot) {
    auto thread = std::make_unique<Thread>();
    thread->stack = stacks[slot];
    std::memset(thread->stack, poison_byte(), stack_bytes);  // locals start undefined
    thread->slot = slot;
    thread->cta = slot / settings.block;
    thread->number = slot % settings.block;
    thread->fiber.prepare(thread->stack, stack_bytes, enter);
    const int warp = warp_slot(*thread);
    runnable_lanes[warp] |= 1u << thread->lane();
    if (settings.policy == Policy::starve && role_of(thread->number) == settings.starved)
      starved_warps[warp] = true;
    threads.push_back(std::move(thread));
  }
}

// An access outside of every tensor ends here; the fiber's stack may be what is used up.
inline void on_signal(int number) {
  const std::string message = "signal " + std::to_string(number) +
                              ": an access outside of memory, or no stack left" +
                              (current != nullptr ? "\n  after: " + where(*current) : "");
  stop(message);
}

inline void catch_signals() {
  static unsigned char space[64 * 1024];
  stack_t stack{};
  stack.ss_sp = space;
  stack.ss_size = sizeof space;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(number, &action, nullptr);
}

inline void run_cluster(int block) {
  first_block = block;
  engine.clear();
  prepare_tables();
  create_threads();
  current = choose();
  switch_fiber(main_fiber, current->fiber);
}

int run(int count, char **words, void (*entry)()) {
  if (count != 2) refuse("one argument: the description of the launch");
  read_settings(words[1]);
  if (settings.block % warp_threads != 0) refuse("the CTA is not a multiple of 32 threads");
  if (settings.grid % settings.cluster != 0) refuse("the grid is not a multiple of the cluster");
  kernel = entry;
  catch_signals();
  dice.state = settings.seed;
  std::vector<int> order;
  for (int block = 0; block < settings.grid; block += settings.cluster) order.push_back(block);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[dice.below(static_cast<std::uint32_t>(i))]);
  for (const int block : order) run_cluster(block);
  for (const Tensor &tensor : tensors) {
    if (!tensor.output) continue;
    std::ofstream file(tensor.path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(tensor.data),
               static_cast<std::streamsize>(tensor.bytes));
    if (!file) refuse("tensor " + tensor.name + " cannot be written");
  }
  std::printf("decisions %llu\n", static_cast<unsigned long long>(decisions));
  return 0;
}

inline long long given(int number, const char *kind) {
  const Argument &argument = arguments.at(number);
  if (argument.kind != kind)
    refuse("parameter " + std::to_string(number) + " of the kernel takes a " + kind +
           ", the manifest says " + argument.kind);
  return argument.number;
}

int given_map(int number) { return static_cast<int>(given(number, "tensor_map")); }
void *given_pointer(int number) { return tensors.at(given(number, "pointer")).data; }
long long given_size(int number) { return given(number, "size"); }

int own_thread() { return current->number; }
int own_block() { return first_block + current->cta; }
int own_rank() { return current->cta; }
int grid_blocks() { return settings.grid; }
unsigned char *dynamic_shared() { return shared_of[current->cta].data; }
void stop_here(const char *why, int line) {
  current->line = line;
  fail(current, "%s", why);
}

}  // namespace titan::emulation
