// By what reductions and scans combine elements: join(a, b), which is associative but for rounding, and none(), which changes nothing;
// neutral() does not even change the sign of a zero.
#pragma once
#include "mathematics.cuh"

// The value that is never larger than another, and the one that is never smaller.
template <class T> __device__ __forceinline__ T lowest() {
  if constexpr (Is<T>::floating) return -infinity<T>();
  else return Is<T>::is_signed ? (T)(1ULL << (8 * sizeof(T) - 1)) : (T)0;
}
template <class T> __device__ __forceinline__ T highest() {
  if constexpr (Is<T>::floating) return infinity<T>();
  else return (T)~(unsigned long long)lowest<T>();
}

template <class A> struct Sum {
  static __device__ __forceinline__ A none() { return 0; }
  static __device__ __forceinline__ A neutral() { return (A)-0.0; }
  static __device__ __forceinline__ A join(A a, A b) { return a + b; }
  template <class T, class I> static __device__ __forceinline__ A of(T x, I) { return cast<A>(x); }
};
template <class A> struct Squares : Sum<A> {
  template <class T, class I> static __device__ __forceinline__ A of(T x, I) { return cast<A>(x) * cast<A>(x); }
};
template <class A> struct Product : Sum<A> {
  static __device__ __forceinline__ A none() { return 1; }
  static __device__ __forceinline__ A neutral() { return 1; }
  static __device__ __forceinline__ A join(A a, A b) { return a * b; }
};
template <class A> struct Max : Sum<A> {
  static __device__ __forceinline__ A none() { return lowest<A>(); }
  static __device__ __forceinline__ A join(A a, A b) { return at::maximum(a, b); }
};
template <class A> struct Min : Sum<A> {
  static __device__ __forceinline__ A none() { return highest<A>(); }
  static __device__ __forceinline__ A join(A a, A b) { return at::minimum(a, b); }
};
template <class A> struct Any : Sum<A> {
  static __device__ __forceinline__ A none() { return false; }
  static __device__ __forceinline__ A join(A a, A b) { return a || b; }
};
template <class A> struct All : Sum<A> {
  static __device__ __forceinline__ A none() { return true; }
  static __device__ __forceinline__ A join(A a, A b) { return a && b; }
};

// An extremum and its place.  The first NaN counts as the extremum, else the first of equals.
template <class T> struct Best {
  T value;
  long long place;
};
template <class A> struct ArgMax;
template <class A> struct ArgMin;
template <class A, bool LARGEST> struct Arg;
template <class T, bool LARGEST> struct Arg<Best<T>, LARGEST> {
  typedef Best<T> A;
  static __device__ __forceinline__ A none() { return {LARGEST ? lowest<T>() : highest<T>(), 0x7fffffffffffffffLL}; }
  static __device__ __forceinline__ A join(A a, A b) {
    const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    const bool better = a.value != a.value || (LARGEST ? a.value > b.value : a.value < b.value);
    return (equal ? a.place < b.place : better) ? a : b;
  }
  template <class X, class I> static __device__ __forceinline__ A of(X x, I place) { return {(T)x, (long long)place}; }
  template <class I> static __device__ __forceinline__ A of(A x, I) { return x; }
};
template <class T> struct ArgMax<Best<T>> : Arg<Best<T>, true> {};
template <class T> struct ArgMin<Best<T>> : Arg<Best<T>, false> {};

// What is stored of a result.
template <class Out, class A> struct Stored {
  static __device__ __forceinline__ Out of(A a) { return cast<Out>(a); }
};
template <class T> struct Stored<Best<T>, Best<T>> {
  static __device__ __forceinline__ Best<T> of(Best<T> a) { return a; }
};
template <class T> struct Stored<long long, Best<T>> {
  static __device__ __forceinline__ long long of(Best<T> a) { return a.place; }
};

// The value that another lane of the warp has, within groups of `width` lanes.
template <class A> __device__ __forceinline__ A from_above(A a, int distance, int width) {
  return (A)__shfl_down_sync(0xffffffff, a, distance, width);
}
template <class T> __device__ __forceinline__ Best<T> from_above(Best<T> a, int distance, int width) {
  return {from_above(a.value, distance, width), from_above(a.place, distance, width)};
}
