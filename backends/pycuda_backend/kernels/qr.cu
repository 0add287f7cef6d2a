// The QR factorization by Householder's reflections, a thread working on a column.
// variants: TYPE=float; TYPE=double
#include "factorization.cuh"

// A column minus what the reflection by v, whose first element counts as 1, takes from it: tau * v * (v . column), from row k on.
__device__ __forceinline__ void reflect(T* column, int step, const T* v, int n, int k, int m, T tau) {
  T dot = column[k * (int64)step];
  for (int i = k + 1; i < m; ++i) dot += v[i * (int64)n] * column[i * (int64)step];
  dot *= tau;
  column[k * (int64)step] -= dot;
  for (int i = k + 1; i < m; ++i) column[i * (int64)step] -= dot * v[i * (int64)n];
}

// a (m, n) is factored into q (m, width) and r (width, n), width being min(m, n) or m; tau (min(m, n),) is for notes.  `positive`: with signs
// for which r has no negative diagonal, else those of LAPACK.
extern "C" __global__ void __launch_bounds__(512) qr(T* a, T* q, T* r, T* tau, int m, int n, int width, int positive) {
  const int count = m < n ? m : n;
  a = mine(a, m * (int64)n), q = mine(q, m * (int64)width), r = mine(r, width * (int64)n), tau = mine(tau, count);
  for (int k = 0; k < count; ++k) {
    T* v = a + k;
    const T first = v[k * (int64)n];
    T most = 0, below = 0;
    for (int i = k + 1 + threadIdx.x; i < m; i += blockDim.x) most = Most::of(most, ::fabs(v[i * (int64)n]));
    most = Most::of(of_block<Most>(most), ::fabs(first));
    for (int i = k + 1 + threadIdx.x; i < m; i += blockDim.x) { const T x = v[i * (int64)n] / most; below += x * x; }
    below = of_block<Sum>(below);
    T diagonal = first, factor = 0;
    if (below != 0 && most > 0) {
      const T x = first / most;
      diagonal = -::copysign(most * ::sqrt(x * x + below), first);
      factor = (diagonal - first) / diagonal;
      for (int i = k + 1 + threadIdx.x; i < m; i += blockDim.x) v[i * (int64)n] /= first - diagonal;
    }
    __syncthreads();
    if (threadIdx.x == 0) v[k * (int64)n] = diagonal, tau[k] = factor;
    for (int j = k + 1 + threadIdx.x; j < n; j += blockDim.x) reflect(a + j, n, v, n, k, m, factor);
    __syncthreads();
  }
  identity(q, m, width);
  __syncthreads();
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    for (int k = count - 1; k >= 0; --k) reflect(q + j, width, a + k, n, k, m, tau[k]);
    if (positive && j < count && a[j * (int64)n + j] < 0)
      for (int i = 0; i < m; ++i) q[i * (int64)width + j] = -q[i * (int64)width + j];
  }
  for (int i = warp(); i < width; i += warps()) {
    const T sign = positive && i < count && a[i * (int64)n + i] < 0 ? -1 : 1;
    for (int j = lane(); j < n; j += 32) r[i * (int64)n + j] = i > j ? 0 : sign * a[i * (int64)n + j];
  }
}
