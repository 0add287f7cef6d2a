// A copy of planes whose rows are columns in the other array, tile by tile through shared memory.
// variants: TYPE=unsigned char; TYPE=unsigned short; TYPE=unsigned int; TYPE=unsigned long long
#include "elementwise.cuh"

constexpr int TILE = sizeof(TYPE) == 8 ? 32 : 64, DOWN = 8, ACROSS = 32;  // the block is ACROSS x DOWN threads
constexpr int PADDING = sizeof(TYPE) < 4 ? 4 / sizeof(TYPE) : 1;          // so that a column's elements lie in different banks

// y has `rows` neighbours, x `columns`; y_step leads to the next column in y, x_step to the next row in x.
extern "C" __global__ void __launch_bounds__(256)
transpose(const int64 tiles, TYPE* __restrict__ y, const TYPE* __restrict__ x, const int64 rows, const int64 columns, const int64 y_step,
          const int64 x_step, const Layout<int64, 2> planes) {
  __shared__ TYPE tile[TILE][TILE + PADDING];
  const int64 down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
  for (int64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    int64 begin[2];
    place(planes, t / (down * across), begin);
    const int64 row = t / across % down * TILE, column = t % across * TILE;
    TYPE held[TILE / DOWN][TILE / ACROSS];
#pragma unroll
    for (int i = 0; i < TILE / DOWN; ++i)
#pragma unroll
      for (int j = 0; j < TILE / ACROSS; ++j) {
        const int64 r = row + threadIdx.y + i * DOWN, c = column + threadIdx.x + j * ACROSS;
        if (r < rows && c < columns) held[i][j] = x[begin[1] + r * x_step + c];
      }
    __syncthreads();  // all have read the tile before
#pragma unroll
    for (int i = 0; i < TILE / DOWN; ++i)
#pragma unroll
      for (int j = 0; j < TILE / ACROSS; ++j) tile[threadIdx.y + i * DOWN][threadIdx.x + j * ACROSS] = held[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE / DOWN; ++i)
#pragma unroll
      for (int j = 0; j < TILE / ACROSS; ++j) {
        const int r = threadIdx.x + j * ACROSS, c = threadIdx.y + i * DOWN;
        if (row + r < rows && column + c < columns) y[begin[0] + (column + c) * y_step + row + r] = tile[r][c];
      }
  }
}
