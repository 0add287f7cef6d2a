// LU factorization with partial pivoting, what it says of the determinant, and the solution of linear systems by it.
// variants: TYPE=float; TYPE=double
#include "factorization.cuh"

// a (n, n) becomes its factors; swapped[k] is the row that took turns with row k.  sign * exp(logdet) is the determinant, 0 and -inf of a
// singular matrix, for which `singular` is set.
extern "C" __global__ void __launch_bounds__(512) factor(T* a, int* swapped, T* sign, T* logdet, int* singular, int n) {
  a = mine(a, n * (int64)n), swapped = mine(swapped, n);
  T product = 1, log_of_product = 0;
  for (int k = 0; k < n; ++k) {
    T best = 0;
    for (int i = k + threadIdx.x; i < n; i += blockDim.x) {
      const T x = a[i * (int64)n + k];
      best = Most::of(best, x != x ? infinity<T>() : ::fabs(x));  // NaN is no reason to call a matrix singular
    }
    best = of_block<Most>(best);
    T first = n;
    for (int i = k + threadIdx.x; i < n; i += blockDim.x) {
      const T x = a[i * (int64)n + k];
      if (x != x || ::fabs(x) == best) first = Least::of(first, i);
    }
    const int at = (int)of_block<Least>(first);
    T *row = a + k * (int64)n, *other = a + at * (int64)n;
    for (int j = threadIdx.x; j < n; j += blockDim.x) { const T x = row[j]; row[j] = other[j]; other[j] = x; }
    if (threadIdx.x == 0) swapped[k] = at;
    __syncthreads();
    const T pivot = row[k];
    product *= (at == k ? 1 : -1) * (T)((pivot == pivot ? pivot != 0 : 1) * (pivot < 0 ? -1 : 1));
    log_of_product += ::log(::fabs(pivot));
    if (pivot == 0) continue;  // so are all below
    for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) a[i * (int64)n + k] /= pivot;
    __syncthreads();
    for (int i = k + 1 + warp(); i < n; i += warps()) {
      const T factor = a[i * (int64)n + k];
      for (int j = k + 1 + lane(); j < n; j += 32) a[i * (int64)n + j] -= factor * row[j];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    sign[blockIdx.x] = product;
    logdet[blockIdx.x] = product == 0 ? -infinity<T>() : log_of_product;
    if (product == 0) *singular = 1;
  }
}

// x (n, columns) becomes the solution of a @ solution = x, of a's factors.
extern "C" __global__ void __launch_bounds__(512) solve(T* x, const T* a, const int* swapped, int n, int columns) {
  x = mine(x, n * (int64)columns), a = mine(a, n * (int64)n), swapped = mine(swapped, n);
  for (int j = threadIdx.x; j < columns; j += blockDim.x)
    for (int k = 0; k < n; ++k) {
      T &up = x[k * (int64)columns + j], &down = x[swapped[k] * (int64)columns + j];
      const T kept = up;
      up = down, down = kept;
    }
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    const T* row = x + k * (int64)columns;
    for (int i = k + 1 + warp(); i < n; i += warps())
      for (int j = lane(); j < columns; j += 32) x[i * (int64)columns + j] -= a[i * (int64)n + k] * row[j];
    __syncthreads();
  }
  for (int k = n - 1; k >= 0; --k) {
    T* row = x + k * (int64)columns;
    const T pivot = a[k * (int64)n + k];
    for (int j = threadIdx.x; j < columns; j += blockDim.x) row[j] /= pivot;
    __syncthreads();
    for (int i = warp(); i < k; i += warps())
      for (int j = lane(); j < columns; j += 32) x[i * (int64)columns + j] -= a[i * (int64)n + k] * row[j];
    __syncthreads();
  }
}

// x (n, n) becomes the identity.
extern "C" __global__ void __launch_bounds__(512) one(T* x, int n) { identity(mine(x, n * (int64)n), n, n); }
