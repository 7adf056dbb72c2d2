// Primitives of sm_90a (Hopper) as functions, one instruction or a short fixed sequence each.
//
// A kernel that Titan emits contains no inline assembly and no CUDA keyword: whatever depends on
// the device goes through this file. Another file that offers the same names (a CPU emulation, a
// checker) can therefore stand in its place. Source: PTX ISA, the sections named with the parts.
// The file needs no other header, so nvcc and NVRTC take it alike:
//   nvcc -arch=sm_90a -std=c++17 -cubin kernel.cu

#ifndef TITAN_DEVICE_CUH
#define TITAN_DEVICE_CUH

// ------------------------------------------------------------------ how a kernel is spelled

// A kernel of `threads` threads a CTA, one CTA an SM (setmaxnreg needs both numbers).
#define TITAN_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
// The same in clusters of `ctas` CTAs along x.
#define TITAN_CLUSTER_KERNEL(threads, ctas) \
  extern "C" __global__ void __cluster_dims__(ctas, 1, 1) __launch_bounds__(threads, 1)
#define TITAN_GRID_CONSTANT __grid_constant__
#define TITAN_DEVICE static __device__ __forceinline__
#define TITAN_CONSTANT static constexpr
#define TITAN_UNROLL _Pragma("unroll")
// A loop that must stay a loop.
#define TITAN_NO_UNROLL _Pragma("unroll 1")
// The dynamic shared memory of the CTA. It starts at a multiple of 1024 bytes: the repeat length of
// the 128-byte swizzle (`require_alignment` checks it).
#define TITAN_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

namespace titan {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "sizes of the integers");

// The 128 bytes of a CUtensorMap; cuTensorMapEncodeTiled fills them on the host.
struct alignas(64) TensorMap {
  u8 opaque[128];
};

// Element types; values are computed in float.
struct f32 { TITAN_CONSTANT int bytes = 4; };
struct f16 { TITAN_CONSTANT int bytes = 2; };
struct bf16 { TITAN_CONSTANT int bytes = 2; };
struct e4m3 { TITAN_CONSTANT int bytes = 1; };
struct e5m2 { TITAN_CONSTANT int bytes = 1; };

template <class First, class Second>
struct same { TITAN_CONSTANT bool value = false; };
template <class First>
struct same<First, First> { TITAN_CONSTANT bool value = true; };

// ----------------------------------------------------------- what a runner may ask for with -D

// None of it is part of an emitted kernel: without these names nothing below is compiled. With them
// the host finds the symbols by name (titan/device/hooks.py) and must fill them before the launch.
//
// TITAN_DISTURB: each thread of a chosen warp sleeps around every synchronising primitive, for a
//   time drawn from a hash of seed, thread, place and clock. Where all lanes have to come together
//   they draw the same number. Not between a multiplication and its commit: ptxas would put a
//   further fence there.
// TITAN_DELAY: work that the kernel does not have, for chosen warps: dependent arithmetic for each
//   pair of numbers that an epilogue writes; after each wait, reads of shared memory with all lanes
//   in one bank (what they read is not used), and a chain of dependent special functions.
// TITAN_MEASURE: cycles that each warp spends in `barrier_wait`, and how many waits that were; of the
//   first 8 CTAs, when each warp began its first wait and ended its last; cycles of the delay.
// TITAN_PROGRESS: where each warp of the first CTAs waits, or waited last, in memory that the host
//   sees while the kernel hangs.
#if defined(TITAN_DISTURB)
// Seed, mask of warps (warp w: bit w % 32), longest sleep in nanoseconds, one sleep of how many.
extern "C" {
__device__ u32 titan_disturbance[4];
}
TITAN_DEVICE u32 drawn_sleep(u32 place) {
  u32 hash = titan_disturbance[0] + 0x9e3779b9u * (place + 64u * threadIdx.x) + (u32)clock();
  hash = (hash ^ blockIdx.x ^ (hash >> 16)) * 0x85ebca6bu;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35u;
  hash ^= hash >> 16;
  const bool chosen = (titan_disturbance[1] >> (threadIdx.x / 32 % 32) & 1u) != 0;
  const bool now = chosen && (hash >> 16) % titan_disturbance[3] == 0;
  return now ? (hash & 0xffffu) * (titan_disturbance[2] >> 8) >> 8 : 0u;
}
// No branch: a warp stays as converged as it was.
TITAN_DEVICE void disturb(u32 place) { __nanosleep(drawn_sleep(place)); }
TITAN_DEVICE void disturb_warp(u32 place) {
  __nanosleep(__shfl_sync(0xffffffffu, drawn_sleep(place), 0));
}
#else
TITAN_DEVICE void disturb(u32) {}
TITAN_DEVICE void disturb_warp(u32) {}
#endif

#if defined(TITAN_MEASURE)
// Of warp w: cycles at 2 w, waits at 2 w + 1; over all CTAs. The same for the delay. Of warp w of
// CTA c: clock at 2 (32 c + w) when its first wait began, behind it when its last wait ended.
extern "C" {
__device__ u64 titan_waited[64];
__device__ u64 titan_delayed[64];
__device__ u64 titan_span[8 * 32 * 2];
}
#endif

#if defined(TITAN_PROGRESS)
// Where the records lie (host memory, mapped; behind them the address of the shared memory), for
// how many CTAs (8 at most), and how often each warp of these has waited at each barrier (by the
// number of the barrier's 8 bytes, modulo 64).
extern "C" {
__device__ u32* titan_progress;
__device__ u32 titan_progress_ctas;
__device__ u32 titan_turns[8 * 32 * 64];
}
TITAN_DEVICE bool reports() { return blockIdx.x < titan_progress_ctas && blockIdx.x < 8; }
TITAN_DEVICE u32 record_index() { return blockIdx.x * 32 + threadIdx.x / 32 % 32; }
TITAN_DEVICE u32& turns_at(u32 address) {
  return titan_turns[record_index() * 64 + (address >> 3) % 64];
}
// Record of a warp: 1 waiting or 2 done, address of the barrier, parity, earlier waits there.
TITAN_DEVICE void report(u32 state, u32 address, u32 parity, u32 turn) {
  volatile u32* record = titan_progress + 4 * record_index();
  record[1] = address;
  record[2] = parity;
  record[3] = turn;
  record[0] = state;
  __threadfence_system();
}
#endif

// One lane of those that are here together.
TITAN_DEVICE bool first_here() {
  const u32 below = (1u << (threadIdx.x & 31u)) - 1u;
  return (__activemask() & below) == 0;
}

