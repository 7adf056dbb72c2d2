// What the source of a rendered litmus test needs of clang for AMDGPU, for g++: see fake_hip.cpp.
#pragma once
#include <utility>

extern "C" {
unsigned TitanThread();
unsigned TitanGroup();
unsigned TitanThreads();
unsigned TitanGroups();
void TitanYield();
void TitanBarrier();
unsigned long long TitanCycle();
void *TitanShared(unsigned line, unsigned size);
}

#define __builtin_amdgcn_workitem_id_x() TitanThread()
#define __builtin_amdgcn_workgroup_id_x() TitanGroup()
#define __builtin_amdgcn_workgroup_size_x() TitanThreads()
#define __builtin_amdgcn_grid_size_x() (TitanThreads() * TitanGroups())
#define __builtin_readcyclecounter() TitanCycle()
#define __builtin_amdgcn_readfirstlane(number) (number)
#define __builtin_amdgcn_fence(order, scope) TitanYield()
#define __builtin_amdgcn_s_barrier() TitanBarrier()
#define __builtin_amdgcn_s_getreg(number) own_xcd_of(TitanGroup())
#define __gfx942__ 1
#define own_xcd_of(group) ((group) % FAKE_XCDS)
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5

inline void titan_nothing(const char *) { TitanYield(); }
template <class T, class V> T __hip_atomic_fetch_add(T *at, V value, int, int) {
  TitanYield();
  const T old = *at;
  return *at = (T)(old + value), old;
}
template <class T> T __hip_atomic_load(const T *at, int, int) {
  TitanYield();
  return *(const volatile T *)at;
}
template <class T, class V> void __hip_atomic_store(T *at, V value, int, int) {
  TitanYield();
  *(volatile T *)at = value;
}
template <class T, class V> T __hip_atomic_exchange(T *at, V value, int, int) {
  TitanYield();
  const T old = *at;
  return *at = value, old;
}
template <class T, class V>
bool __hip_atomic_compare_exchange_strong(T *at, T *old, V value, int, int, int) {
  TitanYield();
  const T found = *at;
  const bool same = found == *old;
  if (same) *at = value;
  return *old = found, same;
}

template <class... A, std::size_t... I>
void titan_call(void (*kernel)(A...), void **given, std::index_sequence<I...>) {
  kernel(*(A *)given[I]...);
}
#define TITAN_CALL(kernel)                                    \
  template <class... A> void call_##kernel(void (*known)(A...), void **given) { \
    titan_call(known, given, std::index_sequence_for<A...>()); \
  }                                                           \
  extern "C" void titan_call_##kernel(void **given) { call_##kernel(kernel, given); }
