// Errors: what they are called, what they say, and the one that sticks.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "state.h"

std::recursive_mutex driver_mutex;

namespace {

struct Description {
  CUresult code;
  const char *name, *text;
};

#define ERROR(NAME, TEXT) {CUDA_ERROR_##NAME, "CUDA_ERROR_" #NAME, TEXT}
const Description descriptions[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    ERROR(INVALID_VALUE, "invalid argument"),
    ERROR(OUT_OF_MEMORY, "out of memory"),
    ERROR(NOT_INITIALIZED, "initialization error"),
    ERROR(NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(INVALID_DEVICE, "invalid device ordinal"),
    ERROR(INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(INVALID_CONTEXT, "invalid device context"),
    ERROR(NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(FILE_NOT_FOUND, "file not found"),
    ERROR(INVALID_HANDLE, "invalid resource handle"),
    ERROR(NOT_FOUND, "named symbol not found"),
    ERROR(NOT_READY, "device not ready"),
    ERROR(ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR(LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR(ASSERT, "device-side assert triggered"),
    ERROR(MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(NOT_SUPPORTED, "operation not supported"),
};
#undef ERROR

struct Failure {
  CUresult code = CUDA_SUCCESS;
  std::string reason;
};
thread_local Failure latest;
Failure sticky;

Failure describe(CUresult code, const char* format, va_list arguments) {
  char reason[1000];
  vsnprintf(reason, sizeof reason, format, arguments);
  return {code, reason};
}

const Description* find(CUresult code) {
  for (const Description& d : descriptions)
    if (d.code == code) return &d;
  return nullptr;
}

}  // namespace

CUresult fail(CUresult code, const char* reason, ...) {
  va_list arguments;
  va_start(arguments, reason);
  latest = describe(code, reason, arguments);
  va_end(arguments);
  return code;
}

CUresult lose_context(CUresult code, const char* reason, ...) {
  Lock lock(driver_mutex);
  va_list arguments;
  va_start(arguments, reason);
  if (!sticky.code) sticky = describe(code, reason, arguments);
  va_end(arguments);
  return sticky.code;
}

CUresult lost() {
  if (sticky.code) latest = sticky;
  return sticky.code;
}

API CUresult cuGetErrorName(CUresult code, const char** name) {
  const Description* d = find(code);
  *name = d ? d->name : nullptr;
  return d ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// As the real text, and for this thread's latest error the reason too.
API CUresult cuGetErrorString(CUresult code, const char** text) {
  static thread_local std::string whole;
  const Description* d = find(code);
  whole = d ? d->text : "unknown error";
  if (code && code == latest.code) whole += " [CUDA emulator: " + latest.reason + "]";
  *text = whole.c_str();
  return CUDA_SUCCESS;
}

// Called by stubs.c for each driver entry that is declared in cuda.h and not written here.
extern "C" int cuda_emulator_lacks(const char* entry) { return fail(CUDA_ERROR_NOT_SUPPORTED, "%s is not emulated", entry); }

// Forgets the error that sticks, so that a test of one needs no process of its own.
API void cuda_emulator_recover() {
  Lock lock(driver_mutex);
  sticky = latest = {};
}
