// Convolution as a product of matrices that are never made (implicit GEMM): tiles of the factor, and of the source as windows meet it, go
// through shared memory; the next slice is on its way while the last one is multiplied.  Sums have one order: no atomics.
// variants: TYPE=float INDEX=int TILE=32; TYPE=float INDEX=int TILE=64; TYPE=float INDEX=int TILE=128
// variants: TYPE=half INDEX=int TILE=32; TYPE=half INDEX=int TILE=64; TYPE=half INDEX=int TILE=128
// variants: TYPE=bfloat16 INDEX=int TILE=32; TYPE=bfloat16 INDEX=int TILE=64; TYPE=bfloat16 INDEX=int TILE=128
// variants: TYPE=double INDEX=int TILE=32; TYPE=double INDEX=int TILE=64
#include "conv.cuh"

constexpr int DEPTH = 8, PAD = 4;         // terms of a slice; PAD spreads a column over the banks
constexpr int EACH = TILE >= 64 ? 8 : 4;  // rows and columns of one thread, in fours
constexpr int ACROSS = TILE / EACH, THREADS = ACROSS * ACROSS, LOADS = TILE * DEPTH / THREADS;
constexpr int BLOCKS = TILE == 128 ? 2 : sizeof(W) == 8 ? 4 : 6;  // that have room on a processor: they hide each other's waits

struct Slices { alignas(32) W at[2][DEPTH][TILE + PAD]; };  // one to multiply, one to fill
struct Shared {
  Slices factor, source;
  Axis axis[3];
  Site columns[TILE], terms[2][DEPTH];   // where the source is looked up
  I column_of[TILE], term_of[2][DEPTH];  // the column's element of the result, the term's of the factor
};

// The row or column of a tile that a thread's i-th one is: fours, of which those of neighbouring threads lie side by side.
__device__ __forceinline__ int spread(int i, int thread) { return i / 4 * (4 * ACROSS) + thread * 4 + i % 4; }

__device__ __forceinline__ void fragment(W (&to)[EACH], const W* line, int thread) {
#pragma unroll
  for (int i = 0; i < EACH; i += 4) *(Pack<W, 4>*)(to + i) = *(const Pack<W, 4>*)(line + spread(i, thread));
}

