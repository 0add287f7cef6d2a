// Reductions over any axes.  x is `outs` results, which lie along the axes `kept`, of `length` elements each, along the axes `reduced`.
//   rows: the elements of one result are neighbours in memory, and blockDim.x threads share them; blockDim.y results go to a block.
//   columns: the results are neighbours, blockDim.x of them go to a block, and blockDim.y threads share the elements of each.
// As `..._packed` they load 16 bytes at a time, and all extents and strides count these packs.  gridDim.y parts of the elements make as
// many partial results, which another launch reduces.  The order is fixed: a chain in each thread, whose links are trees of four, then a
// tree of the threads.
// variants: OP=Sum IN=float ACC=float OUT=float INDEX=int; OP=Sum IN=double ACC=double OUT=double INDEX=int
// variants: OP=Sum IN=half ACC=float OUT=float INDEX=int; OP=Sum IN=half ACC=float OUT=half INDEX=int
// variants: OP=Sum IN=float ACC=float OUT=half INDEX=int
// variants: OP=Sum IN=bfloat16 ACC=float OUT=float INDEX=int; OP=Sum IN=bfloat16 ACC=float OUT=bfloat16 INDEX=int
// variants: OP=Sum IN=float ACC=float OUT=bfloat16 INDEX=int
// variants: OP=Sum IN=bool ACC=unsigned long long OUT=long long INDEX=int
// variants: OP=Sum IN=long long ACC=unsigned long long OUT=long long INDEX=int
// variants: OP=Squares IN=float ACC=double OUT=double INDEX=int; OP=Squares IN=half ACC=double OUT=double INDEX=int
// variants: OP=Squares IN=bfloat16 ACC=double OUT=double INDEX=int; OP=Squares IN=double ACC=double OUT=double INDEX=int
// variants: OP=Max IN=float ACC=float OUT=float INDEX=int; OP=Max IN=double ACC=double OUT=double INDEX=int
// variants: OP=Max IN=half ACC=float OUT=half INDEX=int; OP=Max IN=bfloat16 ACC=float OUT=bfloat16 INDEX=int
// variants: OP=Min IN=float ACC=float OUT=float INDEX=int; OP=Min IN=double ACC=double OUT=double INDEX=int
// variants: OP=Any IN=bool ACC=bool OUT=bool INDEX=int; OP=All IN=bool ACC=bool OUT=bool INDEX=int
// variants: OP=ArgMax IN=float ACC=Best<float> OUT=long long INDEX=int; OP=ArgMax IN=half ACC=Best<float> OUT=long long INDEX=int
// variants: OP=ArgMax IN=float ACC=Best<float> OUT=Best<float> INDEX=int; OP=ArgMax IN=Best<float> ACC=Best<float> OUT=long long INDEX=int
#include "combine.cuh"
#include "elementwise.cuh"

typedef OP<ACC> Op;
typedef Layout<INDEX, 1> Axes;
constexpr int PER_LOAD = 16 / sizeof(IN), PER_THREAD = 128 / sizeof(ACC);
constexpr int PACKED = PER_LOAD < PER_THREAD ? PER_LOAD : PER_THREAD;

__device__ __forceinline__ INDEX offset(const Axes& axes, INDEX i) {
  INDEX at = 0;
  for (int a = (int)axes.axes - 1; a > 0; --a) {
    const INDEX rest = i / axes.extent[a];
    at += (i - rest * axes.extent[a]) * axes.stride[0][a];
    i = rest;
  }
  return at + i * axes.stride[0][0];
}

// The part of the elements that this block has: from `first` to before `end`.
struct Part {
  INDEX first, end;
  __device__ __forceinline__ Part(INDEX length) {
    const INDEX size = (length + gridDim.y - 1) / gridDim.y;
    first = blockIdx.y * size < length ? blockIdx.y * size : length;
    end = size < length - first ? first + size : length;
  }
};

