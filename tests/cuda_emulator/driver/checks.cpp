// What compiled checks in device code call when they fail: g++'s sanitizers of alignment and bounds, assert() and __trap().
#include <cstdint>
#include <cstdio>
#include <string>

#include "block.h"

#define DEVICE_API extern "C" __attribute__((visibility("default")))

namespace {

// as g++ lays them out
struct Location {
  const char* file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind, information;
  char name[1];
};
struct TypeMismatch {
  Location location;
  const Type* type;
  unsigned char log_alignment, access;
};
struct OutOfBounds {
  Location location;
  const Type *array, *index;
};

std::string at(const Location& l) {
  std::string file = l.file;
  return " at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(l.line);
}

}  // namespace

DEVICE_API void __ubsan_handle_type_mismatch_v1_abort(const TypeMismatch* check, uintptr_t address) {
  char needs[80];
  snprintf(needs, sizeof needs, " needs an address that is a multiple of %u, not %#lx", 1u << check->log_alignment, address);
  running_block->fault(CUDA_ERROR_MISALIGNED_ADDRESS, check->type->name + at(check->location) + needs);
}

DEVICE_API void __ubsan_handle_out_of_bounds_abort(const OutOfBounds* check, uintptr_t index) {
  running_block->fault(CUDA_ERROR_ILLEGAL_ADDRESS, "index " + std::to_string(static_cast<int>(index)) + " is out of the bounds of " +
                                                       check->array->name + at(check->location));
}

DEVICE_API void cuda_emulator_assert(const char* expression, const char* file, unsigned line, const char*) noexcept {
  running_block->fault(CUDA_ERROR_ASSERT, "assertion " + std::string(expression) + " failed" + at({file, line, 0}));
}

DEVICE_API void cuda_emulator_trap() { running_block->fault(CUDA_ERROR_LAUNCH_FAILED, "__trap() was called"); }
