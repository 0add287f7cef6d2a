// Products of large matrices (matmul.cuh): a block makes a tile, from strips of a and b that it holds in shared memory.
// variants: TYPE=float ACTIVATION=identity; TYPE=double ACTIVATION=identity; TYPE=half ACTIVATION=identity; TYPE=bfloat16 ACTIVATION=identity
// variants: TYPE=float ACTIVATION=relu; TYPE=half ACTIVATION=relu; TYPE=bfloat16 ACTIVATION=relu; TYPE=int ACTIVATION=identity
#include "matmul.cuh"

typedef Pack<Sum, 4> Four;

// Where a term's four lines lie in shared memory: so that a warp which stores along the terms meets each bank once.
template <int DEPTH> __device__ __forceinline__ int slot(int term, int four) { return four ^ term / 4 * (32 / DEPTH); }

// LINES rows of a, or columns of b, by DEPTH terms, on their way to shared memory: each thread carries chunks of four elements, that go
// along the terms or across the lines, as they lie side by side in memory.
template <int LINES, int DEPTH, int THREADS> struct Tile {
  static constexpr int CHUNKS = LINES * DEPTH / 4 / THREADS;
  const TYPE* from;
  int64 line_stride, term_stride;
  int lines;  // from here to the operand's end
  bool along, packed;
  Pack<TYPE, 4> held[CHUNKS];

  __device__ Tile(const TYPE* x, int64 first, int64 count, int64 line_stride, int64 term_stride, bool packed)
      : from(x + first * line_stride), line_stride(line_stride), term_stride(term_stride), lines((int)min(count - first, (int64)LINES)),
        along(term_stride == 1 || line_stride != 1), packed(packed) {}

  __device__ int line(int chunk) const {
    const int i = chunk * THREADS + threadIdx.x;
    return along ? i / (DEPTH / 4) : i % (LINES / 4) * 4;
  }
  __device__ int term(int chunk) const {
    const int i = chunk * THREADS + threadIdx.x;
    return along ? i % (DEPTH / 4) * 4 : i / (LINES / 4);
  }

  // The next DEPTH terms, of which there are `terms`: beyond them, and beyond the lines, are zeros.
  __device__ void load(int64 terms) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int l = line(c), t = term(c);
      const TYPE* x = from + l * line_stride + t * term_stride;
      if (packed && l + (along ? 1 : 4) <= lines && t + (along ? 4 : 1) <= terms) held[c] = *(const Pack<TYPE, 4>*)x;
      else
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool is_there = l + (along ? 0 : j) < lines && t + (along ? j : 0) < terms;
          held[c].at[j] = is_there ? x[j * (along ? term_stride : line_stride)] : cast<TYPE>(0);
        }
    }
    from += DEPTH * term_stride;
  }

  __device__ void store(Four (&to)[DEPTH][LINES / 4]) const {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int l = line(c), t = term(c);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (along) to[t + j][slot<DEPTH>(t, l / 4)].at[l % 4] = widened(held[c].at[j]);
        else to[t][slot<DEPTH>(t, l / 4)].at[j] = widened(held[c].at[j]);
    }
  }
};