// One thread's share: packs `from`, `from` + step, ... before `end`.  Value w of each pack goes to total[w]; if the pack lies ALONG the
// elements, these are neighbours there.  Four loads are under way at a time.
template <int W, bool ALONG>
__device__ __forceinline__ void gather(ACC (&total)[W], const Pack<IN, W>* x, const Axes& axes, INDEX from, INDEX end, INDEX step) {
#pragma unroll
  for (int w = 0; w < W; ++w) total[w] = Op::none();
  INDEX i = from;
  for (; i < end - 3 * step; i += 4 * step) {
    const Pack<IN, W> a = x[offset(axes, i)], b = x[offset(axes, i + step)];
    const Pack<IN, W> c = x[offset(axes, i + 2 * step)], d = x[offset(axes, i + 3 * step)];
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const INDEX place = ALONG ? i * W + w : i, next = ALONG ? step * W : step;
      const ACC ab = Op::join(Op::of(a.at[w], place), Op::of(b.at[w], place + next));
      const ACC cd = Op::join(Op::of(c.at[w], place + 2 * next), Op::of(d.at[w], place + 3 * next));
      total[w] = Op::join(total[w], Op::join(ab, cd));
    }
  }
  for (; i < end; i += step) {
    const Pack<IN, W> a = x[offset(axes, i)];
#pragma unroll
    for (int w = 0; w < W; ++w) total[w] = Op::join(total[w], Op::of(a.at[w], ALONG ? i * W + w : i));
  }
}

// The total of blockDim.x threads side by side, at the first of them.  They are part of a warp, or the whole block.
__device__ __forceinline__ ACC across(ACC total) {
  const int width = blockDim.x < 32 ? blockDim.x : 32;
  for (int d = width / 2; d > 0; d /= 2) total = Op::join(total, from_above(total, d, width));
  if (blockDim.x <= 32) return total;
  __shared__ ACC warps[32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x >= 32) return total;
  total = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : Op::none();
  for (int d = 16; d > 0; d /= 2) total = Op::join(total, from_above(total, d, 32));
  return total;
}

template <int W>
__device__ __forceinline__ void by_rows(OUT* y, const IN* x, INDEX outs, INDEX length, const Axes& kept, const Axes& reduced) {
  const INDEX out = (INDEX)blockIdx.x * blockDim.y + threadIdx.y;
  const Part part(out < outs ? length : 0);
  ACC total[W];
  const Pack<IN, W>* own = (const Pack<IN, W>*)x + (out < outs ? offset(kept, out) : 0);
  gather<W, true>(total, own, reduced, part.first + threadIdx.x, part.end, blockDim.x);
#pragma unroll
  for (int half = W / 2; half > 0; half /= 2)
    for (int w = 0; w < half; ++w) total[w] = Op::join(total[w], total[w + half]);
  const ACC all = across(total[0]);
  if (threadIdx.x == 0 && out < outs) y[out * gridDim.y + blockIdx.y] = Stored<OUT, ACC>::of(all);
}

template <int W>
__device__ __forceinline__ void by_columns(OUT* y, const IN* x, INDEX outs, INDEX length, const Axes& kept, const Axes& reduced) {
  extern __shared__ __align__(16) char memory[];
  ACC* shared = (ACC*)memory;  // of W values of blockDim.y / 2 rows of threads
  const INDEX out = (INDEX)blockIdx.x * blockDim.x + threadIdx.x;
  const Part part(out < outs ? length : 0);
  ACC total[W];
  const Pack<IN, W>* own = (const Pack<IN, W>*)x + (out < outs ? offset(kept, out) : 0);
  gather<W, false>(total, own, reduced, part.first + threadIdx.y, part.end, blockDim.y);
  for (int half = blockDim.y / 2, row = threadIdx.y; half > 0; half /= 2) {
    const int at = row % half * blockDim.x + threadIdx.x, step = half * blockDim.x;
    if (row >= half && row < 2 * half)
      for (int w = 0; w < W; ++w) shared[w * step + at] = total[w];
    __syncthreads();
    if (row < half)
      for (int w = 0; w < W; ++w) total[w] = Op::join(total[w], shared[w * step + at]);
    __syncthreads();
  }
  if (threadIdx.y > 0 || out >= outs) return;
  for (int w = 0; w < W; ++w) y[((INDEX)blockIdx.y * outs + out) * W + w] = Stored<OUT, ACC>::of(total[w]);
}

#define REDUCTION(NAME, FUNCTION, W) \
  extern "C" __global__ void __launch_bounds__(256) \
  NAME(OUT* y, const IN* x, INDEX outs, INDEX length, const Axes kept, const Axes reduced) { \
    FUNCTION<W>(y, x, outs, length, kept, reduced); }
REDUCTION(rows, by_rows, 1)
REDUCTION(rows_packed, by_rows, PACKED)
REDUCTION(columns, by_columns, 1)
REDUCTION(columns_packed, by_columns, PACKED)
