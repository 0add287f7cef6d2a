// Running sums and products.  x is `lines` of `length` elements each; the lines lie along the axes of `layout`, whose arrays are y, x and
// `before`, and `along` has the steps of these arrays along a line.  gridDim.y parts of a line, of `size` elements, are scanned at once:
// each but the first begins with what `before` has for it, the total of all parts before.
//   rows: the elements of a line are neighbours in memory, and blockDim.x threads, one warp or more, go along it tile by tile; as
//   rows_packed they load 16 bytes at a time, or store as many.
//   columns: a thread for each line.
// variants: OP=Sum IN=float ACC=float OUT=float INDEX=int; OP=Sum IN=double ACC=double OUT=double INDEX=int
// variants: OP=Sum IN=half ACC=float OUT=half INDEX=int; OP=Sum IN=bfloat16 ACC=float OUT=bfloat16 INDEX=int
// variants: OP=Sum IN=long long ACC=unsigned long long OUT=long long INDEX=int
// variants: OP=Sum IN=bool ACC=unsigned long long OUT=long long INDEX=int
// variants: OP=Product IN=float ACC=float OUT=float INDEX=int; OP=Product IN=double ACC=double OUT=double INDEX=int
#include "combine.cuh"
#include "elementwise.cuh"

typedef OP<ACC> Op;
typedef Layout<INDEX, 3> Lines;
struct Along { INDEX y, x, before; };
constexpr int PACKED = 16 / (sizeof(IN) > sizeof(OUT) ? sizeof(IN) : sizeof(OUT));

// This block's part of a line: where it begins in x and y, its length, and the total before it.
struct Part {
  const IN* x;
  OUT* y;
  INDEX length;
  ACC before;
};

__device__ __forceinline__ Part part_of(INDEX line, OUT* y, const IN* x, const ACC* before, INDEX length, INDEX size, const Along& along,
                                        const Lines& layout) {
  const INDEX first = blockIdx.y * size;
  INDEX at[3];
  place(layout, line, at);
  return {x + at[1] + first * along.x, y + at[0] + first * along.y, size < length - first ? size : length - first,
          blockIdx.y == 0 ? Op::neutral() : before[at[2] + (INDEX)(blockIdx.y - 1) * along.before]};
}

// The total of the threads before this one, and that of all.
struct Totals { ACC before, all; };

__device__ __forceinline__ Totals totals_of(ACC mine) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  ACC upto = mine;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const ACC other = __shfl_up_sync(0xffffffff, upto, d);
    if (lane >= d) upto = Op::join(other, upto);
  }
  const ACC left = __shfl_up_sync(0xffffffff, upto, 1), whole = __shfl_sync(0xffffffff, upto, 31);
  Totals totals = {lane ? left : Op::neutral(), whole};
  if (warps == 1) return totals;
  __shared__ ACC of_warp[32];
  if (lane == 31) of_warp[warp] = upto;
  __syncthreads();
  ACC sum = Op::neutral();
  for (int i = 0; i < warps; ++i) {
    if (i == warp) totals.before = Op::join(sum, totals.before);
    sum = Op::join(sum, of_warp[i]);
  }
  __syncthreads();  // the next tile writes there
  totals.all = sum;
  return totals;
}

template <int W> __device__ __forceinline__ void by_rows(const Part& part, const Along& along, bool exists) {
  ACC before = part.before;
  for (INDEX tile = 0; tile < part.length; tile += (INDEX)blockDim.x * W) {
    const INDEX i = tile + (INDEX)threadIdx.x * W;
    const bool inside = exists && i < part.length;
    ACC v[W];
    if (inside) {
      const Pack<IN, W> pack = *(const Pack<IN, W>*)(part.x + i * along.x);
#pragma unroll
      for (int w = 0; w < W; ++w) v[w] = w ? Op::join(v[w - 1], cast<ACC>(pack.at[w])) : cast<ACC>(pack.at[w]);
    }
    const Totals totals = totals_of(inside ? v[W - 1] : Op::neutral());
    if (inside) {
      const ACC left = Op::join(before, totals.before);
      Pack<OUT, W> pack;
#pragma unroll
      for (int w = 0; w < W; ++w) pack.at[w] = cast<OUT>(Op::join(left, v[w]));
      *(Pack<OUT, W>*)(part.y + i * along.y) = pack;
    }
    before = Op::join(before, totals.all);
  }
}

#define PARAMETERS OUT *__restrict__ y, const IN *__restrict__ x, const ACC *__restrict__ before, INDEX lines, INDEX length, INDEX size, \
                   const Along along, const Lines layout
#define ROWS(NAME, W) \
  extern "C" __global__ void __launch_bounds__(256) NAME(PARAMETERS) { \
    const INDEX line = (INDEX)blockIdx.x * blockDim.y + threadIdx.y; \
    by_rows<W>(part_of(line < lines ? line : 0, y, x, before, length, size, along, layout), along, line < lines); }
ROWS(rows, 1)
ROWS(rows_packed, PACKED)

extern "C" __global__ void __launch_bounds__(256) columns(PARAMETERS) {
  const INDEX line = (INDEX)blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  const Part part = part_of(line, y, x, before, length, size, along, layout);
  ACC total = part.before;
#pragma unroll 4
  for (INDEX i = 0; i < part.length; ++i) {
    total = Op::join(total, cast<ACC>(part.x[i * along.x]));
    part.y[i * along.y] = cast<OUT>(total);
  }
}
