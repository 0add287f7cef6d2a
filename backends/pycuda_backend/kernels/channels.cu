// Elements of x (outer, channels, inner), dense, each by the numbers of its channel: (x - mean) * a + b, and + dy * d.  `numbers` has the
// rows mean, a, b and d, if there is a dy.  Elements are taken in the order of memory, as many at a time as 16 bytes hold.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "packs.cuh"

struct Numbers { W mean, a, b, d; };

template <bool BACK> __device__ __forceinline__ Numbers of_channel(const W* numbers, int64 channels, int64 c) {
  return {numbers[c], numbers[channels + c], numbers[2 * channels + c], BACK ? numbers[3 * channels + c] : 0};
}
__device__ __forceinline__ W result(W x, W g, Numbers n) { return (x - n.mean) * n.a + n.b + g * n.d; }

// Numbers of neighbours, in loads of 16 bytes.
__device__ __forceinline__ void load_row(W (&v)[FULL], const W* row) {
  constexpr int SOME = 16 / sizeof(W);
#pragma unroll
  for (int j = 0; j < FULL; ++j) v[j] = ((const Pack<W, SOME>*)row)[j / SOME].at[j % SOME];
}

// Whose numbers a pack's elements need: those of one channel, of a channel each, or of a new channel somewhere within.
enum { ONE, EACH, ANY };

template <int WHOSE, bool BACK>
__device__ __forceinline__ void apply(
    W (&v)[FULL], const W (&g)[FULL], const W* numbers, int64 channels, int64 inner, int64 c, int64 position) {
  if constexpr (WHOSE == EACH) {
    W mean[FULL], a[FULL], b[FULL], d[FULL];
    load_row(mean, numbers + c);
    load_row(a, numbers + channels + c);
    load_row(b, numbers + 2 * channels + c);
    if (BACK) load_row(d, numbers + 3 * channels + c); else fill(d, 0);
#pragma unroll
    for (int j = 0; j < FULL; ++j) v[j] = result(v[j], g[j], {mean[j], a[j], b[j], d[j]});
  } else {
    Numbers n = of_channel<BACK>(numbers, channels, c);
#pragma unroll
    for (int j = 0; j < FULL; ++j) {
      if (WHOSE == ANY && position + j == inner) {
        position = -j;
        c = c + 1 == channels ? 0 : c + 1;
        n = of_channel<BACK>(numbers, channels, c);
      }
      v[j] = result(v[j], g[j], n);
    }
  }
}

template <int WHOSE, bool BACK>
__device__ __forceinline__ void go(T* y, const T* x, const T* dy, const W* numbers, int64 size, int64 channels, int64 inner) {
  int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * FULL;
  const int64 stride = gridDim.x * (int64)blockDim.x * FULL;
  const int64 ahead = stride % inner, planes = stride / inner % channels;
  int64 position = i % inner, c = i / inner % channels;
  for (; i < size; i += stride) {
    W v[FULL], g[FULL];
    fill(g, 0);
    if (WHOSE != ANY || i + FULL <= size) {
      load(v, x + i);
      if (BACK) load(g, dy + i);
      apply<WHOSE, BACK>(v, g, numbers, channels, inner, c, position);
      store(y + i, v);
    } else {  // the last elements
      fill(v, 0);
#pragma unroll
      for (int j = 0; j < FULL; ++j)
        if (i + j < size) v[j] = (W)x[i + j], g[j] = BACK ? (W)dy[i + j] : 0;
      apply<WHOSE, BACK>(v, g, numbers, channels, inner, c, position);
#pragma unroll
      for (int j = 0; j < FULL; ++j)
        if (i + j < size) y[i + j] = (T)v[j];
    }
    position += ahead;
    c += planes;
    if (position >= inner) position -= inner, ++c;
    if (c >= channels) c -= channels;
  }
}

#define KERNELS(NAME, WHOSE) \
  extern "C" __global__ void __launch_bounds__(256) \
  forward_##NAME(T* y, const T* x, const W* numbers, int64 size, int64 channels, int64 inner) { \
    go<WHOSE, false>(y, x, nullptr, numbers, size, channels, inner); \
  } \
  extern "C" __global__ void __launch_bounds__(256) \
  backward_##NAME(T* dx, const T* x, const T* dy, const W* numbers, int64 size, int64 channels, int64 inner) { \
    go<WHOSE, true>(dx, x, dy, numbers, size, channels, inner); \
  }
KERNELS(one, ONE)
KERNELS(each, EACH)
KERNELS(any, ANY)