// Tiles of ROWS by COLUMNS, made by Y * X threads, each of which has every Yth four rows and every Xth four columns.
template <int ROWS, int COLUMNS, int DEPTH, int Y, int X> __device__ __forceinline__ void tiles(ARGUMENTS) {
  constexpr int HIGH = ROWS / Y / 4, LONG = COLUMNS / X / 4, BAND = 8;
  __shared__ Four as[2][DEPTH][ROWS / 4], bs[2][DEPTH][COLUMNS / 4];
  const int i = threadIdx.x / X, j = threadIdx.x % X;
  const int64 down = (p.rows + ROWS - 1) / ROWS, across = (p.columns + COLUMNS - 1) / COLUMNS, area = down * across;
  for (int64 tile = blockIdx.x; tile < area * p.slices * p.stack; tile += gridDim.x) {
    const int64 matrix = tile / area / p.slices, slice = tile / area % p.slices, at = tile % area;
    const int64 band = at / (BAND * across) * BAND, height = min(down - band, (int64)BAND);  // neighbours in time share operands in the cache
    const int64 row = (band + at % (BAND * across) % height) * ROWS, column = at % (BAND * across) / height * COLUMNS;
    const int64 begin = slice * p.slice, end = min(begin + p.slice, p.inner);
    int64 offset[2];
    place(p.matrices, matrix, offset);
    Tile<ROWS, DEPTH, Y * X> x(a + offset[0] + begin * p.a_inner, row, p.rows, p.a_row, p.a_inner, p.a_packed);
    Tile<COLUMNS, DEPTH, Y * X> w(b + offset[1] + begin * p.b_inner, column, p.columns, p.b_column, p.b_inner, p.b_packed);
    Sum sum[HIGH * 4][LONG * 4] = {};

    x.load(end - begin), w.load(end - begin);
    __syncthreads();  // the tile before has been read
    x.store(as[0]), w.store(bs[0]);
    __syncthreads();
    int now = 0;
    for (int64 t = begin; t < end; t += DEPTH, now = 1 - now) {
      const bool is_last = t + DEPTH >= end;
      if (!is_last) x.load(end - t - DEPTH), w.load(end - t - DEPTH);
#pragma unroll 2
      for (int d = 0; d < DEPTH; ++d) {
        Four left[HIGH], right[LONG];
#pragma unroll
        for (int h = 0; h < HIGH; ++h) left[h] = as[now][d][slot<DEPTH>(d, h * Y + i)];
#pragma unroll
        for (int l = 0; l < LONG; ++l) right[l] = bs[now][d][slot<DEPTH>(d, l * X + j)];
#pragma unroll
        for (int r = 0; r < HIGH * 4; ++r)
#pragma unroll
          for (int c = 0; c < LONG * 4; ++c) sum[r][c] += left[r / 4].at[r % 4] * right[c / 4].at[c % 4];
      }
      if (!is_last) x.store(as[1 - now]), w.store(bs[1 - now]);
      __syncthreads();
    }

#pragma unroll
    for (int r = 0; r < HIGH * 4; ++r) {
      const int64 at_row = row + (r / 4 * Y + i) * 4 + r % 4;
#pragma unroll
      for (int l = 0; l < LONG; ++l) {
        const int64 at_column = column + (l * X + j) * 4, element = (matrix * p.rows + at_row) * p.columns + at_column;
        if (at_row >= p.rows) continue;
        if (!parts && p.columns % 4 == 0 && at_column < p.columns) {
          Pack<TYPE, 4> four;
#pragma unroll
          for (int c = 0; c < 4; ++c) four.at[c] = finished(sum[r][l * 4 + c], z, bias, element + c, at_column + c);
          *(Pack<TYPE, 4>*)(y + element) = four;
        } else
#pragma unroll
          for (int c = 0; c < 4; ++c)
            if (at_column + c < p.columns) put(y, parts, z, bias, p, slice, element + c, at_column + c, sum[r][l * 4 + c]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(64, sizeof(Sum) == 8 ? 4 : 8) small(ARGUMENTS) { tiles<32, 32, 16, 8, 8>(y, parts, z, bias, a, b, p); }
extern "C" __global__ void __launch_bounds__(128, sizeof(Sum) == 8 ? 2 : 4) medium(ARGUMENTS) { tiles<64, 64, 16, 16, 8>(y, parts, z, bias, a, b, p); }
extern "C" __global__ void __launch_bounds__(256, sizeof(Sum) == 8 ? 1 : 2) large(ARGUMENTS) {
  tiles<128, 128, 8, 16, 16>(y, parts, z, bias, a, b, p);
}
