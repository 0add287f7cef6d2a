// Device and pinned memory: host memory between guard pages, poisoned when it is fresh, out of reach once it is freed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "state.h"

struct Allocation {
  char* start;
  size_t bytes;
  char* pages;         // the whole mapping with its guards; nullptr: a variable of a module, or host memory that was registered
  size_t page_bytes;
  bool on_device;
};

CUresult allocate(void** start, size_t bytes, bool on_device);
void adopt(void* start, size_t bytes, bool on_device);  // memory that is somebody else's
void disown(void* start);
CUresult release(void* start);

const Allocation* find_allocation(uintptr_t address);
bool is_pinned(const void* address);
// The slack after an allocation is still poison, unless somebody wrote past its end.
bool written_past_end(const Allocation&);
// A device range must lie within one allocation.
CUresult check_range(CUdeviceptr start, size_t bytes, const char* what);
// "4 bytes past the end of a 256-byte allocation", for messages about an address.
std::string whereabouts(uintptr_t address);
