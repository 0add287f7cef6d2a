// What every unit shares: the types that kernels take, and the wider ones that they compute in.
#pragma once

#if defined(NEEDS_HALF)
#include <cuda_fp16.h>
#endif
#if defined(NEEDS_BFLOAT16)
#include <cuda_bf16.h>
typedef __nv_bfloat16 bfloat16;
#endif

typedef long long int64;

// The type that arithmetic on T is done in: float for the halves, T itself for all others.
template <class T> struct Wider { typedef T type; };
#if defined(NEEDS_HALF)
template <> struct Wider<half> { typedef float type; };
#endif
#if defined(NEEDS_BFLOAT16)
template <> struct Wider<bfloat16> { typedef float type; };
#endif
template <class T> using wide = typename Wider<T>::type;

// Conversions as NumPy has them.  C++ alone does not know how to go from one half type to the other, or from a half to an integer.
template <class To, class From> __device__ __forceinline__ To cast(From x) { return (To)(wide<To>)(wide<From>)x; }
#if defined(NEEDS_HALF)
template <> __device__ __forceinline__ half cast(double x) { return __double2half(x); }  // by way of float it would be rounded twice
#endif
#if defined(NEEDS_BFLOAT16)
template <> __device__ __forceinline__ bfloat16 cast(double x) { return __double2bfloat16(x); }
#endif

template <class T, int N> struct alignas(sizeof(T) * N) Pack { T at[N]; };  // what one load or store moves

template <class T> struct Is { static constexpr bool floating = false, is_signed = (T)-1 < (T)0; };
template <> struct Is<float> { static constexpr bool floating = true, is_signed = true; };
template <> struct Is<double> { static constexpr bool floating = true, is_signed = true; };
#if defined(NEEDS_HALF)
template <> struct Is<half> { static constexpr bool floating = true, is_signed = true; };
#endif
#if defined(NEEDS_BFLOAT16)
template <> struct Is<bfloat16> { static constexpr bool floating = true, is_signed = true; };
#endif

template <class T> __device__ __forceinline__ T infinity() { return (T)__int_as_float(0x7f800000); }
template <> __device__ __forceinline__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000LL); }
template <class T> __device__ __forceinline__ T not_a_number() { return (T)__int_as_float(0x7fc00000); }
template <> __device__ __forceinline__ double not_a_number<double>() { return __longlong_as_double(0x7ff8000000000000LL); }