#if defined(TITAN_DELAY)
// Mask of warps; rounds for a pair that is written; conflicting reads and rounds after a wait. All
// lanes of a warp do the same.
extern "C" {
__device__ u32 titan_delay[4];
}
TITAN_DEVICE bool delayed() { return (titan_delay[0] >> (threadIdx.x / 32 % 32) & 1u) != 0; }
TITAN_DEVICE void delay_ends(u64 begun) {
#if defined(TITAN_MEASURE)
  if (first_here()) {
    atomicAdd(titan_delayed + threadIdx.x / 32 % 32 * 2, (u64)clock64() - begun);
    atomicAdd(titan_delayed + threadIdx.x / 32 % 32 * 2 + 1, (u64)1);
  }
#endif
}
TITAN_DEVICE void delay_pair() {
  if (!delayed()) return;
  float value = (float)threadIdx.x;
  TITAN_NO_UNROLL
  for (u32 round = 0; round < titan_delay[1]; ++round) {
    asm volatile("fma.rn.f32 %0, %0, 0f3F000000, 0f3F800000;\n" : "+f"(value));
  }
}
TITAN_DEVICE void delay_turn() {
  if (!delayed()) return;
  const u64 begun = (u64)clock64();
  extern __shared__ __align__(1024) unsigned char titan_any_shared[];
  u32 bytes, word;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;\n" : "=r"(bytes));
  const u32 column = (u32)__cvta_generic_to_shared(titan_any_shared) + (threadIdx.x & 31u) * 128u;
  const u32 reads = bytes >= 4096u ? titan_delay[2] : 0u;
  TITAN_NO_UNROLL
  for (u32 read = 0; read < reads; ++read) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];\n" : "=r"(word) : "r"(column + read % 32 * 4));
  }
  float value = (float)(threadIdx.x + 2u);
  TITAN_NO_UNROLL
  for (u32 round = 0; round < titan_delay[3]; ++round) {
    asm volatile("{\n .reg .f32 t;\n lg2.approx.f32 t, %0;\n ex2.approx.f32 %0, t;\n}\n"
                 : "+f"(value));
  }
  delay_ends(begun);
}
#else
TITAN_DEVICE void delay_pair() {}
TITAN_DEVICE void delay_turn() {}
#endif

// Around a wait; `wait_begins` gives what `wait_ends` needs.
TITAN_DEVICE u64 wait_begins(u32 address, u32 parity) {
  disturb(1);
#if defined(TITAN_PROGRESS)
  if (first_here() && reports()) report(1, address, parity, turns_at(address));
#endif
#if defined(TITAN_MEASURE)
  return (u64)clock64();
#else
  return 0;
#endif
}

TITAN_DEVICE void wait_ends(u32 address, u32 parity, u64 begun) {
#if defined(TITAN_MEASURE)
  if (first_here()) {
    u64* const mine = titan_waited + threadIdx.x / 32 % 32 * 2;
    const u64 now = (u64)clock64();
    atomicAdd(mine, now - begun);
    atomicAdd(mine + 1, (u64)1);
    if (blockIdx.x < 8) {
      u64* const span = titan_span + 2 * (32 * blockIdx.x + threadIdx.x / 32 % 32);
      if (span[0] == 0) span[0] = begun;
      span[1] = now;
    }
  }
#endif
#if defined(TITAN_PROGRESS)
  if (first_here() && reports()) {
    report(2, address, parity, turns_at(address));
    turns_at(address) += 1;
  }
#endif
  delay_turn();
  disturb(2);
}

// ---------------------------------------------------------------------- threads and groups

TITAN_DEVICE int thread_index() { return (int)threadIdx.x; }
TITAN_DEVICE int block_index() { return (int)blockIdx.x; }
TITAN_DEVICE int grid_size() { return (int)gridDim.x; }
TITAN_DEVICE int lane_index() { return (int)(threadIdx.x & 31u); }

// A number that all lanes of the warp agree on, made known to the compiler as such.
TITAN_DEVICE int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// True in one lane of the (converged) warp, always the same one. PTX: elect.sync.
TITAN_DEVICE bool elect_one() {
  u32 chosen;
  asm volatile(
      "{\n .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(chosen));
  return chosen != 0;
}

TITAN_DEVICE void warp_sync() { __syncwarp(); }
// All threads of the CTA.
TITAN_DEVICE void block_sync() {
  disturb_warp(3);
  __syncthreads();
  disturb_warp(4);
}

// `bar.sync`: the first `threads` arriving threads of the CTA meet at hardware barrier `id`.
TITAN_DEVICE void named_barrier_sync(int id, int threads) {
  disturb_warp(5);
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
  disturb_warp(6);
}

// `bar.arrive`: counts as `named_barrier_sync` does, and goes on at once.
TITAN_DEVICE void named_barrier_arrive(int id, int threads) {
  disturb_warp(7);
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
  disturb_warp(8);
}

TITAN_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

// All threads of the cluster. PTX: barrier.cluster.
TITAN_DEVICE void cluster_sync() {
  disturb_warp(9);
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
  disturb_warp(10);
}

// Registers of each thread of the warpgroup: all four warps execute it. PTX: setmaxnreg.
template <int Registers>
TITAN_DEVICE void registers_increase() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "setmaxnreg");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

template <int Registers>
TITAN_DEVICE void registers_decrease() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "setmaxnreg");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

// Until all launches before this one on the stream have ended and what they wrote is visible. Where
// a launch is not dependent it does nothing. PTX: griddepcontrol.wait.
TITAN_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
// The next launch may begin once all CTAs are here; it waits by itself. PTX: griddepcontrol.
TITAN_DEVICE void grid_release() {
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}

TITAN_DEVICE void trap() { asm volatile("trap;\n"); }

// -------------------------------------------------------------------------- shared memory

TITAN_DEVICE u32 shared_address(const void* pointer) {
  return (u32)__cvta_generic_to_shared(pointer);
}

// The address, valid in the whole cluster, of what lies at `pointer` in CTA `cta`. PTX: mapa.
TITAN_DEVICE u32 map_shared(const void* pointer, u32 cta) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
               : "=r"(address)
               : "r"(shared_address(pointer)), "r"(cta));
  return address;
}

// Swizzled tiles and their descriptors hold only where the CTA's memory starts at such a multiple.
TITAN_DEVICE void require_alignment(const void* pointer, u32 bytes) {
#if defined(TITAN_PROGRESS)
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *(volatile u32*)(titan_progress + 4 * 8 * 32) = shared_address(pointer);
  }
