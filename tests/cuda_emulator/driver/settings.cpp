// See settings.h.
#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

static const char* text(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value && *value ? value : otherwise;
}

static long long number(const char* name, long long otherwise) {
  const char* value = text(name, nullptr);
  return value ? strtoll(value, nullptr, 10) : otherwise;
}

static Order order() {
  const char* name = text("CUDA_EMULATOR_ORDER", "fwd");
  if (!strcmp(name, "fwd")) return Order::forward;
  if (!strcmp(name, "rev")) return Order::reverse;
  if (!strcmp(name, "random")) return Order::random;
  fprintf(stderr, "CUDA emulator: CUDA_EMULATOR_ORDER is \"%s\"; it can be fwd, rev or random\n", name);
  exit(2);
}

static Settings read() {
  Settings s{};
  s.order = order();
  s.seed = static_cast<unsigned long long>(number("CUDA_EMULATOR_SEED", 1));
  s.deferred = number("CUDA_EMULATOR_DEFERRED", 0);
  s.poison = number("CUDA_EMULATOR_POISON", 1);
  s.threads = static_cast<int>(number("CUDA_EMULATOR_THREADS", std::thread::hardware_concurrency()));
  s.memory = static_cast<size_t>(number("CUDA_EMULATOR_MEMORY", 8ll << 30));
  s.devices = static_cast<int>(number("CUDA_EMULATOR_DEVICES", 1));
  s.driver_version = static_cast<int>(number("CUDA_EMULATOR_DRIVER_VERSION", 13000));
  sscanf(text("CUDA_EMULATOR_CAPABILITY", "9.0"), "%d.%d", &s.major, &s.minor);
  return s;
}

const Settings& settings() {
  static const Settings s = read();
  return s;
}
