// softmax, logsoftmax and logsumexp of rows that fit into the registers of a team of threads: each element is read once.  x is dense, seen
// as (outer, width, inner): rows are contiguous where inner is 1, else columns whose neighbours are contiguous.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "softmax.cuh"

// A row: element i of it is x[at + i * step], or of logsumexp's result y[index].
struct Place { int64 at, step, index; bool exists; };

template <int PACK, int COUNT, class Team> __device__ __forceinline__ void row(T* y, const T* x, Place p, int width, Team team, int mode) {
  W v[COUNT][PACK], most = -largest<W>(), sum = 0;
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * team.size) * PACK;
    if (p.exists && i < width) load(v[c], x + p.at + i * p.step); else fill(v[c], -infinity<W>());
  }
#pragma unroll
  for (int c = 0; c < COUNT; ++c)
#pragma unroll
    for (int j = 0; j < PACK; ++j) most = at_least(most, v[c][j]);
  most = team.all(Most{most}).value;
#pragma unroll
  for (int c = 0; c < COUNT; ++c)
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
      const W less = v[c][j] - most, e = ::exp(less);
      sum += e;
      v[c][j] = mode == SOFTMAX ? e : less;
    }
  sum = team.all(Sum<W>{sum}).value;
  if (!p.exists) return;
  if (mode == LOGSUMEXP) {
    if (team.rank == 0) y[p.index] = (T)(::log(sum) + most);
    return;
  }
  const W factor = 1 / sum, below = mode == SOFTMAX ? 0 : ::log(sum);
#pragma unroll
  for (int c = 0; c < COUNT; ++c) {
    const int i = (team.rank + c * team.size) * PACK;
#pragma unroll
    for (int j = 0; j < PACK; ++j) v[c][j] = mode == SOFTMAX ? v[c][j] * factor : v[c][j] - below;
    if (i < width) store(y + p.at + i * p.step, v[c]);
  }
}

#define ROWS(NAME, PACK) \
  extern "C" __global__ void __launch_bounds__(512) NAME(T* y, const T* x, int64 rows, int width, int size, int mode) { \
    const int64 r = blockIdx.x * (int64)(blockDim.x / size) + threadIdx.x / size; \
    row<PACK, 4>(y, x, {r * width, 1, r, r < rows}, width, Row(size), mode); \
  }
ROWS(rows_1, 1)
ROWS(rows_full, FULL)

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS) columns(T* y, const T* x, int64 columns, int width, int64 inner, int mode) {
  const int64 r = blockIdx.x * (int64)blockDim.x + threadIdx.x, outer = r / inner;
  row<1, 8>(y, x, {outer * width * inner + (r - outer * inner), inner, r, r < columns}, width, Column(), mode);
}
