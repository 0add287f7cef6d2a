// See block.h.
#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

using cuda_emulator::Meeting;

__thread cuda_emulator::Thread* cuda_emulator_thread __attribute__((visibility("default"))) = nullptr;
__thread BlockRunner* running_block = nullptr;

namespace {

constexpr size_t shared_room = 256 << 10, guard = 4096;

char* map_shared() {
  void* pages = mmap(nullptr, shared_room + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) abort();
  mprotect(static_cast<char*>(pages) + shared_room, guard, PROT_NONE);
  return static_cast<char*>(pages);
}

// this host thread's __shared__ variables of the module it last ran
Span cached_static_shared(const Module& module) {
  static thread_local std::string path;
  static thread_local Span span;
  if (path != module.path) span = static_shared(module), path = module.path;
  return span;
}

std::string triple(const uint3& i) { return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")"; }

std::string hexadecimal(unsigned lanes) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", lanes);
  return text;
}

}  // namespace

void BlockRunner::prepare(const Grid& launched) {
  grid = &launched;
  block.grid = grid->shape;
  dim3 shape = block.shape = grid->block_shape;
  threads.resize(shape.x * shape.y * shape.z);
  for (unsigned i = 0; i < size(); i++) {
    threads[i].index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
    threads[i].number = i;
    threads[i].lane = i % 32;
    threads[i].block = &block;
  }
  warps.resize((size() + 31) / 32);
  for (unsigned w = 0; w < warps.size(); w++) warps[w].first = 32 * w;
  order.resize(size());
  std::iota(order.begin(), order.end(), 0u);
  if (settings().order == Order::reverse) std::reverse(order.begin(), order.end());
  if (!shared_pages) shared_pages = map_shared();
  block.dynamic_shared = shared_pages + shared_room - (grid->dynamic_shared_bytes + 15) / 16 * 16;  // its end meets the guard page
}

unsigned BlockRunner::random_below(size_t count) {
  random = random * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>((random >> 33) % count);
}

void BlockRunner::shuffle(unsigned* numbers, size_t count) {
  for (size_t i = count; i > 1; i--) std::swap(numbers[i - 1], numbers[random_below(i)]);
}

void BlockRunner::poison_shared() {
  if (!settings().poison) return;
  memset(block.dynamic_shared, 0xff, grid->dynamic_shared_bytes);
  if (!grid->function->module->static_shared_bytes) return;
  Span variables = cached_static_shared(*grid->function->module);
  memset(variables.start, 0xff, variables.bytes);
}

void BlockRunner::reset() {
  ended = waiting = 0;
  predicates = 0;
  ready_from = ready_to = 0;
  reason.clear();
  random = grid->seed + block.index.x + 1000003ull * block.index.y + 1000000007ull * block.index.z;
  for (Warp& warp : warps) {
    warp.alive = ~0u >> (32 - std::min(32u, size() - warp.first));
    for (Group& group : warp.groups) group.arrived = 0;
  }
  if (settings().order == Order::random) shuffle(order.data(), order.size());
  for (unsigned i : order) make_ready(&threads[i]);
}

std::string BlockRunner::run(uint3 index, const char* packed_arguments) {
  block.index = index;
  arguments = packed_arguments;
  reset();
  poison_shared();
  running_block = this;
  DeviceThread* first = next_ready();
  first->fiber = take_fiber();
  make_running(first);
  switch_fiber(&main_stack_pointer, first->fiber->stack_pointer);
  running_block = nullptr;
  if (reason.empty() && ended < size()) reason = deadlock(), error = CUDA_ERROR_LAUNCH_TIMEOUT;
  if (!reason.empty()) abandon();
  return reason;
}

// ---- threads and their fibers

void BlockRunner::make_ready(DeviceThread* thread) { ready[ready_to++ % 1024] = thread; }

BlockRunner::DeviceThread* BlockRunner::next_ready() { return ready_from == ready_to ? nullptr : ready[ready_from++ % 1024]; }

// Not inlined: a fiber may go on on another host thread, which has a cuda_emulator_thread of its own.
__attribute__((noinline)) void BlockRunner::make_running(DeviceThread* thread) {
  running = thread;
  cuda_emulator_thread = thread;
}

Fiber* BlockRunner::take_fiber() {
  if (idle.empty()) {
    idle.push_back(new Fiber);
    start_fiber(*idle.back(), fiber_main);
  }
  Fiber* fiber = idle.back();
  idle.pop_back();
  return fiber;
}

// A thread that ends leaves its stack to the next one that has not begun, so that threads that never wait cost no switch.
void BlockRunner::fiber_main() {
  BlockRunner& runner = *running_block;
  Fiber* fiber = runner.running->fiber;
  for (;;) {
    const cuda_emulator::Kernel& kernel = *runner.grid->function->kernel;
    kernel.call(kernel.function, runner.arguments);
    runner.end_thread();
    DeviceThread* next = runner.next_ready();
    runner.make_running(next);
    if (next && !next->fiber) {
      next->fiber = fiber;
      continue;
    }
    runner.idle.push_back(fiber);
    switch_fiber(&fiber->stack_pointer, next ? next->fiber->stack_pointer : runner.main_stack_pointer);
  }
}

// Lets others run until this thread is ready and it is its turn.
void BlockRunner::wait() {
  DeviceThread* self = running;
  DeviceThread* next = next_ready();
  if (next == self) return;
  if (next && !next->fiber) next->fiber = take_fiber();
  make_running(next);
  switch_fiber(&self->fiber->stack_pointer, next ? next->fiber->stack_pointer : main_stack_pointer);
}

void BlockRunner::end_thread() {
  running->fiber = nullptr;
  ended++;
  Warp& warp = warps[running->number / 32];
  warp.alive &= ~(1u << running->lane);
  for (Group& group : warp.groups) release_if_complete(warp, group);
}

