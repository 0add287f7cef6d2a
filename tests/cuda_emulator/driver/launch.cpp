// Launches: a grid of blocks, spread over host threads where it is large.

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "block.h"
#include "memory.h"
#include "signals.h"
#include "stream.h"

namespace {

using Arguments = std::vector<std::max_align_t>;

// The order of a launch's blocks; a random one by steps that are coprime to their number.
class BlockOrder {
 public:
  BlockOrder(unsigned long long count, unsigned long long seed) : count(count), start(seed % count) {
    for (step = seed * 0x9e3779b97f4a7c15ull % count | 1; std::gcd(step, count) != 1; step += 2) {}
  }
  unsigned long long operator[](unsigned long long i) const {
    if (settings().order == Order::forward) return i;
    if (settings().order == Order::reverse) return count - 1 - i;
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(i) * step + start) % count);
  }

 private:
  unsigned long long count, start, step;
};

struct Launch {
  Grid grid;
  const char* arguments;
  unsigned long long count;
  BlockOrder order;
  std::atomic<unsigned long long> next;
  std::atomic<bool> failed;
  CUresult error;
  std::string reason;
};

uint3 block_index(const dim3& shape, unsigned long long i) {
  return {static_cast<unsigned>(i % shape.x), static_cast<unsigned>(i / shape.x % shape.y), static_cast<unsigned>(i / shape.x / shape.y)};
}

void run_blocks(Launch& launch, BlockRunner& runner) {
  SignalStack signal_stack;
  runner.prepare(launch.grid);
  unsigned long long i;
  while (!launch.failed && (i = launch.next++) < launch.count) {
    std::string reason = runner.run(block_index(launch.grid.shape, launch.order[i]), launch.arguments);
    if (!reason.empty() && !launch.failed.exchange(true)) launch.error = runner.error, launch.reason = reason;
  }
}

BlockRunner& runner(size_t i) {
  static std::vector<std::unique_ptr<BlockRunner>> runners;
  while (runners.size() <= i) runners.push_back(std::make_unique<BlockRunner>());
  return *runners[i];
}

// Starting a host thread takes as long as running some ten thousand device threads.
size_t host_threads(const Launch& launch) {
  constexpr unsigned long long worthwhile = 32768;
  unsigned long long device_threads = launch.count * launch.grid.block_shape.x * launch.grid.block_shape.y * launch.grid.block_shape.z;
  unsigned long long most = static_cast<unsigned long long>(std::max(1, settings().threads));
  return device_threads < worthwhile ? 1 : static_cast<size_t>(std::min(most, launch.count));
}

void run_everywhere(Launch& launch) {
  std::vector<std::thread> others;
  for (size_t i = host_threads(launch); i-- > 1;) others.emplace_back(run_blocks, std::ref(launch), std::ref(runner(i)));
  run_blocks(launch, runner(0));
  for (std::thread& other : others) other.join();
}

