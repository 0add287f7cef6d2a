// Threads that work together on one row, column or channel, and how they agree: what each of them has becomes what all of them have, put
// together in the order of their ranks, so that it is the same bits on every run and in every thread.
//
//     const Row team(size);
//     const W mean = team.all(Sum<W>{mine}).value / width;
//
// A type of values is a plain struct with a function merge(earlier, later).
#pragma once
#include "common.cuh"

template <class W> struct Sum { W value; };
template <class W> __device__ __forceinline__ Sum<W> merge(Sum<W> a, Sum<W> b) { return {a.value + b.value}; }
template <class W> struct Sums { W first, second; };
template <class W> __device__ __forceinline__ Sums<W> merge(Sums<W> a, Sums<W> b) { return {a.first + b.first, a.second + b.second}; }

// The value of the lane whose number differs in this bit.
template <class V> __device__ __forceinline__ V from_lane(V v, int bit) {
  static_assert(sizeof(V) % 4 == 0, "lanes exchange whole words");
  unsigned int words[sizeof(V) / 4];
  memcpy(words, &v, sizeof(V));
#pragma unroll
  for (int i = 0; i < (int)(sizeof(V) / 4); ++i) words[i] = __shfl_xor_sync(0xffffffffu, words[i], bit);
  memcpy(&v, words, sizeof(V));
  return v;
}

// What `count` lanes have, a power of two; all lanes of the warp come here.
template <class V> __device__ __forceinline__ V all_lanes(V v, int count) {
  for (int bit = 1; bit < count; bit *= 2) {
    const V other = from_lane(v, bit);
    v = threadIdx.x & bit ? merge(other, v) : merge(v, other);
  }
  return v;
}

// `size` neighbours along x, a power of two: several teams share a warp, or else all threads of the block are one team.
struct Row {
  const int size, rank;
  __device__ __forceinline__ explicit Row(int size) : size(size), rank((int)threadIdx.x & (size - 1)) {}

  template <class V> __device__ __forceinline__ V all(V v) const {
    if (size <= 32) return all_lanes(v, size);
    __shared__ V of_warp[32];
    v = all_lanes(v, 32);
    __syncthreads();  // whoever read these before has done so
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    return all_lanes(of_warp[threadIdx.x % (size / 32)], size / 32);
  }
};

#define COLUMN_THREADS 512  // of a block, at most

// The threads of a block with the same threadIdx.x; there are a power of two of them.
struct Column {
  const int size = blockDim.y, rank = threadIdx.y;

  template <class V> __device__ __forceinline__ V all(V v) const {
    __shared__ V of_thread[COLUMN_THREADS];
    V* const own = of_thread + threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // whoever read these before has done so
    *own = v;
    for (unsigned int step = 1; step < blockDim.y; step *= 2) {
      __syncthreads();
      if (threadIdx.y % (2 * step) == 0) *own = merge(*own, own[step * blockDim.x]);
    }
    __syncthreads();
    return of_thread[threadIdx.x];
  }
};
