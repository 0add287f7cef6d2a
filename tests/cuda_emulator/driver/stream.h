// Streams and events.  Work runs when it is enqueued, or, deferred, at the last moment at which somebody must see what it did.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "settings.h"
#include "state.h"

struct Work {
  std::function<void()> run;  // empty once it has run
  std::vector<std::shared_ptr<Work>> after;
};
using Ticket = std::shared_ptr<Work>;  // nullptr: done

// Puts work at the end of a stream, behind `also` too; its ticket is then the stream's last.
CUresult defer(CUstream, std::function<void()>, Ticket also);
CUresult check_stream(CUstream);
Ticket last_of(CUstream);
void finish(Ticket);
void finish_all();

template <class F> CUresult enqueue(CUstream stream, F run) {
  if (CUresult error = check_stream(stream)) return error;
  if (settings().deferred) return defer(stream, run, nullptr);
  run();
  return CUDA_SUCCESS;
}