// Any word of the arguments may be a pointer.
void check_ends(const Function& function, const Arguments& arguments) {
  auto words = reinterpret_cast<const uintptr_t*>(arguments.data());
  for (unsigned i = 0; i < function.kernel->argument_bytes / sizeof(uintptr_t); i++) {
    const Allocation* a = find_allocation(words[i]);
    if (a && written_past_end(*a))
      lose_context(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel %s wrote past the end of a %zu-byte allocation", function.kernel->name, a->bytes);
  }
}

void run(const Grid& grid, const Arguments& arguments) {
  if (fault_due("illegal_address")) {
    lose_context(CUDA_ERROR_ILLEGAL_ADDRESS, "an injected fault");
    return;
  }
  catch_signals();  // others may have put theirs in our place since
  unsigned long long count = 1ull * grid.shape.x * grid.shape.y * grid.shape.z;
  Launch launch{grid, reinterpret_cast<const char*>(arguments.data()), count, {count, grid.seed}, {0}, {false}, CUDA_SUCCESS, ""};
  run_everywhere(launch);
  if (launch.failed) lose_context(launch.error, "%s", launch.reason.c_str());
  else check_ends(*grid.function, arguments);
}

// ---- what is checked before anything runs

std::string shape(const dim3& d) { return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")"; }

CUresult check_shapes(const Grid& grid) {
  const dim3 &g = grid.shape, &b = grid.block_shape;
  const char* name = grid.function->kernel->name;
  if (!g.x || !g.y || !g.z || g.x > 2147483647 || g.y > 65535 || g.z > 65535)
    return fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: a grid of %s blocks; the most is (2147483647,65535,65535), the least 1", name,
                shape(g).c_str());
  unsigned long long threads = 1ull * b.x * b.y * b.z;
  if (!threads || b.x > 1024 || b.y > 1024 || b.z > 64 || threads > 1024)
    return fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: a block of %s threads; the most is 1024 in all and 64 in z", name, shape(b).c_str());
  if (threads > grid.function->kernel->max_threads)
    return fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "kernel %s: a block of %llu threads; its __launch_bounds__ say %u", name, threads,
                grid.function->kernel->max_threads);
  return CUDA_SUCCESS;
}

CUresult check_shared(const Grid& grid) {
  if (grid.dynamic_shared_bytes <= grid.function->most_dynamic_shared) return CUDA_SUCCESS;
  return fail(CUDA_ERROR_INVALID_VALUE,
              "kernel %s: %u bytes of dynamic shared memory; it may have %u (more by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)",
              grid.function->kernel->name, grid.dynamic_shared_bytes, grid.function->most_dynamic_shared);
}

std::string sizes(const cuda_emulator::Kernel& kernel) {
  std::string text;
  for (unsigned i = 0; i < kernel.parameter_count; i++) text += (i ? ", " : "") + std::to_string(kernel.parameters[i].bytes);
  return text;
}

// The arguments as the kernel's parameters lie: packed by the caller, or a pointer to each.
CUresult pack(const cuda_emulator::Kernel& kernel, void** each, void** packed, Arguments& arguments) {
  char* to = reinterpret_cast<char*>(arguments.data());
  if (each) {
    for (unsigned i = 0; i < kernel.parameter_count; i++) memcpy(to + kernel.parameters[i].offset, each[i], kernel.parameters[i].bytes);
    return CUDA_SUCCESS;
  }
  const void* from = nullptr;
  size_t bytes = 0;
  for (void** p = packed; p && *p != CU_LAUNCH_PARAM_END; p += 2) {
    if (*p == CU_LAUNCH_PARAM_BUFFER_POINTER) from = p[1];
    if (*p == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t*>(p[1]);
  }
  if (bytes != kernel.argument_bytes)
    return fail(CUDA_ERROR_INVALID_VALUE, "kernel %s takes %u arguments of %u bytes (%s); %zu bytes were given", kernel.name,
                kernel.parameter_count, kernel.argument_bytes, sizes(kernel).c_str(), bytes);
  if (bytes) memcpy(to, from, bytes);
  return CUDA_SUCCESS;
}

}  // namespace

API CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                            unsigned block_z, unsigned shared_bytes, CUstream stream, void** each, void** packed) {
  return in_context([&] {
    auto function = reinterpret_cast<const Function*>(handle);
    unsigned long long seed = settings().seed + static_cast<unsigned long long>(++counters.launches);
    Grid grid{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, seed};
    if (CUresult error = check_shapes(grid)) return error;
    if (CUresult error = check_shared(grid)) return error;
    Arguments arguments(function->kernel->argument_bytes / sizeof(std::max_align_t) + 1);
    if (CUresult error = pack(*function->kernel, each, packed, arguments)) return error;
    return enqueue(stream, [grid, arguments = std::move(arguments)] { run(grid, arguments); });
  });
}

// The old way of launching; PyCUDA says the shape twice and means that of cuLaunchKernel.
API CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  dim3 block(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
  return check_shapes({reinterpret_cast<const Function*>(function), {1, 1, 1}, block, 0, 0});
}
