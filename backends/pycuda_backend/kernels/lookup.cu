// Indices themselves: where they lead, which of them comes last, and what a mask selects.
// variants: INDEX=int; INDEX=long long
#include "lookup.cuh"

// How far each lookup leads from the first element of the base, added to y.
extern "C" __global__ void __launch_bounds__(256)
add_offsets(const int64 n, int64* y, const void*, const int64* indices, const int64 extent, const int64 step, int64* note,
            const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    y[offset[0]] += offset[1] + checked(indices[offset[2]], extent, note) * step;
  }
}

// For each index the last of the lookups that have it.
extern "C" __global__ void __launch_bounds__(256)
claim(const int64 n, const void*, int64* winners, const int64* indices, const int64 extent, const int64 step, int64* note,
      const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    atomicMax((long long*)winners + checked(indices[offset[2]], extent, note), (long long)offset[2]);
  }
}

// The numbers of the elements that are true, of which counts has the running sum.
extern "C" __global__ void __launch_bounds__(256) true_positions(const int64 n, int64* y, const bool* mask, const int64* counts) {
  EACH_ELEMENT(n) if (mask[i]) y[counts[i] - 1] = i;
}
