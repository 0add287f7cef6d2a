// One block of threads, run on one host thread: each device thread goes on until it must wait for others, then the next one does.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_emulator/interface.h"
#include "fiber.h"
#include "module.h"
#include "settings.h"

struct Grid {
  const Function* function;
  dim3 shape, block_shape;
  unsigned dynamic_shared_bytes;
  unsigned long long seed;
};

class BlockRunner {
 public:
  void prepare(const Grid&);
  // Why the block failed (and `error` what it is called); nothing if it ran to its end.
  std::string run(uint3 index, const char* arguments);
  CUresult error = CUDA_SUCCESS;

  // ---- called from device threads
  int barrier(int predicate, const char* file, int line);
  unsigned long long meet(unsigned mask, unsigned long long value, int operand, void (*resolve)(cuda_emulator::Meeting&),
                          const char* file, int line);
  // Ends the block: the reason, said with the running thread's position.  Also for signal handlers.
  [[noreturn]] void fault(CUresult, const std::string& reason);
  // What is wrong with an address in shared memory or on the running thread's stack; nothing if it is neither.
  std::string shared_or_stack(uintptr_t address) const;

 private:
  struct DeviceThread : cuda_emulator::Thread {
    unsigned number;
    Fiber* fiber;  // nullptr: not begun, or ended
  };
  struct Place {
    const char* file;
    int line;
    bool operator==(const Place&) const;
    std::string text() const;
  };
  struct Group {  // lanes that wait for the others of their mask; free if none does
    unsigned arrived = 0;
    void (*resolve)(cuda_emulator::Meeting&) = nullptr;
    Place place;
    cuda_emulator::Meeting meeting{};
  };
  struct Warp {
    unsigned first, alive;  // number of the first thread; lanes that have not ended
    std::vector<Group> groups;
    unsigned long long result[32];
  };

  static void fiber_main();
  void reset();
  void poison_shared();
  unsigned random_below(size_t);
  void shuffle(unsigned* numbers, size_t count);
  void make_ready(DeviceThread*);
  DeviceThread* next_ready();
  void make_running(DeviceThread*);
  void wait();
  void end_thread();
  void abandon();
  Fiber* take_fiber();
  void release_block();
  Group& group_of(Warp&, unsigned lane, unsigned mask, void (*resolve)(cuda_emulator::Meeting&), Place);
  void release_if_complete(Warp&, Group&);
  void release_lanes(const Warp&, unsigned lanes);
  std::string deadlock() const;
  unsigned size() const { return static_cast<unsigned>(threads.size()); }

  const Grid* grid = nullptr;
  const char* arguments = nullptr;
  cuda_emulator::Block block{};
  char* shared_pages = nullptr;
  std::vector<DeviceThread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> order;  // in which threads begin, and go on after a barrier
  DeviceThread* running = nullptr;
  DeviceThread* ready[1024];    // a queue in a ring
  unsigned long long ready_from = 0, ready_to = 0;
  std::vector<Fiber*> idle;
  void* main_stack_pointer = nullptr;
  unsigned ended = 0, waiting = 0;  // waiting: at the block's barrier
  int predicates = 0, barrier_result = 0;
  Place barrier_place{};
  unsigned long long random = 0;
  std::string reason;
};

// The runner of this host thread, while it runs a block.
extern __thread BlockRunner* running_block __attribute__((tls_model("initial-exec")));
