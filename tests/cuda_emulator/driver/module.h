// A module: a host shared object, made by ../nvcc, with a table of its kernels.
#pragma once
#include <string>

#include "cuda_emulator/interface.h"
#include "state.h"

constexpr unsigned default_shared_bytes = 48 << 10, most_shared_bytes = 227 << 10;  // of a block

struct Module {
  void* library = nullptr;
  std::string path;                // under which the dynamic linker knows it; it is there no longer
  size_t static_shared_bytes = 0;  // its __shared__ variables are thread-local, this many bytes of them
};

struct Function {
  const cuda_emulator::Kernel* kernel;
  const Module* module;
  unsigned most_dynamic_shared;
};

struct Span {
  char* start;
  size_t bytes;
};
// The module's __shared__ variables, as this host thread sees them.
Span static_shared(const Module&);
