// What the softmax family shares: the largest element and the sum of exponentials below it, from which every result comes.
#pragma once
#include "packs.cuh"
#include "teams.cuh"

enum { SOFTMAX, LOGSOFTMAX, LOGSUMEXP };  // softmaxes.py has the same numbers

template <class F> __device__ __forceinline__ F largest();
template <> __device__ __forceinline__ float largest() { return __int_as_float(0x7f7fffff); }
template <> __device__ __forceinline__ double largest() { return __longlong_as_double(0x7fefffffffffffffLL); }

// A maximum that is always finite, for inf - inf would be NaN; a NaN among the elements comes out of the exponentials.
struct Most { W value; };
__device__ __forceinline__ Most merge(Most a, Most b) { return {a.value > b.value ? a.value : b.value}; }
__device__ __forceinline__ W at_least(W most, W x) { return x > most ? (x > largest<W>() ? largest<W>() : x) : most; }

// The sum of exp(x - most).
struct State { W most, sum; };
__device__ __forceinline__ State merge(State a, State b) {
  const W most = a.most > b.most ? a.most : b.most;
  return {most, a.sum * ::exp(a.most - most) + b.sum * ::exp(b.most - most)};
}
__device__ __forceinline__ State nothing() { return {-largest<W>(), 0}; }
