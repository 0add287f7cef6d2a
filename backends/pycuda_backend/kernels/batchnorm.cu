// What batchnorm and its cotangents need to know of each channel of x: sums over its elements, which blocks share where there are few
// channels, and from these the numbers that channels.cu goes over x with.  x is dense, seen as (outer, channels, inner).
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "packs.cuh"
#include "teams.cuh"

#define THREADS 512  // of a block, at most

// How many, their sum, and the sum of their squared distances from their mean.
struct Moments { W count, sum, squares; };
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const W count = a.count + b.count, apart = b.sum / b.count - a.sum / a.count;
  return {count, a.sum + b.sum, a.squares + b.squares + apart * apart * (a.count / count * b.count)};
}

// A thread's way through a channel: where in x its elements `first`, first + stride, ... are.
struct Walk {
  int64 at, position;
  const int64 inner, step, ahead, carry;
  __device__ __forceinline__ Walk(int64 channel, int64 channels, int64 inner, int64 first, int64 stride)
      : at((first / inner * channels + channel) * inner + first % inner), position(first % inner), inner(inner),
        step(stride / inner * channels * inner + stride % inner), ahead(stride % inner), carry((channels - 1) * inner) {}
  __device__ __forceinline__ void next() {
    at += step;
    position += ahead;
    if (position >= inner) position -= inner, at += carry;
  }
};

// Some elements at a time: their own mean first and then the distances from it, for a sum of squares would lose digits.
template <int PACK> __device__ __forceinline__ Moments moments(const T* x, Walk walk, int64 first, int64 stride, int64 packs) {
  constexpr int COUNT = PACK == 1 ? 8 : 4;
  Moments all = {0, 0, 0};
  for (int64 i = first; i < packs; i += stride * COUNT) {
    W v[COUNT][PACK], sum = 0, squares = 0;
    int count = 0;
#pragma unroll
    for (int c = 0; c < COUNT; ++c)
      if (i + c * stride < packs) {
        load(v[c], x + walk.at);
        walk.next();
        count += PACK;
      } else {
        fill(v[c], 0);
      }
#pragma unroll
    for (int c = 0; c < COUNT; ++c)
#pragma unroll
      for (int j = 0; j < PACK; ++j) sum += v[c][j];
    const W mean = sum / count;
#pragma unroll
    for (int c = 0; c < COUNT; ++c)
      if (c * PACK < count)
#pragma unroll
        for (int j = 0; j < PACK; ++j) squares += (v[c][j] - mean) * (v[c][j] - mean);
    all = merge(all, Moments{(W)count, sum, squares});
  }
  return all;
}

// The sums of dy and of dy * (x - mean).
template <int PACK>
__device__ __forceinline__ Sums<W> products(const T* dy, const T* x, W mean, Walk walk, int64 first, int64 stride, int64 packs) {
  Sums<W> all = {0, 0};
#pragma unroll 4
  for (int64 i = first; i < packs; i += stride) {
    W g[PACK], v[PACK];
    load(g, dy + walk.at);
    load(v, x + walk.at);
    walk.next();
#pragma unroll
    for (int j = 0; j < PACK; ++j) all = {all.first + g[j], all.second + g[j] * (v[j] - mean)};
  }
  return all;
}

// A channel's elements are `inner` ones beside one another, outer times: a block's threads lie along these.  Where inner is 1, a block's
// threads lie along the channels, and those of one column share a channel.
#define PLANES const Row team(blockDim.x); const int64 c = blockIdx.x; const bool exists = true;
#define CHANNELS const Column team; const int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x; const bool exists = c < channels;
#define PLACE(PACK) \
  const int64 first = blockIdx.y * (int64)team.size + team.rank, stride = gridDim.y * (int64)team.size; \
  const Walk walk(c, channels, inner, first * PACK, stride * PACK);

#define KERNELS(NAME, PACK, TEAM) \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) \
  moments_##NAME(Moments* parts, const T* x, int64 channels, int64 inner, int64 count) { \
    TEAM PLACE(PACK) \
    Moments all = {0, 0, 0}; \
    if (exists) all = moments<PACK>(x, walk, first, stride, count / PACK); \
    all = team.all(all); \
    if (exists && team.rank == 0) parts[blockIdx.y * channels + c] = all; \
  } \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) \
  products_##NAME(Sums<W>* parts, const T* dy, const T* x, const W* means, int64 channels, int64 inner, int64 count) { \
    TEAM PLACE(PACK) \
    Sums<W> all = {0, 0}; \
    if (exists) all = products<PACK>(dy, x, means[c], walk, first, stride, count / PACK); \
    all = team.all(all); \
    if (exists && team.rank == 0) parts[blockIdx.y * channels + c] = all; \
  }
KERNELS(planes_1, 1, PLANES)
KERNELS(planes_full, FULL, PLANES)
KERNELS(channels, 1, CHANNELS)

template <class V> __device__ __forceinline__ V gathered(V all, const V* parts, int n, int64 c, int64 channels, Column team) {
  if (c < channels)
    for (int i = team.rank; i < n; i += team.size) all = merge(all, parts[i * channels + c]);
  return team.all(all);
}

// Each channel's mean and variance; numbers (3, channels) for channels.cu.
extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) forward(
    W* numbers, W* means, W* vars, const Moments* parts, const T* scale, const T* bias, int n, int64 channels, int64 count, double eps) {
  const Column team;
  const int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x;
  const Moments all = gathered(Moments{0, 0, 0}, parts, n, c, channels, team);
  if (c >= channels || team.rank) return;
  const W mean = all.sum / count, var = all.squares / count, inv = 1 / ::sqrt(var + (W)eps);
  means[c] = numbers[c] = mean;
  vars[c] = var;
  numbers[channels + c] = scale ? inv * (W)scale[c] : inv;
  numbers[2 * channels + c] = bias ? (W)bias[c] : 0;
}

// Each channel's cotangents of scale and bias; numbers (4, channels) for that of x,
// ((x - mean) * -dscale * inv / count + dy - dbias / count) * inv * scale.
extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) backward(
    W* numbers, T* dscale, T* dbias, const Sums<W>* parts, const W* means, const W* invs, const T* scale,
    int n, int64 channels, int64 count) {
  const Column team;
  const int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x;
  const Sums<W> all = gathered(Sums<W>{0, 0}, parts, n, c, channels, team);
  if (c >= channels || team.rank) return;
  const W inv = invs[c], slope = all.second * inv, factor = scale ? inv * (W)scale[c] : inv;
  dscale[c] = (T)slope;
  dbias[c] = (T)all.first;
  numbers[c] = means[c];
  numbers[channels + c] = -slope * inv / count * factor;
  numbers[2 * channels + c] = -all.first / count * factor;
  numbers[3 * channels + c] = factor;
}
