// layernorm of rows, which are dense, and its cotangents.  Rows that fit into the registers of a team of threads are read once; longer ones
// are read again for each sum, as far as they can from a cache.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "packs.cuh"
#include "teams.cuh"

#define THREADS 512  // of a block, at most
#define COUNT 4  // packs of a row that a thread holds

// -- y = (x - mean) / sqrt(var + eps) * scale + bias
template <int PACK> __device__ __forceinline__ void normalise(T* y, W (&v)[PACK], W mean, W inv, const T* scale, const T* bias) {
  W s[PACK], b[PACK];
  if (scale) load(s, scale); else fill(s, 1);
  if (bias) load(b, bias); else fill(b, 0);
#pragma unroll
  for (int j = 0; j < PACK; ++j) v[j] = (v[j] - mean) * inv * s[j] + b[j];
  store(y, v);
}

template <int PACK> __device__ __forceinline__ W sum(const W (&v)[PACK]) {
  W total = 0;
#pragma unroll
  for (int j = 0; j < PACK; ++j) total += v[j];
  return total;
}
template <int PACK> __device__ __forceinline__ W squares(const W (&v)[PACK], W mean) {
  W total = 0;
#pragma unroll
  for (int j = 0; j < PACK; ++j) total += (v[j] - mean) * (v[j] - mean);
  return total;
}

#define ROW \
  const Row team(size); \
  const int64 r = blockIdx.x * (int64)(blockDim.x / size) + threadIdx.x / size, at = r * width;
#define PACKS for (int64 i = (int64)team.rank * PACK; i < width; i += (int64)size * PACK)  // a thread's in a long row

template <int PACK>
__device__ __forceinline__ void forward(
    T* y, W* means, W* vars, const T* x, const T* scale, const T* bias, int64 rows, int width, int size, W eps) {
  ROW
  const bool exists = r < rows;
  W v[COUNT][PACK], total = 0;
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * size) * PACK;
    if (exists && i < width) load(v[c], x + at + i); else fill(v[c], 0);
    total += sum(v[c]);
  }
  const W mean = team.all(Sum<W>{total}).value / width;
  total = 0;
#pragma unroll
  for (int c = 0; c < COUNT; ++c)
    if ((team.rank + c * size) * PACK < width) total += squares(v[c], mean);
  const W var = team.all(Sum<W>{total}).value / width, inv = 1 / ::sqrt(var + eps);
  if (!exists) return;
  if (team.rank == 0) means[r] = mean, vars[r] = var;
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * size) * PACK;
    if (i < width) normalise(y + at + i, v[c], mean, inv, scale ? scale + i : scale, bias ? bias + i : bias);
  }
}

template <int PACK>
__device__ __forceinline__ void forward_long(
    T* y, W* means, W* vars, const T* x, const T* scale, const T* bias, int64 rows, int64 width, int size, W eps) {
  ROW
  W v[PACK], total = 0;
  PACKS { load(v, x + at + i); total += sum(v); }
  const W mean = team.all(Sum<W>{total}).value / width;
  total = 0;
  PACKS { load(v, x + at + i); total += squares(v, mean); }
  const W var = team.all(Sum<W>{total}).value / width, inv = 1 / ::sqrt(var + eps);
  if (team.rank == 0) means[r] = mean, vars[r] = var;
  PACKS { load(v, x + at + i); normalise(y + at + i, v, mean, inv, scale ? scale + i : scale, bias ? bias + i : bias); }
}

// -- with h = (x - mean) * inv and g = dy * scale:  dx = inv * (g - mean of g - h * mean of g * h)
template <int PACK>
__device__ __forceinline__ void gather(W (&g)[PACK], W (&h)[PACK], const T* dy, const T* x, const T* scale, W mean, W inv) {
  W s[PACK];
  load(g, dy);
  load(h, x);
  if (scale) load(s, scale); else fill(s, 1);
#pragma unroll
  for (int j = 0; j < PACK; ++j) g[j] *= s[j], h[j] = (h[j] - mean) * inv;
}
template <int PACK> __device__ __forceinline__ Sums<W> products(const W (&g)[PACK], const W (&h)[PACK]) {
  Sums<W> total = {0, 0};
#pragma unroll
  for (int j = 0; j < PACK; ++j) total = {total.first + g[j], total.second + g[j] * h[j]};
  return total;
}
template <int PACK> __device__ __forceinline__ void combine(T* dx, W (&g)[PACK], const W (&h)[PACK], Sums<W> total, int64 width, W inv) {
#pragma unroll
  for (int j = 0; j < PACK; ++j) g[j] = inv * (g[j] - total.first / width - h[j] * (total.second / width));
  store(dx, g);
}