#endif
  if (shared_address(pointer) % bytes != 0) trap();
}

// Where the byte at `offset` of a tile lies: 16-byte units of a row change places with the row.
// `Bytes` is the width of the pattern (128, 64, 32, or 0 for none); the tile starts at a multiple
// of 8 * Bytes. PTX: swizzling modes of tensor copies and of matrix descriptors.
template <int Bytes>
TITAN_DEVICE u32 swizzled(u32 offset) {
  static_assert(Bytes == 0 || Bytes == 32 || Bytes == 64 || Bytes == 128, "swizzle");
  if constexpr (Bytes == 0) {
    return offset;
  } else {
    return offset ^ (((offset >> 7) & (Bytes / 16 - 1)) << 4);
  }
}

TITAN_DEVICE u16 load_shared16(const void* pointer) { return *(const u16*)pointer; }
TITAN_DEVICE u32 load_shared32(const void* pointer) { return *(const u32*)pointer; }
TITAN_DEVICE u64 load_shared64(const void* pointer) { return *(const u64*)pointer; }
TITAN_DEVICE void store_shared16(void* pointer, u16 value) {
  delay_pair();
  *(u16*)pointer = value;
}
TITAN_DEVICE void store_shared32(void* pointer, u32 value) {
  delay_pair();
  *(u32*)pointer = value;
}
TITAN_DEVICE void store_shared64(void* pointer, u64 value) {
  delay_pair();
  *(u64*)pointer = value;
}
TITAN_DEVICE void store_shared128(void* pointer, u32 first, u32 second, u32 third, u32 fourth) {
  *(uint4*)pointer = make_uint4(first, second, third, fourth);
}

// Four matrices of 8 x 8 elements of 16 bits, spread over the warp as the tensor cores spread a
// fragment: lane l has columns 2 (l % 4) and the next of row l / 4 of each. `pointer` is where row
// l % 8 of matrix l / 8 goes, 16 bytes. PTX: stmatrix.
TITAN_DEVICE void store_matrices(void* pointer, u32 first, u32 second, u32 third, u32 fourth) {
  for (int pair = 0; pair < 4; ++pair) delay_pair();
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(
                   shared_address(pointer)),
               "r"(first), "r"(second), "r"(third), "r"(fourth)
               : "memory");
}

// Generic accesses before it, and accesses of the engines (bulk copies, wgmma) after it, of shared
// memory, in this order. Every thread that made the accesses executes it. PTX: fence.proxy.async.
TITAN_DEVICE void fence_proxy_async() {
  disturb(11);
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  disturb(12);
}

// ------------------------------------------------------------------------------ mbarriers

TITAN_DEVICE void barrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)),
               "r"(count)
               : "memory");
}

// After the last `barrier_init`, before the barrier (CTA or cluster) that publishes it.
TITAN_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

// One arrival by this thread; releases what it did before to the CTA.
TITAN_DEVICE void barrier_arrive(u64* barrier) {
  disturb(13);
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];\n" ::"r"(
                   shared_address(barrier))
               : "memory");
  disturb(14);
}

// First `bytes` more to wait for, then one arrival.
TITAN_DEVICE void barrier_arrive_expect(u64* barrier, u32 bytes) {
  disturb(15);
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
  disturb(16);
}

TITAN_DEVICE void barrier_expect(u64* barrier, u32 bytes) {
  disturb(17);
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
  disturb(18);
}

// One arrival at the barrier that lies at the same place in CTA `cta` of the cluster.
TITAN_DEVICE void barrier_arrive_remote(u64* barrier, u32 cta) {
  disturb(19);
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(
                   map_shared(barrier, cta))
               : "memory");
  disturb(20);
}

// Compilers before CUDA 12.8 know no relaxed arrivals and waits: theirs carry an order that nobody
// needs.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1208
#define TITAN_ARRIVE_RELAXED "release"
#define TITAN_WAIT_RELAXED "acquire"
#else
#define TITAN_ARRIVE_RELAXED "relaxed"
#define TITAN_WAIT_RELAXED "relaxed"
#endif

// The same, carrying the order of execution and nothing else: what the thread did before becomes
// visible to nobody by it. Enough where it has waited for the engines that read (PTX, mbarrier.arrive).
TITAN_DEVICE void barrier_arrive_remote_relaxed(u64* barrier, u32 cta) {
  disturb(19);
  asm volatile("mbarrier.arrive." TITAN_ARRIVE_RELAXED ".cluster.shared::cluster.b64 _, [%0];\n" ::"r"(
                   map_shared(barrier, cta))
               : "memory");
  disturb(20);
}

