// Order.  x is dense, `rows` rows of n elements, each sorted on its own; NaN comes last.
//   sort_tiles, argsort_tiles: runs of `width` elements, a power of two up to TILE, by a bitonic network; `slots` elements to a block.
//   sort_merge, argsort_merge: each two runs of `width` elements become one; a block makes TILE elements of it.
//   searchsorted: the place of each v in sorted a.
// argsort's elements bring their places in the row along, which break ties, so that equal elements stay in their order; its last launch
// gives only these, y being null.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16; TYPE=int; TYPE=long long
#include "combine.cuh"

#define TILE 2048  // as in sorting.py

__device__ __forceinline__ bool before(TYPE first, TYPE second) {
  const wide<TYPE> a = (wide<TYPE>)first, b = (wide<TYPE>)second;
  return a < b || (b != b && a == a);
}

// What comes last.
__device__ __forceinline__ TYPE last() {
  if constexpr (Is<TYPE>::floating) return not_a_number<TYPE>(); else return highest<TYPE>();
}

// Elements that are sorted by a block, and their places in the row, if these are sorted along.
template <bool PLACES> struct Tile {
  TYPE* keys;
  int64* places;
  __device__ __forceinline__ bool out_of_order(int i, int j) const {
    if (before(keys[j], keys[i])) return true;
    return PLACES && !before(keys[i], keys[j]) && places[j] < places[i];
  }
  __device__ __forceinline__ void swap(int i, int j) const {
    const TYPE key = keys[i];
    keys[i] = keys[j];
    keys[j] = key;
    if (PLACES) {
      const int64 place = places[i];
      places[i] = places[j];
      places[j] = place;
    }
  }
};

#define SHARED_TILE(NAME) \
  __shared__ TYPE keys[TILE]; \
  __shared__ int64 places[PLACES ? TILE : 1]; \
  const Tile<PLACES> NAME = {keys, places};

template <bool PLACES> __device__ __forceinline__ void sort_runs(const Tile<PLACES>& tile, int width, int slots) {
  for (int run = 2; run <= width; run *= 2)
    for (int step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < slots / 2; t += blockDim.x) {
        const int i = 2 * t - (t & (step - 1)), j = i + step;
        const bool descending = i & (width - 1) & run;
        if (descending ? tile.out_of_order(j, i) : tile.out_of_order(i, j)) tile.swap(i, j);
      }
    }
  __syncthreads();
}

template <bool PLACES>
__device__ __forceinline__ void tiles_of(TYPE* y, int64* to, const TYPE* x, int64 rows, int64 n, int width, int slots) {
  SHARED_TILE(tile)
  const int64 runs = (n + width - 1) / width;  // of a row
  for (int pass = 0; pass < 2; ++pass) {  // in, and out again
    for (int i = threadIdx.x; i < slots; i += blockDim.x) {
      const int64 run = ((int64)blockIdx.x * slots + i) / width, row = run / runs, place = run % runs * width + i % width;
      const bool exists = row < rows && place < n;
      if (pass == 0) {
        tile.keys[i] = exists ? x[row * n + place] : last();
        if (PLACES) tile.places[i] = place;
      } else if (exists) {
        if (y) y[row * n + place] = tile.keys[i];
        if (PLACES) to[row * n + place] = tile.places[i];
      }
    }
    if (pass == 0) sort_runs(tile, width, slots);
  }
}

// How many of the `count` elements of a, which is sorted, come before a key; or don't come behind it.
__device__ __forceinline__ int64 rank(TYPE key, const TYPE* a, int64 count, bool or_equal) {
  int64 low = 0;
  while (count > 0) {
    const int64 half = count / 2;
    if (or_equal ? !before(key, a[low + half]) : before(a[low + half], key)) low += half + 1, count -= half + 1;
    else count = half;
  }
  return low;
}

// How many of the first `total` elements of a and b merged are a's.
__device__ __forceinline__ int64 share(const TYPE* a, int64 of_a, const TYPE* b, int64 of_b, int64 total) {
  int64 low = total > of_b ? total - of_b : 0, high = total < of_a ? total : of_a;
  while (low < high) {
    const int64 middle = (low + high) / 2;
    if (before(b[total - 1 - middle], a[middle])) high = middle; else low = middle + 1;
  }
  return low;
}

__device__ __forceinline__ int64 least(int64 a, int64 b) { return a < b ? a : b; }

template <bool PLACES>
__device__ __forceinline__ void merge_of(TYPE* y, int64* to, const TYPE* x, const int64* from, int64 n, int64 width, int64 tiles) {
  SHARED_TILE(tile)
  __shared__ int64 cut[2];
  const int64 row = blockIdx.x / tiles * n, first = blockIdx.x % tiles * TILE, begin = first / (2 * width) * (2 * width);
  const int64 middle = least(begin + width, n), end = least(begin + 2 * width, n);
  const int count = (int)least(TILE, end - first);
  const int64 total = first - begin + (int64)threadIdx.x * count;
  if (threadIdx.x < 2) cut[threadIdx.x] = share(x + row + begin, middle - begin, x + row + middle, end - middle, total);
  __syncthreads();
  const int64 a = row + begin + cut[0], b = row + middle + (first - begin - cut[0]);
  const int of_a = (int)(cut[1] - cut[0]), of_b = count - of_a;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int64 at = i < of_a ? a + i : b + (i - of_a);
    tile.keys[i] = x[at];
    if (PLACES) tile.places[i] = from[at];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const TYPE key = tile.keys[i];
    const int64 behind = i < of_a ? rank(key, tile.keys + of_a, of_b, false) : rank(key, tile.keys, of_a, true) - of_a;
    if (y) y[row + first + i + behind] = key;
    if (PLACES) to[row + first + i + behind] = tile.places[i];
  }
}

#define SORT(NAME, PLACES) \
  extern "C" __global__ void __launch_bounds__(256) \
  NAME##_tiles(TYPE* y, int64* to, const TYPE* x, int64 rows, int64 n, int width, int slots) { \
    tiles_of<PLACES>(y, to, x, rows, n, width, slots); } \
  extern "C" __global__ void __launch_bounds__(256) \
  NAME##_merge(TYPE* y, int64* to, const TYPE* x, const int64* from, int64 n, int64 width, int64 tiles) { \
    merge_of<PLACES>(y, to, x, from, n, width, tiles); }
SORT(sort, false)
SORT(argsort, true)

extern "C" __global__ void searchsorted(int64* y, const TYPE* a, const TYPE* v, int64 length, int64 count, int or_equal) {
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64)blockDim.x)
    y[i] = rank(v[i], a, length, or_equal);
}
