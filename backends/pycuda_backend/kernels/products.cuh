// What products of two TYPEs are added up in.
#pragma once
#include "common.cuh"

// Integers wrap around without a sign; of truths as many are counted.
template <class T, int BYTES = Is<T>::floating ? 0 : sizeof(T)> struct Adding { typedef unsigned type; };
template <class T> struct Adding<T, 0> { typedef wide<T> type; };
template <class T> struct Adding<T, 8> { typedef unsigned long long type; };
template <> struct Adding<bool, 1> { typedef unsigned long long type; };
typedef Adding<TYPE>::type Sum;

__device__ __forceinline__ Sum widened(TYPE x) { return (Sum)(wide<TYPE>)x; }
