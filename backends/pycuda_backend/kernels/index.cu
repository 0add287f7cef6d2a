// Elements that indices name, copied out of an array or into it.  TYPE is a word that holds them, or several of a row.
// variants: TYPE=uint4 INDEX=int; TYPE=uint4 INDEX=long long; TYPE=unsigned long long INDEX=int
// variants: TYPE=unsigned int INDEX=int; TYPE=unsigned short INDEX=int; TYPE=unsigned char INDEX=int
#include "lookup.cuh"

extern "C" __global__ void __launch_bounds__(256)
gather(const int64 n, TYPE* y, const TYPE* base, const int64* indices, const int64 extent, const int64 step, int64* note,
       const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    y[offset[0]] = base[offset[1] + checked(indices[offset[2]], extent, note) * step];
  }
}

// winners tells which of the lookups with an index is the last, by its number in the indices; it is null where no index comes twice.
extern "C" __global__ void __launch_bounds__(256)
write(const int64 n, const TYPE* v, TYPE* base, const int64* indices, const int64 extent, const int64 step, int64* note, const int64* winners,
      const Layout<INDEX, 3> layout) {
  EACH_ELEMENT(n) {
    INDEX offset[3];
    place(layout, (INDEX)i, offset);
    const int64 at = checked(indices[offset[2]], extent, note);
    if (!winners || winners[at] == offset[2]) base[offset[1] + at * step] = v[offset[0]];
  }
}
