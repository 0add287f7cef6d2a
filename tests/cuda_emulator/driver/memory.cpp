// See memory.h.
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "settings.h"
#include "stream.h"

namespace {

constexpr size_t page = 4096, alignment = 256, most_freed = 10000;
constexpr int poison = 0xff;

std::map<uintptr_t, Allocation> allocations;
std::deque<Allocation> freed;  // their addresses aren't given out again for a while, so that a use after free is seen
size_t in_use = 0;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

char* slack_end(const Allocation& a) { return a.pages + a.page_bytes - page; }

// Pages nobody may touch, with room in the middle: as near to the end as the alignment allows, since most overruns are upwards.
Allocation map_guarded(size_t bytes, bool on_device) {
  size_t room = round_up(std::max<size_t>(bytes, 1), page), all = room + 2 * page;
  void* pages = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return {};
  char* first = static_cast<char*>(pages) + page;
  if (mprotect(first, room, PROT_READ | PROT_WRITE)) return {};
  return {first + (room - bytes) / alignment * alignment, bytes, static_cast<char*>(pages), all, on_device};
}

// Gives the pages back to the system and keeps their addresses, closed.
void close(const Allocation& a) {
  mmap(a.pages, a.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  freed.push_back(a);
  if (freed.size() <= most_freed) return;
  munmap(freed.front().pages, freed.front().page_bytes);
  freed.pop_front();
}

std::string sized(const Allocation& a) { return "a " + std::to_string(a.bytes) + "-byte allocation"; }

}  // namespace

CUresult allocate(void** start, size_t bytes, bool on_device) {
  if (!bytes) return fail(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
  counters.allocations++;
  if (fault_due("out_of_memory")) return fail(CUDA_ERROR_OUT_OF_MEMORY, "an injected fault");
  if (on_device && bytes > settings().memory - in_use)
    return fail(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes asked for, %zu of %zu free", bytes, settings().memory - in_use, settings().memory);
  Allocation a = map_guarded(bytes, on_device);
  if (!a.pages) return fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no room for %zu bytes", bytes);
  if (settings().poison) memset(a.start, poison, static_cast<size_t>(slack_end(a) - a.start));
  if (on_device) in_use += bytes;
  allocations[reinterpret_cast<uintptr_t>(a.start)] = a;
  *start = a.start;
  return CUDA_SUCCESS;
}

void adopt(void* start, size_t bytes, bool on_device) {
  allocations[reinterpret_cast<uintptr_t>(start)] = {static_cast<char*>(start), bytes, nullptr, 0, on_device};
}

void disown(void* start) { allocations.erase(reinterpret_cast<uintptr_t>(start)); }

CUresult release(void* start) {
  auto found = allocations.find(reinterpret_cast<uintptr_t>(start));
  if (found == allocations.end() || !found->second.pages)
    return fail(CUDA_ERROR_INVALID_VALUE, "%p to be freed is %s", start, whereabouts(reinterpret_cast<uintptr_t>(start)).c_str());
  Allocation a = found->second;
  allocations.erase(found);
  counters.frees++;
  if (a.on_device) in_use -= a.bytes;
  bool overrun = written_past_end(a);
  close(a);
  return overrun ? lose_context(CUDA_ERROR_ILLEGAL_ADDRESS, "something wrote past the end of %s, now freed", sized(a).c_str())
                 : CUDA_SUCCESS;
}

const Allocation* find_allocation(uintptr_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return nullptr;
  const Allocation& a = std::prev(next)->second;
  return address - reinterpret_cast<uintptr_t>(a.start) < a.bytes ? &a : nullptr;
}

bool is_pinned(const void* address) {
  const Allocation* a = find_allocation(reinterpret_cast<uintptr_t>(address));
  return a && !a->on_device;
}

bool written_past_end(const Allocation& a) {
  if (!a.pages || !settings().poison) return false;
  return std::any_of(a.start + a.bytes, slack_end(a), [](char c) { return c != static_cast<char>(poison); });
}

CUresult check_range(CUdeviceptr start, size_t bytes, const char* what) {
  const Allocation* a = find_allocation(start);
  if (!bytes || (a && start + bytes <= reinterpret_cast<uintptr_t>(a->start) + a->bytes)) return CUDA_SUCCESS;
  if (a) return fail(CUDA_ERROR_INVALID_VALUE, "%s of %zu bytes runs past the end of %s", what, bytes, sized(*a).c_str());
  return fail(CUDA_ERROR_INVALID_VALUE, "%s of %zu bytes at an address that is %s", what, bytes, whereabouts(start).c_str());
}

std::string whereabouts(uintptr_t address) {
  if (address < page) return "a null pointer" + (address ? " plus " + std::to_string(address) : "");
  for (const Allocation& a : freed)
    if (address - reinterpret_cast<uintptr_t>(a.pages) < a.page_bytes) return "in " + sized(a) + " that was freed";
  constexpr uintptr_t near = 1 << 20;
  auto next = allocations.upper_bound(address);
  if (next != allocations.begin()) {
    const Allocation& a = std::prev(next)->second;
    uintptr_t past = address - reinterpret_cast<uintptr_t>(a.start) - a.bytes;
    if (past < near) return std::to_string(past) + " bytes past the end of " + sized(a);
  }
  if (next != allocations.end() && next->first - address < near)
    return std::to_string(next->first - address) + " bytes before " + sized(next->second);
  return "in no allocation";
}

static CUresult allocate_device(CUdeviceptr* start, size_t bytes) {
  return in_context([&] { return allocate(reinterpret_cast<void**>(start), bytes, true); });
}

API CUresult cuMemAlloc_v2(CUdeviceptr* start, size_t bytes) { return allocate_device(start, bytes); }
API CUresult cuMemAllocManaged(CUdeviceptr* start, size_t bytes, unsigned) { return allocate_device(start, bytes); }
API CUresult cuMemAllocPitch_v2(CUdeviceptr* start, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = round_up(width, 512);
  return allocate_device(start, *pitch * height);
}

// The device must be idle before memory goes away, so the real driver waits as well.
static CUresult release_idle(void* start) {
  return in_context([&] {
    counters.wait_free++;
    finish_all();
    return release(start);
  });
}
API CUresult cuMemFree_v2(CUdeviceptr start) { return start ? release_idle(reinterpret_cast<void*>(start)) : CUDA_SUCCESS; }
API CUresult cuMemFreeHost(void* start) { return release_idle(start); }

API CUresult cuMemAllocAsync(CUdeviceptr* start, size_t bytes, CUstream) { return allocate_device(start, bytes); }
API CUresult cuMemFreeAsync(CUdeviceptr start, CUstream stream) {
  return in_context([&] { return enqueue(stream, [=] { release(reinterpret_cast<void*>(start)); }); });
}

API CUresult cuMemHostAlloc(void** start, size_t bytes, unsigned) {
  return in_context([&] { return allocate(start, bytes, false); });
}
API CUresult cuMemAllocHost_v2(void** start, size_t bytes) { return cuMemHostAlloc(start, bytes, 0); }
API CUresult cuMemHostRegister_v2(void* start, size_t bytes, unsigned) {
  return in_context([&] { return adopt(start, bytes, false), CUDA_SUCCESS; });
}
API CUresult cuMemHostUnregister(void* start) {
  return in_context([&] { return finish_all(), disown(start), CUDA_SUCCESS; });
}
API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&] {
    *total = settings().memory;
    *free = *total - in_use;
    return CUDA_SUCCESS;
  });
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  return in_context([&] {
    const Allocation* a = find_allocation(address);
    if (!a) return fail(CUDA_ERROR_NOT_FOUND, "the address is %s", whereabouts(address).c_str());
    if (start) *start = reinterpret_cast<CUdeviceptr>(a->start);
    if (bytes) *bytes = a->bytes;
    return CUDA_SUCCESS;
  });
}

API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  return in_context([&] {
    const Allocation* a = find_allocation(address);
    if (!a) return fail(CUDA_ERROR_INVALID_VALUE, "the address is %s", whereabouts(address).c_str());
    if (which == CU_POINTER_ATTRIBUTE_CONTEXT) return cuCtxGetCurrent(static_cast<CUcontext*>(value));
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return *static_cast<int*>(value) = 0, CUDA_SUCCESS;
    if (which != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return fail(CUDA_ERROR_NOT_SUPPORTED, "pointer attribute %d is not emulated", which);
    *static_cast<CUmemorytype*>(value) = a->on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return CUDA_SUCCESS;
  });
}