template <int PACK>
__device__ __forceinline__ void backward(
    T* dx, const T* dy, const T* x, const W* means, const W* invs, const T* scale, int64 rows, int width, int size) {
  ROW
  const bool exists = r < rows;
  const W mean = exists ? means[r] : 0, inv = exists ? invs[r] : 0;
  W g[COUNT][PACK], h[COUNT][PACK];
  Sums<W> total = {0, 0};
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * size) * PACK;
    if (exists && i < width) gather(g[c], h[c], dy + at + i, x + at + i, scale ? scale + i : scale, mean, inv);
    else fill(g[c], 0), fill(h[c], 0);
    total = merge(total, products(g[c], h[c]));
  }
  total = team.all(total);
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * size) * PACK;
    if (exists && i < width) combine(dx + at + i, g[c], h[c], total, width, inv);
  }
}

template <int PACK>
__device__ __forceinline__ void backward_long(
    T* dx, const T* dy, const T* x, const W* means, const W* invs, const T* scale, int64 rows, int64 width, int size) {
  ROW
  const W mean = means[r], inv = invs[r];
  W g[PACK], h[PACK];
  Sums<W> total = {0, 0};
  PACKS { gather(g, h, dy + at + i, x + at + i, scale ? scale + i : scale, mean, inv); total = merge(total, products(g, h)); }
  total = team.all(total);
  PACKS { gather(g, h, dy + at + i, x + at + i, scale ? scale + i : scale, mean, inv); combine(dx + at + i, g, h, total, width, inv); }
}

#define KERNELS(NAME, PACK, LONG) \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) forward_##NAME( \
      T* y, W* means, W* vars, const T* x, const T* scale, const T* bias, int64 rows, int64 width, int size, double eps) { \
    forward##LONG<PACK>(y, means, vars, x, scale, bias, rows, width, size, (W)eps); \
  } \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) backward_##NAME( \
      T* dx, const T* dy, const T* x, const W* means, const W* invs, const T* scale, int64 rows, int64 width, int size) { \
    backward##LONG<PACK>(dx, dy, x, means, invs, scale, rows, width, size); \
  }
KERNELS(1, 1, )
KERNELS(full, FULL, )
KERNELS(long_1, 1, _long)
KERNELS(long_full, FULL, _long)

// -- the cotangents of scale and bias: sums over the rows, by blocks of threads that lie along the columns; `parts` has one sum for each
// of the blocks that share a column, unless there is but one
extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) parameters(
    T* dscale, T* dbias, Sums<W>* parts, const T* dy, const T* x, const W* means, const W* invs, int64 rows, int64 width) {
  const Column team;
  const int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x;
  Sums<W> total = {0, 0};
  if (c < width)
#pragma unroll 4
    for (int64 r = blockIdx.y * (int64)team.size + team.rank; r < rows; r += gridDim.y * (int64)team.size) {
      const W g = (W)dy[r * width + c];
      total = {total.first + g, total.second + g * (((W)x[r * width + c] - means[r]) * invs[r])};
    }
  total = team.all(total);
  if (c >= width || team.rank) return;
  if (gridDim.y > 1) parts[blockIdx.y * width + c] = total;
  else dbias[c] = (T)total.first, dscale[c] = (T)total.second;
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) totals(T* dscale, T* dbias, const Sums<W>* parts, int count, int64 width) {
  const Column team;
  const int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x;
  Sums<W> total = {0, 0};
  if (c < width)
    for (int i = team.rank; i < count; i += team.size) total = merge(total, parts[i * width + c]);
  total = team.all(total);
  if (c < width && team.rank == 0) dbias[c] = (T)total.first, dscale[c] = (T)total.second;
}
