// What device code and the driver say to each other: where a thread stands, the calls a thread makes, and a module's list of kernels.
#pragma once
#include <vector_types.h>

namespace cuda_emulator {

struct Block {
  uint3 index;
  dim3 shape, grid;
  char* dynamic_shared;
};

struct Thread {
  uint3 index;
  unsigned lane;
  const Block* block;
};

// The lanes of a warp that took part in one *_sync call: what each brought, and what each shall get.
struct Meeting {
  unsigned mask, lanes;  // lanes: those of the mask that are still alive
  unsigned long long value[32], result[32];
  int operand[32];
};

struct Parameter {
  unsigned offset, bytes;
};

struct Kernel {
  const char* name;
  const void* function;
  void (*call)(const void* function, const char* arguments);
  const Parameter* parameters;
  unsigned parameter_count, argument_bytes, max_threads;
};

}  // namespace cuda_emulator

extern "C" {
extern __thread cuda_emulator::Thread* cuda_emulator_thread __attribute__((tls_model("initial-exec")));

// Wait for the whole block; how many threads gave a predicate other than 0.
int cuda_emulator_barrier(int predicate, const char* file, int line);
// Wait for the lanes of the mask; the last to come lets `resolve` fill in the results, of which each lane gets its own.
unsigned long long cuda_emulator_meet(unsigned mask, unsigned long long value, int operand,
                                      void (*resolve)(cuda_emulator::Meeting&), const char* file, int line);
[[noreturn]] void cuda_emulator_assert(const char* expression, const char* file, unsigned line, const char* function) noexcept;
[[noreturn]] void cuda_emulator_trap();
}
