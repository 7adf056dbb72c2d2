// What a kernel compiled for emulation calls: the primitives, with the name and line of the call.
// They are defined in runtime.cpp, which is compiled once; this file keeps the kernels' part small.
#pragma once

#include "numbers.h"

namespace titan::emulation {

// What one thread says of a wgmma. `columns` is N; A is a descriptor or four registers.
struct Instruction {
  Kind kind = Kind::bf16;
  int columns = 0;
  bool transpose_a = false, transpose_b = false, a_in_registers = false;
  std::uint64_t a = 0, b = 0;
  bool accumulate = false;
  float *d = nullptr;
  std::uint32_t registers[4] = {};
};

// Where byte `address` of an unswizzled tile lies: in each group of rows of 128 bytes the 16-byte
// units change places. PTX ISA, swizzling modes: bits 4 .. of the address XOR bits 7 .. .
inline std::uint32_t swizzle_address(std::uint32_t address, int swizzle_bytes) {
  const std::uint32_t mask = swizzle_bytes == 0 ? 0 : swizzle_bytes / 16 - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

int own_thread();
int own_block();
int own_rank();
int grid_blocks();
unsigned char *dynamic_shared();
[[noreturn]] void stop_here(const char *why, int line);

std::uint32_t exchange(const char *name, int line, std::uint32_t value, int source_lane);
bool elect(int line);
void warp_barrier(int line);
void named_barrier(const char *name, int line, int id, int count, bool wait);
void block_barrier(int line);
void cluster_barrier(int line);
void change_registers(const char *name, int line, int count, bool increase);

std::uint32_t address_of(const void *pointer);
std::uint32_t address_in(const void *pointer, std::uint32_t cta);
void ordinary_store(void *pointer, const void *value, int bytes, int line);
void ordinary_load(const void *pointer, void *value, int bytes, int line);
void fence_async(int line);

void barrier_create(const void *barrier, std::uint32_t count, int line);
void barrier_fence(int line);
void barrier_arrival(const char *name, int line, const void *barrier, bool arrives,
                     std::uint32_t bytes);
void barrier_remote(const void *barrier, std::uint32_t cta, int line);
bool barrier_test(const void *barrier, std::uint32_t parity, int line);
void barrier_block(const void *barrier, std::uint32_t parity, int line);

void start_load(const char *name, int line, void *destination, int map, const void *barrier,
                const int *start, int rank, int mask);
void start_store(int line, int map, const void *source, const int *start, int rank);
void commit_bulk(int line);
void wait_bulk(const char *name, int line, int pending, bool read_only);

void matrix_multiply(const char *name, int line, const Instruction &request);
void poison_registers(float *registers, int count);
void matrix_fence(int line);
void matrix_commit(int line);
void matrix_wait(int line, int pending);

void tensor_allocate(void *slot, int columns, int line);
void tensor_free(std::uint32_t address, int columns, int line);
void tensor_multiplication(std::uint32_t d, const Instruction &request, int line);
void tensor_arrival(const void *barrier, int line);
void tensor_fetch(int line, float *registers, std::uint32_t address, int columns);
void tensor_put(const char *name, int line, const void *values, std::uint32_t address, int columns,
                bool pairs);
void tensor_wait(bool puts, int line);
void tensor_fence(bool after, int line);

// The launch: argument `number` as the kernel's parameter asks for it, and the whole run.
int given_map(int number);
void *given_pointer(int number);
long long given_size(int number);
int run(int count, char **words, void (*entry)());

}  // namespace titan::emulation
