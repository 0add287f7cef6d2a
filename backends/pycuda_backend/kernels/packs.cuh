// Elements moved some at a time: PACK is how many of a row lie in what one load or store moves, 1 or as many as 16 bytes hold.  Computed
// on in the wider type.
#pragma once
#include "common.cuh"

typedef TYPE T;  // of the elements
typedef wide<T> W;
#define FULL (16 / (int)sizeof(T))

template <int PACK> __device__ __forceinline__ void load(W (&v)[PACK], const T* p) {
  const Pack<T, PACK> pack = *(const Pack<T, PACK>*)p;
#pragma unroll
  for (int j = 0; j < PACK; ++j) v[j] = (W)pack.at[j];
}
template <int PACK> __device__ __forceinline__ void store(T* p, const W (&v)[PACK]) {
  Pack<T, PACK> pack;
#pragma unroll
  for (int j = 0; j < PACK; ++j) pack.at[j] = (T)v[j];
  *(Pack<T, PACK>*)p = pack;
}
template <int PACK> __device__ __forceinline__ void fill(W (&v)[PACK], W value) {
#pragma unroll
  for (int j = 0; j < PACK; ++j) v[j] = value;
}
