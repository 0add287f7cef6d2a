// What generated elementwise sources share: where the elements of strided arrays are.
#pragma once
#include "mathematics.cuh"

#define MAX_AXES 16

// Extents of the result, slowest axis first, and for each array the strides, in elements, by which it goes along: 0 where it is broadcast.
template <class I, int ARRAYS> struct Layout { I axes, extent[MAX_AXES], stride[ARRAYS][MAX_AXES]; };

// The offset of element i of the result in each of the arrays.
template <class I, int ARRAYS> __device__ __forceinline__ void place(const Layout<I, ARRAYS>& layout, I i, I (&offset)[ARRAYS]) {
#pragma unroll
  for (int k = 0; k < ARRAYS; ++k) offset[k] = 0;
  for (int a = (int)layout.axes - 1; a >= 0; --a) {
    const I rest = i / layout.extent[a], at = i - rest * layout.extent[a];
#pragma unroll
    for (int k = 0; k < ARRAYS; ++k) offset[k] += at * layout.stride[k][a];
    i = rest;
  }
}
