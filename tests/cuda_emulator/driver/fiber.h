// Fibers: stacks of their own for device threads, and the switch between them.  x86-64 with System V's calling convention.
#pragma once
#include <cstddef>

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;  // its lowest page is closed
};

constexpr size_t stack_bytes = 256 << 10;

// A stack that starts in `entry` when it is first switched to; starting anew what a fault left behind is fine.
void start_fiber(Fiber&, void (*entry)());

// Leaves the running stack at *from and goes on where `to` was left.
extern "C" void switch_fiber(void** from, void* to) __attribute__((visibility("hidden")));