TITAN_DEVICE bool barrier_try_wait(u64* barrier, u32 parity) {
  u32 ready;
  asm volatile(
      "{\n .reg .pred p;\n"
      " mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      " selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(ready)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ready != 0;
}

TITAN_DEVICE bool barrier_try_wait_cluster(u64* barrier, u32 parity) {
  u32 ready;
  asm volatile(
      "{\n .reg .pred p;\n"
      " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      " selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(ready)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ready != 0;
}

TITAN_DEVICE bool barrier_try_wait_relaxed(u64* barrier, u32 parity) {
  u32 ready;
  asm volatile(
      "{\n .reg .pred p;\n"
      " mbarrier.try_wait.parity." TITAN_WAIT_RELAXED ".cluster.shared::cta.b64 p, [%1], %2;\n"
      " selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(ready)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ready != 0;
}

// Until the phase whose lowest bit is `parity` is complete (a fresh barrier counts as complete for
// parity 1).
TITAN_DEVICE void barrier_wait(u64* barrier, u32 parity) {
  const u64 begun = wait_begins(shared_address(barrier), parity);
  while (!barrier_try_wait(barrier, parity)) {
  }
  wait_ends(shared_address(barrier), parity, begun);
}

// The same, where the arrivals come from other CTAs of the cluster.
TITAN_DEVICE void barrier_wait_cluster(u64* barrier, u32 parity) {
  const u64 begun = wait_begins(shared_address(barrier), parity);
  while (!barrier_try_wait_cluster(barrier, parity)) {
  }
  wait_ends(shared_address(barrier), parity, begun);
}

// The same, for relaxed arrivals: nothing is acquired.
TITAN_DEVICE void barrier_wait_relaxed(u64* barrier, u32 parity) {
  const u64 begun = wait_begins(shared_address(barrier), parity);
  while (!barrier_try_wait_relaxed(barrier, parity)) {
  }
  wait_ends(shared_address(barrier), parity, begun);
}

// ---------------------------------------------------------------------- bulk tensor copies

TITAN_DEVICE void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"((u64)map) : "memory");
}

// When the lines of a copy leave the L2 cache: before or after all others. PTX: createpolicy.
#define TITAN_EVICTION(NAME)                                                           \
  TITAN_DEVICE u64 NAME() {                                                            \
    u64 policy;                                                                        \
    asm volatile("createpolicy.fractional.L2::" #NAME ".b64 %0, 1.0;\n" : "=l"(policy)); \
    return policy;                                                                     \
  }
TITAN_EVICTION(evict_first)
TITAN_EVICTION(evict_last)
#undef TITAN_EVICTION

// tensor_load: a box of the tensor into shared memory; its bytes come off `barrier` when it has
//   landed. Coordinates count elements, innermost first. What lies outside reads as zero.
// tensor_load_multicast: into the same place of every CTA of the cluster whose bit is in `mask`, and
//   off the barrier at the same place there.
// tensor_load_kept, tensor_load_multicast_kept: the same with a policy of the L2 cache.
// tensor_store: a box from shared memory to the tensor; what lies outside is not written. One bulk
//   group takes up all stores of this thread until `bulk_commit`.
#define TITAN_PLAIN(...) __VA_ARGS__
#define TITAN_TENSOR_LOAD(PLACE, NAME, FORM, PARAMETERS, MORE, COORDINATES, TEXT, OPERANDS, VALUES) \
  TITAN_DEVICE void NAME(void* destination, const TensorMap* map, u64* barrier,                    \
                         TITAN_PLAIN PARAMETERS TITAN_PLAIN MORE) {                                \
    disturb(PLACE);                                                                                \
    asm volatile("cp.async.bulk.tensor." FORM " [%0], [%1, {" COORDINATES "}], [%2]" TEXT          \
                 ";\n" ::"r"(shared_address(destination)),                                         \
                 "l"((u64)map), "r"(shared_address(barrier)) TITAN_PLAIN OPERANDS,                 \
                 TITAN_PLAIN VALUES                                                                \
                 : "memory");                                                                      \
    disturb(PLACE + 1);                                                                            \
  }
#define TITAN_FORM(RANK) RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
// AT2 and so on: the operands that are the coordinates, from this one on.
#define TITAN_TENSOR_COPIES(RANK, PARAMETERS, VALUES, AT2, AT3, AT4, AT5)                          \
  TITAN_TENSOR_LOAD(21, tensor_load, TITAN_FORM(RANK), PARAMETERS, (), AT3, "", (), VALUES)        \
  TITAN_TENSOR_LOAD(21, tensor_load_kept, TITAN_FORM(RANK) ".L2::cache_hint", PARAMETERS,          \
                    (, u64 policy), AT4, ", %3", (, "l"(policy)), VALUES)                          \
  TITAN_TENSOR_LOAD(23, tensor_load_multicast, TITAN_FORM(RANK) ".multicast::cluster", PARAMETERS, \
                    (, u16 mask), AT4, ", %3", (, "h"(mask)), VALUES)                              \
  TITAN_TENSOR_LOAD(23, tensor_load_multicast_kept,                                                \
                    TITAN_FORM(RANK) ".multicast::cluster.L2::cache_hint", PARAMETERS,             \
                    (, u16 mask, u64 policy), AT5, ", %3, %4", (, "h"(mask), "l"(policy)), VALUES) \
  TITAN_DEVICE void tensor_store(const TensorMap* map, const void* source,                         \
                                 TITAN_PLAIN PARAMETERS) {                                         \
    disturb(25);                                                                                   \
    asm volatile("cp.async.bulk.tensor." RANK ".global.shared::cta.tile.bulk_group [%1, {" AT2     \
                 "}], [%0];\n" ::"r"(shared_address(source)),                                      \
                 "l"((u64)map), TITAN_PLAIN VALUES                                                 \
                 : "memory");                                                                      \
    disturb(26);                                                                                   \
  }
TITAN_TENSOR_COPIES("2d", (int c0, int c1), ("r"(c0), "r"(c1)), "%2, %3", "%3, %4", "%4, %5", "%5, %6")
TITAN_TENSOR_COPIES("3d", (int c0, int c1, int c2), ("r"(c0), "r"(c1), "r"(c2)), "%2, %3, %4",
                    "%3, %4, %5", "%4, %5, %6", "%5, %6, %7")
TITAN_TENSOR_COPIES("4d", (int c0, int c1, int c2, int c3), ("r"(c0), "r"(c1), "r"(c2), "r"(c3)),
                    "%2, %3, %4, %5", "%3, %4, %5, %6", "%4, %5, %6, %7", "%5, %6, %7, %8")
#undef TITAN_PLAIN
#undef TITAN_TENSOR_LOAD
#undef TITAN_FORM
#undef TITAN_TENSOR_COPIES

// The stores of this thread since the last one become a group. PTX: cp.async.bulk.commit_group.
TITAN_DEVICE void bulk_commit() {
  disturb(27);
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}

// Until at most `Pending` groups of this thread are unfinished.
template <int Pending>
TITAN_DEVICE void bulk_wait() {
  disturb(28);
  asm volatile("cp.async.bulk.wait_group %0;\n" ::"n"(Pending) : "memory");
  disturb(29);
}

// Until at most `Pending` groups of this thread still read shared memory.
template <int Pending>
TITAN_DEVICE void bulk_wait_read() {
  disturb(30);
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(Pending) : "memory");
  disturb(31);
}

// ---------------------------------------------------------------- numbers and element types

TITAN_DEVICE float bits_to_float(u32 bits) { return __uint_as_float(bits); }
TITAN_DEVICE u32 float_to_bits(float value) { return __float_as_uint(value); }
TITAN_DEVICE float infinity() { return bits_to_float(0x7f800000u); }

// Of a number and a NaN, the number.
TITAN_DEVICE float maximum(float first, float second) {
  float result;
  asm("max.f32 %0, %1, %2;\n" : "=f"(result) : "f"(first), "f"(second));
  return result;
}
TITAN_DEVICE float minimum(float first, float second) {
  float result;
  asm("min.f32 %0, %1, %2;\n" : "=f"(result) : "f"(first), "f"(second));
  return result;
}

// `second` where it is larger than `first` by more than `least`, else `first`.
TITAN_DEVICE float raised(float first, float second, float least) {
  return second - first > least ? second : first;
}

// Approximations of the special function unit: about 2 units in the last place.
TITAN_DEVICE float exp2_fast(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(value));
  return result;
}
TITAN_DEVICE float log2_fast(float value) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(value));
  return result;
}
TITAN_DEVICE float rsqrt_fast(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(value));
  return result;
}
// Correctly rounded.
TITAN_DEVICE float reciprocal(float value) { return __frcp_rn(value); }
TITAN_DEVICE float divide(float first, float second) { return __fdiv_rn(first, second); }

