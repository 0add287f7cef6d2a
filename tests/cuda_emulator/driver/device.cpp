// Initialisation, and what the device says it is: by its figures an H200 without its speed.
#include <cstdio>

#include "module.h"
#include "settings.h"
#include "signals.h"
#include "state.h"

static bool is_initialised = false;

bool initialised() { return is_initialised; }

API CUresult cuInit(unsigned) {
  Lock lock(driver_mutex);
  if (!settings().devices) return fail(CUDA_ERROR_NO_DEVICE, "CUDA_EMULATOR_DEVICES is 0");
  catch_signals();
  is_initialised = true;
  return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int* version) {
  *version = settings().driver_version;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  *count = settings().devices;
  return CUDA_SUCCESS;
}

static CUresult check(CUdevice device) {
  if (!is_initialised) return fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (device < 0 || device >= settings().devices)
    return fail(CUDA_ERROR_INVALID_DEVICE, "device %d of %d", device, settings().devices);
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return check(ordinal);
}

API CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  snprintf(name, static_cast<size_t>(bytes), "CUDA emulator");
  return check(device);
}

API CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  snprintf(id, static_cast<size_t>(bytes), "0000:%02x:00.0", device);
  return check(device);
}

API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  *major = settings().major;
  *minor = settings().minor;
  return check(device);
}

API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  *bytes = settings().memory;
  return check(device);
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice) {
  *can = 0;
  return check(device);
}

static int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return static_cast<int>(default_shared_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return static_cast<int>(most_shared_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 62914560;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return settings().major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return settings().minor;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: return 1;
    default: return 0;
  }
}

API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  *value = attribute(which);
  return check(device);
}
