// What the units that multiply matrices share: y[s] = activation(a[s] @ b[s] + z[s] + bias), operands by strides of their own, y, z and
// bias without gaps.
//
// The sums can be cut into slices, so that few elements keep the device busy, too: partial sums go to `parts`, and `finish` adds them up in
// their order, which makes the bits the same every time.
#pragma once
#include "elementwise.cuh"
#include "products.cuh"

struct Problem {
  int64 stack, rows, columns, inner;
  int64 a_row, a_inner, b_inner, b_column;  // strides, in elements
  int64 slices, slice;                      // how many the sums are cut into, and the length of each but the last
  int64 a_packed, b_packed;                 // whether four neighbours can be loaded at once
  Layout<int64, 2> matrices;                // where those of a and b begin
};

#define ARGUMENTS \
  TYPE* __restrict__ y, Sum* __restrict__ parts, const TYPE* __restrict__ z, const TYPE* __restrict__ bias, \
  const TYPE* __restrict__ a, const TYPE* __restrict__ b, const Problem p

namespace at {
template <class T> __device__ __forceinline__ T identity(T x) { return x; }
}

__device__ __forceinline__ TYPE finished(Sum sum, const TYPE* z, const TYPE* bias, int64 element, int64 column) {
  if (z) sum += widened(z[element]);
  if (bias) sum += widened(bias[column]);
  return cast<TYPE>(at::ACTIVATION(sum));
}

__device__ __forceinline__ void put(
    TYPE* y, Sum* parts, const TYPE* z, const TYPE* bias, const Problem& p, int64 slice, int64 element, int64 column, Sum sum) {
  if (parts) parts[slice * p.stack * p.rows * p.columns + element] = sum;
  else y[element] = finished(sum, z, bias, element, column);
}