TITAN_DEVICE float activation_relu(float value) { return maximum(value, 0.0f); }
// 1 - 2 / (1 + e^2x); near 0, where that cancels, the first terms of the series.
TITAN_DEVICE float activation_tanh(float value) {
  const float near_zero = value - 0.33333333f * value * value * value;
  const float quotient = 1.0f - __fdividef(2.0f, 1.0f + exp2_fast(2.8853900817779268f * value));
  return value < 0.04f && value > -0.04f ? near_zero : quotient;
}
// x * sigmoid(x); for very negative x the quotient goes to -0.
TITAN_DEVICE float activation_silu(float value) {
  return __fdividef(value, 1.0f + exp2_fast(-1.4426950408889634f * value));
}
// The form by tanh: x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is
// x * sigmoid(2 u).
TITAN_DEVICE float activation_gelu(float value) {
  const float inner = value * (1.0f + 0.044715f * value * value);
  return __fdividef(value, 1.0f + exp2_fast(-2.3022081981443251f * inner));
}

// Two numbers in the 16-bit halves of a word, `low` in the lower one; rounded to nearest even.
template <class Type>
TITAN_DEVICE u32 pack_pair(float low, float high) {
  static_assert(Type::bytes == 2, "two numbers of a word");
  u32 word;
  if constexpr (same<Type, bf16>::value) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// Two 8-bit numbers in a half word; rounded to nearest even, beyond the range the largest number.
template <class Type>
TITAN_DEVICE u16 pack_pair8(float low, float high) {
  static_assert(Type::bytes == 1, "two numbers of a half word");
  u16 half;
  if constexpr (same<Type, e4m3>::value) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\n" : "=h"(half) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;\n" : "=h"(half) : "f"(high), "f"(low));
  }
  return half;
}

TITAN_DEVICE float half_to_float(u16 half) {
  float result;
  asm("cvt.f32.f16 %0, %1;\n" : "=f"(result) : "h"(half));
  return result;
}

// The number in the lower (`Part` 0) or upper (1) half of a pair.
template <class Type, int Part>
TITAN_DEVICE float unpack_pair(u32 word) {
  static_assert(Part == 0 || Part == 1, "part of a pair");
  if constexpr (same<Type, bf16>::value) {
    return bits_to_float(Part == 0 ? word << 16 : word & 0xffff0000u);
  } else if constexpr (same<Type, f16>::value) {
    return half_to_float((u16)(Part == 0 ? word & 0xffffu : word >> 16));
  } else {
    static_assert(Type::bytes == 1, "element type of a pair");
    u32 halves;
    if constexpr (same<Type, e4m3>::value) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;\n" : "=r"(halves) : "h"((u16)word));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;\n" : "=r"(halves) : "h"((u16)word));
    }
    return half_to_float((u16)(Part == 0 ? halves & 0xffffu : halves >> 16));
  }
}

// What a float becomes when it is stored in the type and read again.
template <class Type>
TITAN_DEVICE float rounded(float value) {
  if constexpr (Type::bytes == 4) {
    return value;
  } else if constexpr (Type::bytes == 2) {
    return unpack_pair<Type, 0>(pack_pair<Type>(value, 0.0f));
  } else {
    return unpack_pair<Type, 0>(pack_pair8<Type>(value, 0.0f));
  }
}

// Elements of global memory, by number.
template <class Type>
TITAN_DEVICE float load_global(const void* base, long long index) {
  if constexpr (Type::bytes == 4) {
    return ((const float*)base)[index];
  } else if constexpr (Type::bytes == 2) {
    return unpack_pair<Type, 0>(((const u16*)base)[index]);
  } else {
    return unpack_pair<Type, 0>(((const u8*)base)[index]);
  }
}

template <class Type>
TITAN_DEVICE void store_global(void* base, long long index, float value) {
  delay_pair();
  if constexpr (Type::bytes == 4) {
    ((float*)base)[index] = value;
  } else if constexpr (Type::bytes == 2) {
    ((u16*)base)[index] = (u16)pack_pair<Type>(value, 0.0f);
  } else {
    ((u8*)base)[index] = (u8)pack_pair8<Type>(value, 0.0f);
  }
}

// Two neighbouring elements at byte `offset` of a tile (before swizzling), and back.
template <class Type, int Swizzle>
TITAN_DEVICE void store_tile_pair(u8* tile, u32 offset, float first, float second) {
  u8* place = tile + swizzled<Swizzle>(offset);
  if constexpr (Type::bytes == 4) {
    store_shared64(place, (u64)float_to_bits(second) << 32 | float_to_bits(first));
  } else if constexpr (Type::bytes == 2) {
    store_shared32(place, pack_pair<Type>(first, second));
  } else {
    store_shared16(place, pack_pair8<Type>(first, second));
  }
}

template <class Type, int Swizzle>
TITAN_DEVICE void load_tile_pair(const u8* tile, u32 offset, float& first, float& second) {
  const u8* place = tile + swizzled<Swizzle>(offset);
  if constexpr (Type::bytes == 4) {
    const u64 both = load_shared64(place);
    first = bits_to_float((u32)both);
    second = bits_to_float((u32)(both >> 32));
  } else if constexpr (Type::bytes == 2) {
    const u32 both = load_shared32(place);
    first = unpack_pair<Type, 0>(both);
    second = unpack_pair<Type, 1>(both);
  } else {
    const u32 both = load_shared16(place);
    first = unpack_pair<Type, 0>(both);
    second = unpack_pair<Type, 1>(both);
  }
}

// The bits of an element of global memory, by number.
template <class Type>
TITAN_DEVICE u32 load_global_bits(const void* base, long long index) {
  if constexpr (Type::bytes == 4) {
    return ((const u32*)base)[index];
  } else if constexpr (Type::bytes == 2) {
    return ((const u16*)base)[index];
  } else {
    return ((const u8*)base)[index];
  }
}

