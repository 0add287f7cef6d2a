// The Cholesky factorization, by columns.
// variants: TYPE=float; TYPE=double
#include "factorization.cuh"

// a (n, n), of which the lower triangle is read, becomes lower triangular y for which y @ y.T = a; `failed` is set if there is none.
extern "C" __global__ void __launch_bounds__(512) cholesky(T* a, int* failed, int n) {
  a = mine(a, n * (int64)n);
  for (int k = 0; k < n; ++k) {
    T* row = a + k * (int64)n;
    const T square = row[k];
    __syncthreads();
    if (square <= 0) {  // NaN goes on
      if (threadIdx.x == 0) *failed = 1;
      return;
    }
    const T root = ::sqrt(square);
    for (int j = k + 1 + threadIdx.x; j < n; j += blockDim.x) row[j] = 0;
    for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) a[i * (int64)n + k] /= root;
    if (threadIdx.x == 0) row[k] = root;
    __syncthreads();
    for (int i = k + 1 + warp(); i < n; i += warps())
      for (int j = k + 1 + lane(); j <= i; j += 32) a[i * (int64)n + j] -= a[i * (int64)n + k] * a[j * (int64)n + k];
    __syncthreads();
  }
}
