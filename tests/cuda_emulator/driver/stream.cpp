// See stream.h.
#include "stream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

namespace {

struct Stream {
  bool blocking;  // waits for the null stream, and that for it
  Ticket last;
};

struct Event {
  Ticket work;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

Stream null_stream{true, nullptr}, per_thread_stream{true, nullptr};
std::vector<Stream*> streams{&null_stream, &per_thread_stream};
std::set<Event*> events;

Stream* stream_of(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY) return &null_stream;
  if (handle == CU_STREAM_PER_THREAD) return &per_thread_stream;
  return reinterpret_cast<Stream*>(handle);
}

Event* event_of(CUevent handle) { return reinterpret_cast<Event*>(handle); }

CUresult check_event(CUevent handle) {
  return events.count(event_of(handle)) ? CUDA_SUCCESS : fail(CUDA_ERROR_INVALID_HANDLE, "no such event, or destroyed");
}

bool done(const Ticket& work) { return !work || !work->run; }

// The null stream waits for every blocking stream; blocking streams wait for it.
std::vector<Ticket> predecessors(Stream* stream) {
  std::vector<Ticket> before{stream->last};
  if (stream == &null_stream)
    for (Stream* other : streams) before.push_back(other->blocking ? other->last : nullptr);
  else if (stream->blocking) before.push_back(null_stream.last);
  return before;
}

// A query returns NOT_READY while work is left, and lets it go on.
CUresult query(const Ticket& work) {
  if (done(work)) return CUDA_SUCCESS;
  finish(work);
  return CUDA_ERROR_NOT_READY;
}

template <class F> CUresult with_event(CUevent event, F f) {
  return in_context([&] {
    CUresult error = check_event(event);
    return error ? error : f(event_of(event));
  });
}

template <class F> CUresult with_stream(CUstream stream, F f) {
  return in_context([&] {
    CUresult error = check_stream(stream);
    return error ? error : f(stream_of(stream));
  });
}

}  // namespace

CUresult check_stream(CUstream handle) {
  bool known = std::find(streams.begin(), streams.end(), stream_of(handle)) != streams.end();
  return known ? CUDA_SUCCESS : fail(CUDA_ERROR_INVALID_HANDLE, "no such stream, or destroyed");
}

Ticket last_of(CUstream stream) { return stream_of(stream)->last; }

CUresult defer(CUstream handle, std::function<void()> run, Ticket also) {
  Stream* stream = stream_of(handle);
  auto work = std::make_shared<Work>(Work{std::move(run), predecessors(stream)});
  work->after.push_back(std::move(also));
  work->after.erase(std::remove_if(work->after.begin(), work->after.end(), done), work->after.end());
  stream->last = std::move(work);
  return CUDA_SUCCESS;
}

// Depth first by hand: a chain of work can be longer than the host's stack.
void finish(Ticket last) {
  std::vector<Ticket> path{std::move(last)};
  while (!path.empty()) {
    Ticket work = path.back();
    if (!done(work) && !work->after.empty()) {
      path.push_back(std::move(work->after.back()));
      work->after.pop_back();
      continue;
    }
    path.pop_back();
    if (done(work)) continue;
    if (!lost()) work->run();
    work->run = nullptr;
  }
  fflush(stdout);  // what kernels printed
}

// The youngest stream first: an order that nobody should have counted on.
void finish_all() {
  for (size_t i = streams.size(); i-- > 0;) finish(streams[i]->last);
}

API CUresult cuCtxSynchronize() {
  return in_context([] {
    counters.wait_context++;
    finish_all();
    return CUDA_SUCCESS;
  });
}

API CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return in_context([&] {
    auto stream = new Stream{!(flags & CU_STREAM_NON_BLOCKING), nullptr};
    streams.push_back(stream);
    *handle = reinterpret_cast<CUstream>(stream);
    return CUDA_SUCCESS;
  });
}
API CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int) { return cuStreamCreate(handle, flags); }

API CUresult cuStreamDestroy_v2(CUstream handle) {
  return with_stream(handle, [](Stream* stream) {
    finish(stream->last);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return CUDA_SUCCESS;
  });
}

API CUresult cuStreamSynchronize(CUstream handle) {
  return with_stream(handle, [](Stream* stream) {
    counters.wait_stream++;
    if (stream == &null_stream)
      for (Ticket& work : predecessors(stream)) finish(work);
    finish(stream->last);
    return CUDA_SUCCESS;
  });
}

API CUresult cuStreamQuery(CUstream handle) {
  return with_stream(handle, [](Stream* stream) { return query(stream->last); });
}

API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return with_event(event, [&](Event* e) {
    CUresult error = check_stream(handle);
    return error || done(e->work) ? error : defer(handle, [] {}, e->work);
  });
}

API CUresult cuEventCreate(CUevent* handle, unsigned) {
  return in_context([&] {
    auto event = new Event;
    events.insert(event);
    *handle = reinterpret_cast<CUevent>(event);
    return CUDA_SUCCESS;
  });
}

API CUresult cuEventDestroy_v2(CUevent handle) {
  return with_event(handle, [](Event* event) {
    finish(event->work);
    events.erase(event);
    delete event;
    return CUDA_SUCCESS;
  });
}

API CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return with_event(handle, [&](Event* event) {
    CUresult error = enqueue(stream, [=] { event->time = std::chrono::steady_clock::now(); });
    event->recorded = !error;
    event->work = error ? nullptr : last_of(stream);
    return error;
  });
}

API CUresult cuEventQuery(CUevent handle) {
  return with_event(handle, [](Event* event) { return query(event->work); });
}

API CUresult cuEventSynchronize(CUevent handle) {
  return with_event(handle, [](Event* event) {
    counters.wait_event++;
    finish(event->work);
    return CUDA_SUCCESS;
  });
}

API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return with_event(start, [&](Event* from) {
    return with_event(end, [&](Event* to) {
      if (!from->recorded || !to->recorded) return fail(CUDA_ERROR_INVALID_HANDLE, "an event that was never recorded");
      if (!done(from->work) || !done(to->work)) return CUDA_ERROR_NOT_READY;
      *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
      return CUDA_SUCCESS;
    });
  });
}
