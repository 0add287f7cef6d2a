// What a test asks of the emulator itself: counts of what was done, and faults at a time of its choosing.
#include <cstdio>
#include <map>
#include <string>

#include "state.h"

Counters counters;

struct Fault {
  long wait, times;
};
static std::map<std::string, Fault> faults = {{"out_of_memory", {}}, {"illegal_address", {}}, {"invalid_image", {}}};

bool fault_due(const char* name) {
  Fault& fault = faults[name];
  if (!fault.times || --fault.wait > 0) return false;
  fault.times--;
  return true;
}

// The nth allocation, launch or module load from now fails, and so do those after it, `times` in all.
// Whether there is a fault of that name.
API int cuda_emulator_fault(const char* name, long nth, long times) {
  Lock lock(driver_mutex);
  auto fault = faults.find(name);
  if (fault == faults.end()) return 0;
  fault->second = {nth, times};
  return 1;
}

// Every counter as "name=value name=value ..."; the text is the caller's until the next call.
API const char* cuda_emulator_counts() {
  static char text[600];
  Lock lock(driver_mutex);
  int n = 0;
#define COUNT(NAME) n += snprintf(text + n, sizeof text - static_cast<size_t>(n), "%s=%ld ", #NAME, counters.NAME)
  COUNT(launches), COUNT(allocations), COUNT(frees), COUNT(copies), COUNT(memsets), COUNT(module_loads);
  COUNT(wait_context), COUNT(wait_stream), COUNT(wait_event), COUNT(wait_copy_to_host), COUNT(wait_copy_to_device), COUNT(wait_free);
#undef COUNT
  return text;
}
