// What the factorizations share: one block works on one matrix, whose rows its warps go through, the lanes of a warp going along a row.
#pragma once
#include "common.cuh"

typedef TYPE T;

__device__ __forceinline__ int lane() { return threadIdx.x % 32; }
__device__ __forceinline__ int warp() { return threadIdx.x / 32; }
__device__ __forceinline__ int warps() { return blockDim.x / 32; }
// The block's matrix in a stack of matrices of `size` elements.
template <class A> __device__ __forceinline__ A* mine(A* stack, int64 size) { return stack + blockIdx.x * size; }

struct Sum { __device__ static T of(T a, T b) { return a + b; } };
struct Most { __device__ static T of(T a, T b) { return a > b ? a : b; } };
struct Least { __device__ static T of(T a, T b) { return a < b ? a : b; } };

// Every lane, or every thread of the block, gives a number and gets what all of them make; always in the same order.
template <class How> __device__ T of_warp(T x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = How::of(x, __shfl_xor_sync(0xffffffff, x, distance));
  return x;
}
template <class How> __device__ T of_block(T x) {
  __shared__ T parts[32];
  x = of_warp<How>(x);
  if (lane() == 0) parts[warp()] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < warps(); ++i) x = How::of(x, parts[i]);
  __syncthreads();
  return x;
}

// The largest magnitude in a dense matrix; NaN counts as the largest, and is then infinity.
__device__ inline T largest(const T* a, int64 size) {
  T most = 0;
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) most = Most::of(most, a[i] != a[i] ? infinity<T>() : ::fabs(a[i]));
  return of_block<Most>(most);
}

__device__ inline void identity(T* a, int rows, int columns) {
  for (int i = warp(); i < rows; i += warps())
    for (int j = lane(); j < columns; j += 32) a[i * (int64)columns + j] = i == j;
}
