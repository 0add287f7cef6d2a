// Products of small or thin matrices (matmul.cuh): a thread makes an element, or a warp does; and the end of all that is cut into slices.
// variants: TYPE=float ACTIVATION=identity; TYPE=double ACTIVATION=identity; TYPE=half ACTIVATION=identity; TYPE=bfloat16 ACTIVATION=identity
// variants: TYPE=float ACTIVATION=relu; TYPE=half ACTIVATION=relu; TYPE=bfloat16 ACTIVATION=relu; TYPE=int ACTIVATION=identity
// variants: TYPE=long long ACTIVATION=identity; TYPE=bool ACTIVATION=identity
#include "matmul.cuh"

extern "C" __global__ void __launch_bounds__(256) finish(
    TYPE* __restrict__ y, const Sum* __restrict__ parts, const TYPE* __restrict__ z, const TYPE* __restrict__ bias, const int64 count,
    const int64 columns, const int64 slices) {
  for (int64 e = blockIdx.x * (int64)blockDim.x + threadIdx.x; e < count; e += gridDim.x * (int64)blockDim.x) {
    Sum sum = parts[e];
#pragma unroll 4
    for (int64 s = 1; s < slices; ++s) sum += parts[s * count + e];
    y[e] = finished(sum, z, bias, e, e % columns);
  }
}

// One element of y in one slice of its sum.
struct Element {
  int64 slice, row, column, element, begin, end;
  const TYPE *x, *w;  // where its row of a and its column of b begin

  __device__ Element(int64 i, const TYPE* a, const TYPE* b, const Problem& p) {
    const int64 area = p.rows * p.columns, matrix = i / area % p.stack;
    slice = i / area / p.stack, i %= area;
    const bool is_wide = p.rows < p.columns;  // the shorter axis runs fastest: what it reads of the longer operand is the same
    row = is_wide ? i % p.rows : i / p.columns, column = is_wide ? i / p.rows : i % p.columns;
    element = (matrix * p.rows + row) * p.columns + column;
    begin = slice * p.slice, end = min(begin + p.slice, p.inner);
    int64 offset[2];
    place(p.matrices, matrix, offset);
    x = a + offset[0] + row * p.a_row, w = b + offset[1] + column * p.b_column;
  }
};

extern "C" __global__ void __launch_bounds__(256) threads(ARGUMENTS) {
  const int64 count = p.slices * p.stack * p.rows * p.columns;
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64)blockDim.x) {
    const Element e(i, a, b, p);
    Sum sum = 0;
#pragma unroll 4
    for (int64 t = e.begin; t < e.end; ++t) sum += widened(e.x[t * p.a_inner]) * widened(e.w[t * p.b_inner]);
    put(y, parts, z, bias, p, e.slice, e.element, e.column, sum);
  }
}

extern "C" __global__ void __launch_bounds__(256) warps(ARGUMENTS) {
  const int64 count = p.slices * p.stack * p.rows * p.columns;
  for (int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) / 32; i < count; i += gridDim.x * (int64)blockDim.x / 32) {
    const Element e(i, a, b, p);
    Sum sum = 0;
#pragma unroll 8
    for (int64 t = e.begin + threadIdx.x % 32; t < e.end; t += 32) sum += widened(e.x[t * p.a_inner]) * widened(e.w[t * p.b_inner]);
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0) put(y, parts, z, bias, p, e.slice, e.element, e.column, sum);
  }
}