// After a fault threads are left in the middle of what they did; their stacks begin anew.
void BlockRunner::abandon() {
  for (DeviceThread& t : threads) {
    if (!t.fiber) continue;
    start_fiber(*t.fiber, fiber_main);
    idle.push_back(t.fiber);
    t.fiber = nullptr;
  }
}

// ---- barriers of the block

int BlockRunner::barrier(int predicate, const char* file, int line) {
  Place place{file, line};
  if (waiting && !(place == barrier_place))
    fault(CUDA_ERROR_LAUNCH_FAILED, "divergent barriers: __syncthreads() at " + place.text() + " while " + std::to_string(waiting) +
                                        " threads wait in that at " + barrier_place.text());
  barrier_place = place;
  predicates += predicate != 0;
  if (++waiting == size()) release_block();
  wait();
  return barrier_result;
}

void BlockRunner::release_block() {
  barrier_result = predicates;
  predicates = 0;
  waiting = 0;
  if (settings().order == Order::random) shuffle(order.data(), order.size());
  for (unsigned i : order) make_ready(&threads[i]);
}

// ---- meetings of lanes

unsigned long long BlockRunner::meet(unsigned mask, unsigned long long value, int operand, void (*resolve)(Meeting&), const char* file,
                                     int line) {
  unsigned lane = running->lane;
  Place place{file, line};
  if (!(mask >> lane & 1))
    fault(CUDA_ERROR_LAUNCH_FAILED, "the mask " + hexadecimal(mask) + " given at " + place.text() + " lacks the calling lane");
  Warp& warp = warps[running->number / 32];
  Group& group = group_of(warp, lane, mask, resolve, place);
  group.arrived |= 1u << lane;
  group.meeting.value[lane] = value;
  group.meeting.operand[lane] = operand;
  release_if_complete(warp, group);
  wait();
  return warp.result[lane];
}

BlockRunner::Group& BlockRunner::group_of(Warp& warp, unsigned lane, unsigned mask, void (*resolve)(Meeting&), Place place) {
  Group* unused = nullptr;
  for (Group& g : warp.groups) {
    if (!g.arrived) unused = &g;
    else if (g.meeting.mask == mask && g.resolve == resolve && g.place == place && !(g.arrived >> lane & 1)) return g;
  }
  if (!unused) unused = &warp.groups.emplace_back();
  unused->meeting.mask = mask;
  unused->resolve = resolve;
  unused->place = place;
  return *unused;
}

void BlockRunner::release_if_complete(Warp& warp, Group& group) {
  if (!group.arrived || (warp.alive & group.meeting.mask & ~group.arrived)) return;
  unsigned lanes = group.meeting.lanes = group.arrived;
  group.arrived = 0;
  group.resolve(group.meeting);
  for (unsigned i = 0; i < 32; i++)
    if (lanes >> i & 1) warp.result[i] = group.meeting.result[i];
  release_lanes(warp, lanes);
}

void BlockRunner::release_lanes(const Warp& warp, unsigned lanes) {
  unsigned numbers[32], count = 0;
  for (; lanes; lanes &= lanes - 1) numbers[count++] = warp.first + static_cast<unsigned>(__builtin_ctz(lanes));
  if (settings().order == Order::reverse) std::reverse(numbers, numbers + count);
  if (settings().order == Order::random) shuffle(numbers, count);
  for (unsigned i = 0; i < count; i++) make_ready(&threads[numbers[i]]);
}

// ---- what went wrong

bool BlockRunner::Place::operator==(const Place& other) const {
  return line == other.line && (file == other.file || !strcmp(file, other.file));
}

std::string BlockRunner::Place::text() const {
  const char* slash = strrchr(file, '/');
  return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}

void BlockRunner::fault(CUresult code, const std::string& what) {
  error = code;
  reason = "kernel " + std::string(grid->function->kernel->name) + ", block " + triple(block.index) + ", thread " + triple(running->index) +
           ": " + what;
  void* never_again;
  switch_fiber(&never_again, main_stack_pointer);
  __builtin_unreachable();
}

std::string BlockRunner::deadlock() const {
  std::string text = "kernel " + std::string(grid->function->kernel->name) + ", block " + triple(block.index) + ": deadlock: ";
  text += std::to_string(ended) + " of " + std::to_string(size()) + " threads have ended";
  if (waiting) text += ", " + std::to_string(waiting) + " wait in __syncthreads() at " + barrier_place.text();
  for (const Warp& warp : warps)
    for (const Group& group : warp.groups)
      if (group.arrived)
        return text + ", lanes " + hexadecimal(group.arrived) + " of warp " + std::to_string(warp.first / 32) + " wait at " +
               group.place.text() + " for the rest of " + hexadecimal(group.meeting.mask);
  return text;
}

std::string BlockRunner::shared_or_stack(uintptr_t address) const {
  if (address - reinterpret_cast<uintptr_t>(shared_pages) < shared_room + guard)
    return "past the end of " + std::to_string(grid->dynamic_shared_bytes) + " bytes of dynamic shared memory";
  if (address - reinterpret_cast<uintptr_t>(running->fiber->stack) < stack_bytes) return "beyond the stack: too much local memory";
  return "";
}

// ---- what device code calls

#define DEVICE_API extern "C" __attribute__((visibility("default")))

DEVICE_API int cuda_emulator_barrier(int predicate, const char* file, int line) { return running_block->barrier(predicate, file, line); }

DEVICE_API unsigned long long cuda_emulator_meet(unsigned mask, unsigned long long value, int operand, void (*resolve)(Meeting&),
                                                 const char* file, int line) {
  return running_block->meet(mask, value, operand, resolve, file, line);
}
