// Values added to elements that indices name.  SUM is the type of the sums.
// variants: TYPE=float SUM=float INDEX=int; TYPE=double SUM=double INDEX=int; TYPE=half SUM=float INDEX=int
// variants: TYPE=bfloat16 SUM=float INDEX=int; TYPE=int SUM=int INDEX=int; TYPE=long long SUM=long long INDEX=int
#include "lookup.cuh"

template <class S> __device__ __forceinline__ void accumulate(S* at, const S x) { atomicAdd(at, x); }
template <> __device__ __forceinline__ void accumulate(long long* at, const long long x) {
  atomicAdd((unsigned long long*)at, (unsigned long long)x);
}

// In whatever order threads come: the last bits of floating sums differ from run to run.
extern "C" __global__ void __launch_bounds__(256)
add(const int64 n, const TYPE* v, SUM* base, const int64* indices, const int64 extent, const int64 step, int64* note,
    const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    accumulate(base + offset[1] + checked(indices[offset[2]], extent, note) * step, cast<SUM>(v[offset[0]]));
  }
}

// In the order of the rows of v: `order` sorts them by the keys, which tell where in `base` a row is added.  The thread that meets the first
// row of a key adds up all of them.
extern "C" __global__ void __launch_bounds__(256)
add_in_order(const int64 n, const TYPE* v, SUM* base, const int64* order, const int64, const int64, int64*, const int64* keys,
             const int64 rows, const int64 width, const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    int64 row = offset[2];
    const int64 key = keys[order[row]];
    if (row && keys[order[row - 1]] == key) continue;
    SUM* const y = base + offset[1] + key;
    SUM sum = *y;
    for (; row < rows && keys[order[row]] == key; ++row) sum += cast<SUM>(v[order[row] * width + offset[0]]);
    *y = sum;
  }
}
