// Eigenvalues and singular values by Jacobi's rotations.  A sweep takes every pair of rows once, in rounds of disjoint pairs, as in a
// tournament; sweeps go on until one rotates nothing.
// variants: TYPE=float; TYPE=double
#include "factorization.cuh"

#define SWEEPS 40  // far more than there are: convergence is quadratic

struct Pair { int p, q; };  // p < q; q is n or more for the row that has no partner in this round

__device__ __forceinline__ Pair partners(int round, int i, int n) {
  const int others = n + n % 2 - 1;
  const int a = i == 0 ? others : (round + i) % others, b = i == 0 ? round : (round - i + others) % others;
  return {a < b ? a : b, a < b ? b : a};
}

struct Rotation { T s, tau; };  // the sine, and the tangent of half the angle: what small angles change is rounded, not what they leave

// The one that makes 0 of the element between two, `before` and `after` being those on the diagonal.
__device__ __forceinline__ Rotation rotation(T before, T between, T after) {
  const T theta = (after - before) / (2 * between);
  const T t = ::copysign((T)1, theta) / (::fabs(theta) + ::hypot(theta, (T)1)), c = 1 / ::sqrt(t * t + 1);
  return {t * c, t * c / (1 + c)};
}

__device__ __forceinline__ void rotate(T& x, T& y, Rotation by) {
  const T old = x;
  x -= by.s * (y + by.tau * old);
  y += by.s * (old - by.tau * y);
}

// How many of n keys come before key i; equal ones in their order.
template <class Key> __device__ __forceinline__ int rank(Key key, int i, int n, bool descending) {
  int before = 0;
  for (int j = 0; j < n; ++j) {
    const T a = key(j), b = key(i);
    before += (descending ? a > b : a < b) || (a == b && j < i);
  }
  return before;
}

__device__ __forceinline__ T power_of_two(T most) {  // by which `most` comes near to 1
  int e = 0;
  ::frexp(most, &e);
  return ::ldexp((T)1, -e);
}

__device__ inline void fill(T* a, int64 size, T value) {
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) a[i] = value;
}

// Eigenvalues w (n,), ascending, and eigenvectors, the columns of v (n, n), of symmetric a (n, n), of which one triangle is read.
// a, g (n, n) and turns (n + 1, 2) are for work.
extern "C" __global__ void __launch_bounds__(512) eigh(T* a, T* g, T* turns, T* w, T* v, int n, int upper) {
  const int64 size = n * (int64)n;
  a = mine(a, size), g = mine(g, size), turns = mine(turns, 2 * (n + 1)), w = mine(w, n), v = mine(v, size);
  for (int i = warp(); i < n; i += warps())
    for (int j = lane(); j < i; j += 32) {
      T &below = a[i * (int64)n + j], &above = a[j * (int64)n + i];
      if (upper) below = above; else above = below;
    }
  identity(g, n, n);
  __syncthreads();
  const T most = largest(a, size);
  if (most == infinity<T>()) {
    fill(w, n, not_a_number<T>());
    fill(v, size, not_a_number<T>());
    return;
  }
  const T scale = power_of_two(most), enough = (sizeof(T) == 4 ? (T)5e-8 : (T)1e-16);
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) a[i] *= scale;
  __syncthreads();
  const int pairs = (n + 1) / 2, rounds = n + n % 2 - 1;
  Rotation* by = (Rotation*)turns;
  for (int sweep = 0, moved = 1; moved && sweep < SWEEPS; ++sweep) {
    moved = 0;
    for (int round = 0; round < rounds; ++round) {
      for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const Pair at = partners(round, i, n);
        const T between = at.q < n ? a[at.p * (int64)n + at.q] : 0;
        by[i] = {0, 0};
        if (::fabs(between) <= enough) continue;
        by[i] = rotation(a[at.p * (int64)n + at.p], between, a[at.q * (int64)n + at.q]);
        moved = 1;
      }
      __syncthreads();
      for (int i = warp(); i < pairs; i += warps()) {
        const Pair at = partners(round, i, n);
        if (by[i].s == 0) continue;
        T *p = a + at.p * (int64)n, *q = a + at.q * (int64)n, *gp = g + at.p * (int64)n, *gq = g + at.q * (int64)n;
        for (int j = lane(); j < n; j += 32) rotate(p[j], q[j], by[i]), rotate(gp[j], gq[j], by[i]);
      }
      __syncthreads();
      for (int r = warp(); r < n; r += warps())
        for (int i = lane(); i < pairs; i += 32) {
          const Pair at = partners(round, i, n);
          if (by[i].s != 0) rotate(a[r * (int64)n + at.p], a[r * (int64)n + at.q], by[i]);
        }
      __syncthreads();
    }
    moved = __syncthreads_or(moved);
  }
  for (int i = warp(); i < n; i += warps()) {
    const int to = rank([=](int j) { return a[j * (int64)n + j]; }, i, n, false);
    if (lane() == 0) w[to] = a[i * (int64)n + i] / scale;
    for (int j = lane(); j < n; j += 32) v[j * (int64)n + to] = g[i * (int64)n + j];
  }
}

