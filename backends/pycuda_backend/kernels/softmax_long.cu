// softmax, logsoftmax and logsumexp of rows that are too long for softmax.cu: each is read once for the largest element and the sum, and
// again, as far as it can from a cache, for the result.  Where there are too few rows to fill the device, many blocks share one: `states`
// has a part of a row for each block, `finish` puts the parts together.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "softmax.cuh"

#define COUNT 4  // loads under way at once

// A row: element i of it is x[at + i * step], or of logsumexp's result y[index]; this thread has every `stride`-th of its packs.
struct Part { int64 at, step, index, first, stride; bool exists; };

template <class Team> __device__ __forceinline__ Part part(int64 at, int64 step, int64 index, bool exists, Team team) {
  return {at, step, index, blockIdx.y * (int64)team.size + team.rank, gridDim.y * (int64)team.size, exists};
}

template <int PACK> __device__ __forceinline__ State scan(const T* x, const Part& p, int64 width) {
  State state = nothing();
  if (!p.exists) return state;
  for (int64 i = p.first * PACK; i < width; i += p.stride * COUNT * PACK) {
    W v[COUNT][PACK], most = state.most;
#pragma unroll
    for (int c = 0; c < COUNT; ++c) {
      const int64 k = i + c * p.stride * PACK;
      if (k < width) load(v[c], x + p.at + k * p.step); else fill(v[c], -infinity<W>());
    }
#pragma unroll
    for (int c = 0; c < COUNT; ++c)
#pragma unroll
      for (int j = 0; j < PACK; ++j) most = at_least(most, v[c][j]);
    state = {most, state.sum * ::exp(state.most - most)};
#pragma unroll
    for (int c = 0; c < COUNT; ++c)
#pragma unroll
      for (int j = 0; j < PACK; ++j) state.sum += ::exp(v[c][j] - most);
  }
  return state;
}

template <int PACK> __device__ __forceinline__ void write(T* y, const T* x, const Part& p, int64 width, State state, int mode) {
  if (!p.exists) return;
  if (mode == LOGSUMEXP) {
    if (p.first == 0) y[p.index] = (T)(::log(state.sum) + state.most);
    return;
  }
  const W factor = 1 / state.sum, below = ::log(state.sum);
#pragma unroll 4
  for (int64 i = p.first * PACK; i < width; i += p.stride * PACK) {
    W v[PACK];
    load(v, x + p.at + i * p.step);
#pragma unroll
    for (int j = 0; j < PACK; ++j) v[j] = mode == SOFTMAX ? ::exp(v[j] - state.most) * factor : v[j] - state.most - below;
    store(y + p.at + i * p.step, v);
  }
}

template <class Team> __device__ __forceinline__ State gathered(const State* states, const Part& p, int64 rows, int parts, Team team) {
  State state = nothing();
  if (p.exists)
    for (int i = team.rank; i < parts; i += team.size) state = merge(state, states[i * rows + p.index]);
  return team.all(state);
}

#define ROW const Row team(blockDim.x); const Part p = part(blockIdx.x * width, 1, blockIdx.x, true, team);
#define COLUMN \
  const Column team; \
  const int64 r = blockIdx.x * (int64)blockDim.x + threadIdx.x, outer = r / inner; \
  const Part p = part(outer * width * inner + (r - outer * inner), inner, r, r < rows, team);

#define KERNELS(NAME, PACK, PLACE) \
  extern "C" __global__ void __launch_bounds__(512, 1) whole_##NAME(T* y, const T* x, int64 rows, int64 width, int64 inner, int mode) { \
    PLACE write<PACK>(y, x, p, width, team.all(scan<PACK>(x, p, width)), mode); \
  } \
  extern "C" __global__ void __launch_bounds__(512, 1) states_##NAME(State* states, const T* x, int64 rows, int64 width, int64 inner) { \
    PLACE const State state = team.all(scan<PACK>(x, p, width)); \
    if (p.exists && team.rank == 0) states[blockIdx.y * rows + p.index] = state; \
  } \
  extern "C" __global__ void __launch_bounds__(512) \
  finish_##NAME(T* y, const T* x, const State* states, int64 rows, int64 width, int64 inner, int parts, int mode) { \
    PLACE write<PACK>(y, x, p, width, gathered(states, p, rows, parts, team), mode); \
  }
KERNELS(rows_1, 1, ROW)
KERNELS(rows_full, FULL, ROW)
KERNELS(columns, 1, COLUMN)
