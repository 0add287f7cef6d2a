// See fiber.h.
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

asm(R"(
.text
.globl switch_fiber
.hidden switch_fiber
.type switch_fiber, @function
switch_fiber:
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
.size switch_fiber, .-switch_fiber
)");

static char* map_stack() {
  constexpr size_t guard = 4096;
  void* pages = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) abort();
  mprotect(pages, guard, PROT_NONE);
  return static_cast<char*>(pages);
}

void start_fiber(Fiber& fiber, void (*entry)()) {
  if (!fiber.stack) fiber.stack = map_stack();
  // stacks whose tops all had the same last 12 bits would share a few sets of the cache
  uintptr_t colour = reinterpret_cast<uintptr_t>(fiber.stack) / stack_bytes * 320 % 4096 & ~uintptr_t{15};
  auto top = reinterpret_cast<void**>(fiber.stack + stack_bytes - 64 - colour);
  *--top = nullptr;                            // where entry would return to, if it did
  *--top = reinterpret_cast<void*>(entry);     // popped by switch_fiber's ret
  for (int registers = 0; registers < 6; registers++) *--top = nullptr;
  fiber.stack_pointer = top;
}
