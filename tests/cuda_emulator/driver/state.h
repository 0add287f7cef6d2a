// What every part of the driver needs: the lock, errors with a reason, counters, faults on demand.
#pragma once
#include <cuda.h>

#include <mutex>

#define API extern "C" __attribute__((visibility("default")))
#define LIKE_PRINTF(text, first) __attribute__((format(printf, text, first)))

using Lock = std::lock_guard<std::recursive_mutex>;
extern std::recursive_mutex driver_mutex;

// The error code for the caller to return; cuGetErrorString of it will say the reason too.
CUresult fail(CUresult code, const char* reason, ...) LIKE_PRINTF(2, 3);
// An error of work on the device: every later call returns it, as the context is lost.
CUresult lose_context(CUresult code, const char* reason, ...) LIKE_PRINTF(2, 3);
CUresult lost();

// What tests may count; docs in ../README.md.
struct Counters {
  long launches, allocations, frees, copies, memsets, module_loads;
  long wait_context, wait_stream, wait_event, wait_copy_to_host, wait_copy_to_device, wait_free;
};
extern Counters counters;

// Whether the fault of that name, asked for by cuda_emulator_fault, is due now.
bool fault_due(const char* name);

bool initialised();
bool has_context();

// Runs a driver call under the lock if the driver is initialised, this thread has a context and the context isn't lost.
template <class F> CUresult in_context(F f) {
  Lock lock(driver_mutex);
  if (!initialised()) return fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (!has_context()) return fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
  if (CUresult error = lost()) return error;
  CUresult result = f();
  return lost() ? lost() : result;
}