// A block's tile of the result, whose columns are positions and whose sums are over taps; or else the other way round.
template <bool OVER_POSITIONS> struct Tile {
  const Problem& p;
  Shared& s;
  const Strides &from, &to;  // of the factor and the result
  const int me = threadIdx.x;
  I row, column, group, split, width, begin, end;
  T of_factor[LOADS], of_source[LOADS];  // on their way to shared memory
  W sum[EACH][EACH];

  __device__ __forceinline__ Tile(const Problem& p, Shared& s)
      : p(p), s(s), from(OVER_POSITIONS ? p.place : p.window), to(OVER_POSITIONS ? p.window : p.place), sum{} {
    I id = blockIdx.x;
    row = digit(id, p.row_tiles) * TILE;
    column = digit(id, p.column_tiles) * TILE;
    group = digit(id, p.groups);
    split = digit(id, p.splits);
    if (me == 0)
      for (int a = 2; a >= 0; --a) s.axis[a] = p.transposed ? phase_of(p.line[a], digit(id, p.line[a].stride)) : all_of(p.line[a]);
    __syncthreads();
    const I taps = p.channels * s.axis[0].taps * s.axis[1].taps * s.axis[2].taps;
    const I positions = p.images * s.axis[0].positions * s.axis[1].positions * s.axis[2].positions;
    const I depth = OVER_POSITIONS ? positions : taps;
    width = OVER_POSITIONS ? taps : positions;
    begin = split * p.chunk;
    end = begin + p.chunk < depth ? begin + p.chunk : depth;
  }

  __device__ __forceinline__ int half(I first) const { return (first - begin) / DEPTH % 2; }

  __device__ __forceinline__ void list_columns() {
    if (me >= TILE) return;
    const I i = column + me;
    I other = 0;
    s.columns[me] = i >= width ? nowhere() : OVER_POSITIONS ? tap_site(p, s.axis, i, other) : position_site(p, s.axis, i, other);
    s.column_of[me] = other;
  }

  // The terms of the slice that begins at `first`; so in all that follow.
  __device__ __forceinline__ void list_terms(I first) {
    if (me >= DEPTH || first >= end) return;
    const I i = first + me;
    I other = 0;
    s.terms[half(first)][me] = i >= end ? nowhere() : OVER_POSITIONS ? position_site(p, s.axis, i, other) : tap_site(p, s.axis, i, other);
    s.term_of[half(first)][me] = other;
  }

  // Neighbouring threads have neighbouring terms of the factor, and neighbouring positions of the source.
  __device__ __forceinline__ int factor_term() const { return me % DEPTH; }
  __device__ __forceinline__ int factor_row(int i) const { return me / DEPTH + i * (THREADS / DEPTH); }
  __device__ __forceinline__ int source_term(int i) const { return OVER_POSITIONS ? me % DEPTH : (me + i * THREADS) / TILE; }
  __device__ __forceinline__ int source_column(int i) const { return OVER_POSITIONS ? (me + i * THREADS) / DEPTH : me % TILE; }

  __device__ __forceinline__ void load(const T* factor, const T* source, I first) {
    const I* term_of = s.term_of[half(first)];
    const Site* terms = s.terms[half(first)];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const I r = row + factor_row(i);
      of_factor[i] = (first + factor_term() < end) & (r < p.rows) ? factor[r * from.row + term_of[factor_term()]] : (T)0;
    }
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const Site term = terms[source_term(i)], at = s.columns[source_column(i)];
      of_source[i] = is_inside(p, term, at) ? source[term.offset + at.offset] : (T)0;
    }
  }

  __device__ __forceinline__ void store(I first) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      s.factor.at[half(first)][factor_term()][factor_row(i)] = (W)of_factor[i];
      s.source.at[half(first)][source_term(i)][source_column(i)] = (W)of_source[i];
    }
  }

  __device__ __forceinline__ void multiply(I first) {
#pragma unroll
    for (int term = 0; term < DEPTH; ++term) {
      alignas(32) W left[EACH], right[EACH];
      fragment(left, s.factor.at[half(first)][term], me / ACROSS);
      fragment(right, s.source.at[half(first)][term], me % ACROSS);
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) sum[i][j] += left[i] * right[j];
    }
  }

  __device__ __forceinline__ void add_up(const T* factor, const T* source) {
    list_columns();
    list_terms(begin);
    list_terms(begin + DEPTH);
    __syncthreads();
    if (begin < end) {
      load(factor, source, begin);
      store(begin);
    }
    __syncthreads();
    for (I first = begin; first < end; first += DEPTH) {
      const bool is_last = first + DEPTH >= end;
      if (!is_last) load(factor, source, first + DEPTH);
      list_terms(first + 2 * DEPTH);
      multiply(first);
      if (!is_last) store(first + DEPTH);
      __syncthreads();
    }
  }

  // By way of shared memory, a row of each thread at a time, so that neighbouring threads write neighbouring elements.
  __device__ __forceinline__ void write(T* result, W* partial, const Finish& finish) {
    static_assert(sizeof(W) * ACROSS * TILE <= sizeof(Slices), "a row of each thread has room");
    W(*stage)[TILE] = (W(*)[TILE]) & s.factor;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) stage[me / ACROSS][spread(j, me % ACROSS)] = sum[i][j];
      __syncthreads();
      for (int e = me; e < ACROSS * TILE; e += THREADS) {
        const I r = row + spread(i, e / TILE);
        const int c = e % TILE;
        if (r >= p.rows || column + c >= width) continue;
        const I at = group * to.group + r * to.row + s.column_of[c];
        if (partial) partial[split * (int64)p.result_size + at] = stage[e / TILE][c];
        else result[at] = finished(finish, stage[e / TILE][c], at, group * p.rows + r);
      }
      __syncthreads();
    }
  }
};

template <bool OVER_POSITIONS>
__device__ __forceinline__ void run(T* result, const T* source, const T* factor, W* partial, const Problem& p, const Finish& finish) {
  __shared__ Shared shared;
  Tile<OVER_POSITIONS> tile(p, shared);
  if (tile.column >= tile.width) return;  // of positions with one remainder by the stride there may be fewer than of others
  tile.add_up(factor + tile.group * tile.from.group, source + tile.group * p.source.group);
  tile.write(result, partial, finish);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
over_taps(T* result, const T* source, const T* factor, W* partial, const Problem p, FINISH_PARAMETERS) {
  run<false>(result, source, factor, partial, p, FINISH);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
over_positions(T* result, const T* source, const T* factor, W* partial, const Problem p, FINISH_PARAMETERS) {
  run<true>(result, source, factor, partial, p, FINISH);
}
