// Convolution of two 1-d arrays, y[k] = sum of a[i] * v[k - i] over the i for which both are there: a thread an element.
// variants: TYPE=float; TYPE=double
#include "products.cuh"

extern "C" __global__ void __launch_bounds__(256) full(
    TYPE* __restrict__ y, const TYPE* __restrict__ a, const TYPE* __restrict__ v, const int64 a_count, const int64 v_count,
    const int64 a_stride, const int64 v_stride) {
  for (int64 k = blockIdx.x * (int64)blockDim.x + threadIdx.x; k < a_count + v_count - 1; k += gridDim.x * (int64)blockDim.x) {
    const int64 end = min(k + 1, a_count);
    Sum sum = 0;
#pragma unroll 4
    for (int64 i = max(k - v_count + 1, (int64)0); i < end; ++i) sum += widened(a[i * a_stride]) * widened(v[(k - i) * v_stride]);
    y[k] = cast<TYPE>(sum);
  }
}
