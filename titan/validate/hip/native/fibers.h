// Fibers: one stack for each lane, switched by hand. The switch saves what the System V
// calling convention asks a callee to keep; elsewhere ucontext does the same more slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace titan::emulation {

constexpr std::size_t page_bytes = 4096;

// Memory of its own with an inaccessible page before and after; the content ends at the page after,
// unless that would break the alignment.
inline unsigned char *guarded(std::size_t bytes, std::size_t alignment) {
  const std::size_t inner = (bytes + page_bytes - 1) / page_bytes * page_bytes + page_bytes;
  void *whole = mmap(nullptr, inner + 2 * page_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) {
    std::perror("emulation: mmap");
    std::exit(4);
  }
  unsigned char *start = static_cast<unsigned char *>(whole) + page_bytes;
  mprotect(start, inner, PROT_READ | PROT_WRITE);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(start) + inner;
  return reinterpret_cast<unsigned char *>((end - bytes) / alignment * alignment);
}

#if defined(__x86_64__)

asm(R"(
.text
.p2align 4
.type titan_emulation_switch,@function
titan_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size titan_emulation_switch, .-titan_emulation_switch
)");
extern "C" void titan_emulation_switch(void **save, void *to);

struct Fiber {
  void *stack_pointer = nullptr;

  void prepare(unsigned char *stack, std::size_t bytes, void (*entry)()) {
    auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
    void **place = reinterpret_cast<void **>(top);
    *--place = nullptr;  // where a return of entry would go; it never returns
    *--place = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; ++i) *--place = nullptr;
    stack_pointer = place;
  }
};

inline void switch_fiber(Fiber &from, Fiber &to) {
  titan_emulation_switch(&from.stack_pointer, to.stack_pointer);
}

#else

struct Fiber {
  ucontext_t context{};

  void prepare(unsigned char *stack, std::size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
};

inline void switch_fiber(Fiber &from, Fiber &to) { swapcontext(&from.context, &to.context); }

#endif

}  // namespace titan::emulation