// The `Threads` threads of an agent copy a tile of Rows x Columns elements to where a bulk copy would
// put it: panels as wide as the swizzle, `panel_stride` bytes apart. Thread `thread` takes every
// `Threads`-th unit of 16 bytes. The tile starts at (row0, column0) of a dense matrix of `rows` x
// `columns` elements, which is number `outer` of those that begin at `base`, or lies outside of all
// (`inside` false); what lies outside becomes zero. Ordinary accesses: engines see them behind a
// `fence_proxy_async` of each thread. What lies inside is read in 16 or 4 bytes where it begins so.
template <class Type, int Swizzle, int Rows, int Columns, int Threads>
TITAN_DEVICE void fill_tile(u8* tile, u32 panel_stride, const void* base, long long outer, bool inside,
                            int rows, int columns, int row0, int column0, int thread) {
  TITAN_CONSTANT int each = 16 / Type::bytes, units = Columns / each, panel = Swizzle / 16;
  static_assert(Columns % each == 0 && units % panel == 0, "whole units and panels");
  TITAN_NO_UNROLL
  for (int unit = thread; unit < Rows * units; unit += Threads) {
    const int row = unit / units, place = unit % units;
    const int column = column0 + place * each;
    const bool in_row = inside && (u32)(row0 + row) < (u32)rows;
    const long long first = (outer * rows + row0 + row) * columns + column;
    const u64 source = (u64)base + (u64)first * Type::bytes;
    u32 words[4] = {0, 0, 0, 0};
    if (in_row && column >= 0 && column + each <= columns && source % 4 == 0) {
      if (source % 16 == 0) {
        const uint4 whole = *(const uint4*)source;
        words[0] = whole.x, words[1] = whole.y, words[2] = whole.z, words[3] = whole.w;
      } else {
        TITAN_UNROLL
        for (int i = 0; i < 4; ++i) words[i] = ((const u32*)source)[i];
      }
    } else {
      TITAN_UNROLL
      for (int i = 0; i < each; ++i) {
        if (in_row && (u32)(column + i) < (u32)columns) {
          words[i * Type::bytes / 4] |= load_global_bits<Type>(base, first + i)
                                        << i * Type::bytes % 4 * 8;
        }
      }
    }
    const u32 offset = (u32)(row * Swizzle + place % panel * 16);
    store_shared128(tile + place / panel * panel_stride + swizzled<Swizzle>(offset), words[0],
                    words[1], words[2], words[3]);
  }
}

