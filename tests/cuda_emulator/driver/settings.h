// The environment switches CUDA_EMULATOR_*, read once.
#pragma once
#include <cstddef>

enum class Order { forward, reverse, random };

struct Settings {
  Order order;            // in which the blocks of a launch and the threads of a block run
  unsigned long long seed;
  bool deferred;          // work waits until something must see its result
  bool poison;            // fresh memory holds bytes 0xff: NaNs, and integers out of every range
  int threads;            // of the host, for large launches
  size_t memory;          // bytes that the device has
  int devices, driver_version, major, minor;
};

const Settings& settings();
