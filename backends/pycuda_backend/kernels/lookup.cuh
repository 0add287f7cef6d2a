// What kernels share that look elements up by indices.
#pragma once
#include "elementwise.cuh"

#define EACH_ELEMENT(n) for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (int64)blockDim.x)

// The index counted from 0 on.  One that is out of range leaves a note for the host, and 0 is taken.
__device__ __forceinline__ int64 checked(const int64 index, const int64 extent, int64* note) {
  const int64 at = index < 0 ? index + extent : index;
  if ((unsigned long long)at < (unsigned long long)extent) return at;
  *(Pack<int64, 2>*)note = Pack<int64, 2>{{index, extent}};  // in one piece: several threads may write it at a time
  return 0;
}
