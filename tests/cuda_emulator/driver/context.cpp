// One context, the device's primary one, and which threads have it current.
#include <vector>

#include "settings.h"
#include "state.h"

// a stack per thread, as the real driver keeps; nullptr stands for "none current" pushed on purpose
static thread_local std::vector<CUcontext> current;
static char the_context;

static CUcontext context() { return reinterpret_cast<CUcontext>(&the_context); }

bool has_context() { return !current.empty() && current.back(); }

API CUresult cuDevicePrimaryCtxRetain(CUcontext* result, CUdevice) {
  if (!initialised()) return fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  *result = context();
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }

API CUresult cuCtxCreate_v4(CUcontext* result, CUctxCreateParams*, unsigned, CUdevice device) {
  current.push_back(context());
  return cuDevicePrimaryCtxRetain(result, device);
}
API CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxDetach(CUcontext) { return cuCtxPopCurrent_v2(nullptr); }
API CUresult cuCtxAttach(CUcontext* result, unsigned) { return cuCtxGetCurrent(result); }

API CUresult cuCtxPushCurrent_v2(CUcontext pushed) {
  current.push_back(pushed);
  return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext* popped) {
  if (current.empty()) return fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
  if (popped) *popped = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext* result) {
  *result = has_context() ? context() : nullptr;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext wanted) {
  if (!current.empty()) current.pop_back();
  current.push_back(wanted);
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return has_context() ? CUDA_SUCCESS : fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
}

API CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}