// Of b (n, m), n <= m: singular values s (n,), descending; the rows of vh (n, n) are the left singular vectors, and the columns of w (m, n)
// the right ones times their values.  g (n, n) and norms (n,) are for work.  NaN sets `failed`; what has infinities gives NaN.
extern "C" __global__ void __launch_bounds__(512) svd(T* b, T* g, T* norms, T* s, T* vh, T* w, int* failed, int n, int m) {
  const int64 size = n * (int64)m;
  b = mine(b, size), g = mine(g, n * (int64)n), norms = mine(norms, n), s = mine(s, n), vh = mine(vh, n * (int64)n), w = mine(w, size);
  identity(g, n, n);
  const T most = largest(b, size);
  if (most == infinity<T>()) {
    for (int64 i = threadIdx.x; i < size; i += blockDim.x) if (b[i] != b[i]) *failed = 1;
    fill(s, n, not_a_number<T>());
    fill(vh, n * (int64)n, not_a_number<T>());
    fill(w, size, not_a_number<T>());
    return;
  }
  const T scale = power_of_two(most), enough = (sizeof(T) == 4 ? (T)1.2e-7 : (T)2.2e-16) * ::sqrt((T)m);
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) b[i] *= scale;
  __syncthreads();
  const int pairs = (n + 1) / 2, rounds = n + n % 2 - 1;
  for (int sweep = 0, moved = 1; moved && sweep < SWEEPS; ++sweep) {
    moved = 0;
    for (int round = 0; round < rounds; ++round) {
      for (int i = warp(); i < pairs; i += warps()) {
        const Pair at = partners(round, i, n);
        if (at.q >= n) continue;
        T *p = b + at.p * (int64)m, *q = b + at.q * (int64)m, *gp = g + at.p * (int64)n, *gq = g + at.q * (int64)n;
        T before = 0, between = 0, after = 0;
        for (int j = lane(); j < m; j += 32) before += p[j] * p[j], between += p[j] * q[j], after += q[j] * q[j];
        before = of_warp<Sum>(before), between = of_warp<Sum>(between), after = of_warp<Sum>(after);
        if (::fabs(between) <= enough * ::sqrt(before) * ::sqrt(after)) continue;
        const Rotation by = rotation(before, between, after);
        for (int j = lane(); j < m; j += 32) rotate(p[j], q[j], by);
        for (int j = lane(); j < n; j += 32) rotate(gp[j], gq[j], by);
        moved = 1;
      }
      __syncthreads();
    }
    moved = __syncthreads_or(moved);
  }
  for (int i = warp(); i < n; i += warps()) {
    T square = 0;
    for (int j = lane(); j < m; j += 32) square += b[i * (int64)m + j] * b[i * (int64)m + j];
    square = of_warp<Sum>(square);
    if (lane() == 0) norms[i] = ::sqrt(square);
  }
  __syncthreads();
  for (int i = warp(); i < n; i += warps()) {
    const int to = rank([=](int j) { return norms[j]; }, i, n, true);
    if (lane() == 0) s[to] = norms[i] / scale;
    for (int j = lane(); j < n; j += 32) vh[to * (int64)n + j] = g[i * (int64)n + j];
    for (int j = lane(); j < m; j += 32) w[j * (int64)n + to] = b[i * (int64)m + j];
  }
}