// Over the four lanes that share the rows of a fragment.
TITAN_DEVICE float quad_max(float value) {
  value = maximum(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return maximum(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
TITAN_DEVICE float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Rounding towards minus infinity, as the sync program divides.
TITAN_DEVICE int floor_divide(int first, int second) {
  const int quotient = first / second;
  return first % second != 0 && (first < 0) != (second < 0) ? quotient - 1 : quotient;
}
TITAN_DEVICE int floor_modulo(int first, int second) {
  const int remainder = first % second;
  return remainder != 0 && (remainder < 0) != (second < 0) ? remainder + second : remainder;
}
TITAN_DEVICE int smaller(int first, int second) { return first < second ? first : second; }
TITAN_DEVICE int larger(int first, int second) { return first > second ? first : second; }

// A place in a ring of `Depth` stages: the stage, and the parity of the rounds before it.
template <int Depth>
struct RingPosition {
  int stage, parity;
};
template <int Depth>
TITAN_DEVICE void advance(RingPosition<Depth>& position) {
  const bool around = position.stage + 1 == Depth;  // of two stages: two instructions, not five
  position.parity ^= Depth == 2 ? position.stage : around ? 1 : 0;
  position.stage = Depth == 2 ? position.stage ^ 1 : around ? 0 : position.stage + 1;
}
// The place before, of two stages: its stage is that of the next place, so that none is moved.
TITAN_DEVICE RingPosition<2> before(const RingPosition<2>& position) {
  return {position.stage ^ 1, position.parity ^ position.stage ^ 1};
}

// --------------------------------------------------------------------------------- wgmma

// Before the first wgmma of a series: registers that this thread wrote are seen by it.
TITAN_DEVICE void wgmma_fence() {
  disturb_warp(32);
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
TITAN_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Until at most `Pending` groups of the warpgroup are unfinished.
template <int Pending>
TITAN_DEVICE void wgmma_wait() {
  static_assert(Pending >= 0 && Pending <= 7, "wgmma.wait_group");
  disturb_warp(34);
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
  disturb_warp(35);
}
// Registers that a wgmma uses between issue and wait: the compiler may not move their reads and
// writes over this place. No instruction.
template <int Count>
TITAN_DEVICE void hold(float (&registers)[Count]) {
  TITAN_UNROLL
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int Count>
TITAN_DEVICE void hold(u32 (&registers)[Count]) {
  TITAN_UNROLL
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}
// Registers whose content nobody needs any more: what a wgmma without accumulation will overwrite.
// Without it their last values would have to be moved there first. No instruction.
template <int Count>
TITAN_DEVICE void discard(float (&registers)[Count]) {
  TITAN_UNROLL
  for (int i = 0; i < Count; ++i) asm volatile("" : "=f"(registers[i])::"memory");
}
// The descriptor of a matrix in shared memory. PTX: wgmma, matrix descriptor and canonical layouts.
// With a swizzle of S bytes the matrix consists of units of 8 rows of S bytes; units lie at
// multiples of 8 * S. For operands whose rows run along K (K-major) `stride_bytes` leads from one
// group of 8 rows to the next and `leading_bytes` is not read. For those whose rows run along M or
// N (transposed) `stride_bytes` leads from one group of 8 values of K to the next, `leading_bytes`
// from one panel of S bytes to the next.
template <int Swizzle>
TITAN_DEVICE u64 shared_descriptor(const void* start, u32 leading_bytes, u32 stride_bytes) {
  static_assert(Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "swizzle of a descriptor");
  const u64 mode = Swizzle == 128 ? 1 : Swizzle == 64 ? 2 : 3;
  return (u64)((shared_address(start) & 0x3ffffu) >> 4) | (u64)(leading_bytes >> 4) << 16 |
         (u64)(stride_bytes >> 4) << 32 | mode << 62;
}
// The descriptor of what lies `bytes` (a multiple of 16) behind the start of another one. Nothing is
// carried out of the 14 bits of the address. A sum of 64 bits is one uniform instruction.
TITAN_DEVICE u64 descriptor_ahead(u64 descriptor, u32 bytes) {
  return descriptor + (bytes >> 4);
}

// The descriptor of a later stage of a ring, from that of its first: stages of `Bytes`, a multiple
// of 16, follow each other.
template <int Bytes>
TITAN_DEVICE u64 descriptor_of_stage(u64 descriptor, int stage) {
  static_assert(Bytes % 16 == 0, "stages of whole units");
  return (descriptor & 0xffffffff00000000ull) | (u64)((u32)descriptor + (u32)stage * (Bytes / 16));
}

// A number that is computed here, and not again in each iteration of a loop. No instruction.
TITAN_DEVICE u64 kept(u64 number) {
  asm("" : "+l"(number));
  return number;
}

// The same number, of which the compiler knows nothing: neither it nor what is computed from it is
// kept alive from one use to the next. No instruction.
TITAN_DEVICE u64 opaque(u64 number) {
  asm volatile("" : "+l"(number));
  return number;
}
TITAN_DEVICE u32 opaque(u32 number) {
  asm volatile("" : "+r"(number));
  return number;
}

// D (64 x N, float) = A (64 x K) * B (K x N) [+ D where `accumulate`], K = 32 bytes of elements.
// A fragment of 64 rows: warp w of the warpgroup has the rows 16 w .. 16 w + 15; d[4 j + 2 h + e]
// is row 16 w + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + e. Of 16-bit A operands in registers
// a[2 c + h] holds, with the lower half first, columns 8 c + 2 (lane % 4) + {0, 1} of row
// 16 w + lane / 4 + 8 h.
template <class Type, int N, bool TransposeA, bool TransposeB>
struct Wgmma;

#define TITAN_LIST_1 "%0, %1, %2, %3"
#define TITAN_OPERANDS_1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define TITAN_LIST_2 TITAN_LIST_1 ", %4, %5, %6, %7"
#define TITAN_OPERANDS_2 TITAN_OPERANDS_1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TITAN_LIST_3 TITAN_LIST_2 ", %8, %9, %10, %11"
#define TITAN_OPERANDS_3 TITAN_OPERANDS_2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define TITAN_LIST_4 TITAN_LIST_3 ", %12, %13, %14, %15"
#define TITAN_OPERANDS_4 TITAN_OPERANDS_3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TITAN_LIST_5 TITAN_LIST_4 ", %16, %17, %18, %19"
#define TITAN_OPERANDS_5 TITAN_OPERANDS_4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define TITAN_LIST_6 TITAN_LIST_5 ", %20, %21, %22, %23"
#define TITAN_OPERANDS_6 TITAN_OPERANDS_5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TITAN_LIST_7 TITAN_LIST_6 ", %24, %25, %26, %27"
#define TITAN_OPERANDS_7 TITAN_OPERANDS_6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define TITAN_LIST_8 TITAN_LIST_7 ", %28, %29, %30, %31"
#define TITAN_OPERANDS_8 TITAN_OPERANDS_7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TITAN_LIST_9 TITAN_LIST_8 ", %32, %33, %34, %35"
#define TITAN_OPERANDS_9 TITAN_OPERANDS_8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define TITAN_LIST_10 TITAN_LIST_9 ", %36, %37, %38, %39"
#define TITAN_OPERANDS_10 TITAN_OPERANDS_9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TITAN_LIST_11 TITAN_LIST_10 ", %40, %41, %42, %43"
#define TITAN_OPERANDS_11 TITAN_OPERANDS_10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define TITAN_LIST_12 TITAN_LIST_11 ", %44, %45, %46, %47"
#define TITAN_OPERANDS_12 TITAN_OPERANDS_11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TITAN_LIST_13 TITAN_LIST_12 ", %48, %49, %50, %51"
#define TITAN_OPERANDS_13 TITAN_OPERANDS_12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define TITAN_LIST_14 TITAN_LIST_13 ", %52, %53, %54, %55"
#define TITAN_OPERANDS_14 TITAN_OPERANDS_13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TITAN_LIST_15 TITAN_LIST_14 ", %56, %57, %58, %59"
#define TITAN_OPERANDS_15 TITAN_OPERANDS_14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define TITAN_LIST_16 TITAN_LIST_15 ", %60, %61, %62, %63"
#define TITAN_OPERANDS_16 TITAN_OPERANDS_15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TITAN_LIST_17 TITAN_LIST_16 ", %64, %65, %66, %67"
#define TITAN_OPERANDS_17 TITAN_OPERANDS_16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TITAN_LIST_18 TITAN_LIST_17 ", %68, %69, %70, %71"
#define TITAN_OPERANDS_18 TITAN_OPERANDS_17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TITAN_LIST_19 TITAN_LIST_18 ", %72, %73, %74, %75"
#define TITAN_OPERANDS_19 TITAN_OPERANDS_18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define TITAN_LIST_20 TITAN_LIST_19 ", %76, %77, %78, %79"
#define TITAN_OPERANDS_20 TITAN_OPERANDS_19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TITAN_LIST_21 TITAN_LIST_20 ", %80, %81, %82, %83"
#define TITAN_OPERANDS_21 TITAN_OPERANDS_20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define TITAN_LIST_22 TITAN_LIST_21 ", %84, %85, %86, %87"
#define TITAN_OPERANDS_22 TITAN_OPERANDS_21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TITAN_LIST_23 TITAN_LIST_22 ", %88, %89, %90, %91"
#define TITAN_OPERANDS_23 TITAN_OPERANDS_22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define TITAN_LIST_24 TITAN_LIST_23 ", %92, %93, %94, %95"
#define TITAN_OPERANDS_24 TITAN_OPERANDS_23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TITAN_LIST_25 TITAN_LIST_24 ", %96, %97, %98, %99"
#define TITAN_OPERANDS_25 TITAN_OPERANDS_24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define TITAN_LIST_26 TITAN_LIST_25 ", %100, %101, %102, %103"
#define TITAN_OPERANDS_26 TITAN_OPERANDS_25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TITAN_LIST_27 TITAN_LIST_26 ", %104, %105, %106, %107"
#define TITAN_OPERANDS_27 TITAN_OPERANDS_26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define TITAN_LIST_28 TITAN_LIST_27 ", %108, %109, %110, %111"
#define TITAN_OPERANDS_28 TITAN_OPERANDS_27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TITAN_LIST_29 TITAN_LIST_28 ", %112, %113, %114, %115"
#define TITAN_OPERANDS_29 TITAN_OPERANDS_28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define TITAN_LIST_30 TITAN_LIST_29 ", %116, %117, %118, %119"
#define TITAN_OPERANDS_30 TITAN_OPERANDS_29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TITAN_LIST_31 TITAN_LIST_30 ", %120, %121, %122, %123"
#define TITAN_OPERANDS_31 TITAN_OPERANDS_30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define TITAN_LIST_32 TITAN_LIST_31 ", %124, %125, %126, %127"
#define TITAN_OPERANDS_32 TITAN_OPERANDS_31, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// One instruction: element types, K, and the immediates that only 16-bit types have.
#define TITAN_WGMMA_SS(N, PARTS, TYPES, A, B, P, MODES, ...)                                        \
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " P ", 0;\n"                                    \
               " wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" TITAN_LIST_##PARTS "}, " A ", " B \
               ", p, 1, 1" MODES ";\n}\n"                                                          \
               : TITAN_OPERANDS_##PARTS                                                            \
               : "l"(a), "l"(b), "r"(accumulate) __VA_ARGS__)
#define TITAN_WGMMA_RS(N, PARTS, TYPES, A0, A1, A2, A3, B, P, MODES, ...)                           \
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " P ", 0;\n"                                    \
               " wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" TITAN_LIST_##PARTS "}, {" A0      \
               ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1" MODES ";\n}\n"                          \
               : TITAN_OPERANDS_##PARTS                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                               \
                 "r"(accumulate) __VA_ARGS__)
#define TITAN_COMMA ,

// All types of one N; I0 .. I6 are the numbers of the operands behind the N / 2 of D.
#define TITAN_WGMMA(N, PARTS, I0, I1, I2, I3, I4, I5, I6)                                           \
  template <class Type, bool TransposeA, bool TransposeB>                                          \
  struct Wgmma<Type, N, TransposeA, TransposeB> {                                                  \
    TITAN_DEVICE void ss(float (&d)[N / 2], u64 a, u64 b, int accumulate) {                        \
      if constexpr (same<Type, bf16>::value) {                                                     \
        TITAN_WGMMA_SS(N, PARTS, "k16.f32.bf16.bf16", I0, I1, I2, ", " I3 ", " I4,                 \
                       TITAN_COMMA "n"(TransposeA ? 1 : 0) TITAN_COMMA "n"(TransposeB ? 1 : 0));   \
      } else if constexpr (same<Type, f16>::value) {                                               \
        TITAN_WGMMA_SS(N, PARTS, "k16.f32.f16.f16", I0, I1, I2, ", " I3 ", " I4,                   \
                       TITAN_COMMA "n"(TransposeA ? 1 : 0) TITAN_COMMA "n"(TransposeB ? 1 : 0));   \
      } else {                                                                                     \
        static_assert(!TransposeA && !TransposeB, "8-bit operands are K-major");                   \
        if constexpr (same<Type, e4m3>::value) {                                                   \
          TITAN_WGMMA_SS(N, PARTS, "k32.f32.e4m3.e4m3", I0, I1, I2, "", );                         \
        } else {                                                                                   \
          static_assert(same<Type, e5m2>::value, "element type of wgmma");                         \
          TITAN_WGMMA_SS(N, PARTS, "k32.f32.e5m2.e5m2", I0, I1, I2, "", );                         \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    TITAN_DEVICE void rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {            \
      if constexpr (same<Type, bf16>::value) {                                                     \
        TITAN_WGMMA_RS(N, PARTS, "k16.f32.bf16.bf16", I0, I1, I2, I3, I4, I5, ", " I6,             \
                       TITAN_COMMA "n"(TransposeB ? 1 : 0));                                       \
      } else if constexpr (same<Type, f16>::value) {                                               \
        TITAN_WGMMA_RS(N, PARTS, "k16.f32.f16.f16", I0, I1, I2, I3, I4, I5, ", " I6,               \
                       TITAN_COMMA "n"(TransposeB ? 1 : 0));                                       \
      } else {                                                                                     \
        static_assert(!TransposeB, "8-bit operands are K-major");                                  \
        if constexpr (same<Type, e4m3>::value) {                                                   \
          TITAN_WGMMA_RS(N, PARTS, "k32.f32.e4m3.e4m3", I0, I1, I2, I3, I4, I5, "", );             \
        } else {                                                                                   \
          static_assert(same<Type, e5m2>::value, "element type of wgmma");                         \
          TITAN_WGMMA_RS(N, PARTS, "k32.f32.e5m2.e5m2", I0, I1, I2, I3, I4, I5, "", );             \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  };
TITAN_WGMMA(8, 1, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
TITAN_WGMMA(16, 2, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
TITAN_WGMMA(24, 3, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
TITAN_WGMMA(32, 4, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
TITAN_WGMMA(40, 5, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
TITAN_WGMMA(48, 6, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
TITAN_WGMMA(56, 7, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
TITAN_WGMMA(64, 8, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
TITAN_WGMMA(72, 9, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
TITAN_WGMMA(80, 10, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
TITAN_WGMMA(88, 11, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
TITAN_WGMMA(96, 12, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
TITAN_WGMMA(104, 13, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
TITAN_WGMMA(112, 14, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
TITAN_WGMMA(120, 15, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
TITAN_WGMMA(128, 16, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
TITAN_WGMMA(136, 17, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
TITAN_WGMMA(144, 18, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
TITAN_WGMMA(152, 19, "%76", "%77", "%78", "%79", "%80", "%81", "%82")
TITAN_WGMMA(160, 20, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
TITAN_WGMMA(168, 21, "%84", "%85", "%86", "%87", "%88", "%89", "%90")
TITAN_WGMMA(176, 22, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
TITAN_WGMMA(184, 23, "%92", "%93", "%94", "%95", "%96", "%97", "%98")
TITAN_WGMMA(192, 24, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
TITAN_WGMMA(200, 25, "%100", "%101", "%102", "%103", "%104", "%105", "%106")
TITAN_WGMMA(208, 26, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
TITAN_WGMMA(216, 27, "%108", "%109", "%110", "%111", "%112", "%113", "%114")
TITAN_WGMMA(224, 28, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
TITAN_WGMMA(232, 29, "%116", "%117", "%118", "%119", "%120", "%121", "%122")
TITAN_WGMMA(240, 30, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
TITAN_WGMMA(248, 31, "%124", "%125", "%126", "%127", "%128", "%129", "%130")
TITAN_WGMMA(256, 32, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
#undef TITAN_WGMMA
#undef TITAN_WGMMA_SS
#undef TITAN_WGMMA_RS
#undef TITAN_COMMA

// Both operands in shared memory. `Transpose`: the rows in memory run along M (A) or N (B).
template <class Type, int N, bool TransposeB, bool TransposeA = false>
TITAN_DEVICE void wgmma_ss(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  Wgmma<Type, N, TransposeA, TransposeB>::ss(d, a, b, accumulate);
}

// A in registers.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void wgmma_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  Wgmma<Type, N, false, TransposeB>::rs(d, a, b, accumulate);
}

}  // namespace titan

#endif  // TITAN_DEVICE_CUH
