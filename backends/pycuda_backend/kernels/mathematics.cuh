// The elementwise kernels of the contract as functions of one element, with NumPy's values at edges: NaN, infinities, zero divisors.
// Elementwise sources call them by the kernel's name, all arguments in the type of NumPy's loop.  The halves compute in float.
#pragma once
#include "common.cuh"

namespace at {

#define FLOATING(NAME, EXPRESSION) \
  template <class T> __device__ __forceinline__ T NAME(T argument) { const wide<T> x = (wide<T>)argument; return (T)(EXPRESSION); }
#define FLOATING2(NAME, EXPRESSION) \
  template <class T> __device__ __forceinline__ T NAME(T first, T second) { \
    const wide<T> a = (wide<T>)first, b = (wide<T>)second; return (T)(EXPRESSION); }

FLOATING(exp, ::exp(x))
FLOATING(exp2, ::exp2(x))
FLOATING(expm1, ::expm1(x))
FLOATING(log, ::log(x))
FLOATING(log1p, ::log1p(x))
FLOATING(log2, ::log2(x))
FLOATING(log10, ::log10(x))
FLOATING(sqrt, ::sqrt(x))
FLOATING(cbrt, ::cbrt(x))
FLOATING(sin, ::sin(x))
FLOATING(cos, ::cos(x))
FLOATING(tan, ::tan(x))
FLOATING(arcsin, ::asin(x))
FLOATING(arccos, ::acos(x))
FLOATING(arctan, ::atan(x))
FLOATING(sinh, ::sinh(x))
FLOATING(cosh, ::cosh(x))
FLOATING(tanh, ::tanh(x))
FLOATING(arcsinh, ::asinh(x))
FLOATING(arccosh, ::acosh(x))
FLOATING(arctanh, ::atanh(x))
FLOATING(fabs, ::fabs(x))
FLOATING(deg2rad, x * (wide<T>)0.017453292519943295)
FLOATING(rad2deg, x * (wide<T>)57.29577951308232)
FLOATING(sigmoid, x >= 0 ? 1 / (1 + ::exp(-x)) : x != x ? x : ::exp(x) / (1 + ::exp(x)))
FLOATING2(arctan2, ::atan2(a, b))
FLOATING2(hypot, ::hypot(a, b))
FLOATING2(copysign, ::copysign(a, b))
FLOATING2(heaviside, a != a ? a : a > 0 ? 1 : a < 0 ? 0 : b)
FLOATING2(logaddexp, a == b ? a + (wide<T>)0.6931471805599453 : a > b ? a + ::log1p(::exp(b - a)) : a < b ? b + ::log1p(::exp(a - b)) : a - b)
FLOATING2(logaddexp2, a == b ? a + 1 : a > b ? a + (wide<T>)1.4426950408889634 * ::log1p(::exp2(b - a))
                    : a < b ? b + (wide<T>)1.4426950408889634 * ::log1p(::exp2(a - b)) : a - b)

// -- of all types
#define EACH(NAME, EXPRESSION) \
  template <class T> __device__ __forceinline__ T NAME(T argument) { const wide<T> x = (wide<T>)argument; return (T)(EXPRESSION); }
#define EACH2(NAME, EXPRESSION) \
  template <class T> __device__ __forceinline__ T NAME(T first, T second) { \
    const wide<T> a = (wide<T>)first, b = (wide<T>)second; return (T)(EXPRESSION); }

template <class T> __device__ __forceinline__ bool isnan(T argument) { const wide<T> x = (wide<T>)argument; return x != x; }
EACH(negative, -x)
EACH(square, x * x)
EACH(relu, x != x ? x : x > 0 ? x : 0)
EACH2(add, a + b)
EACH2(subtract, a - b)
EACH2(multiply, a * b)
EACH2(divide, a / b)
template <> __device__ __forceinline__ bool add(bool a, bool b) { return a || b; }
template <> __device__ __forceinline__ bool multiply(bool a, bool b) { return a && b; }
template <> __device__ __forceinline__ bool square(bool x) { return x; }
EACH2(maximum, a != a ? a : b != b ? b : a > b ? a : b)
EACH2(minimum, a != a ? a : b != b ? b : a < b ? a : b)
EACH2(fmax, b != b ? a : a != a ? b : a > b ? a : b)
EACH2(fmin, b != b ? a : a != a ? b : a < b ? a : b)

template <class T> __device__ __forceinline__ T absolute(T argument) {
  const wide<T> x = (wide<T>)argument;
  if constexpr (Is<T>::floating) return (T)::fabs(x);
  else if constexpr (Is<T>::is_signed) return (T)(x < 0 ? -x : x);
  else return argument;
}
template <class T> __device__ __forceinline__ bool is_negative(T x) {
  if constexpr (Is<T>::is_signed) return x < 0; else return false;
}
template <class T> __device__ __forceinline__ T sign(T argument) {
  const wide<T> x = (wide<T>)argument;
  return x != x ? argument : (T)(wide<T>)((x > 0) - is_negative(x));
}
template <class T> __device__ __forceinline__ T reciprocal(T argument) {
  const wide<T> x = (wide<T>)argument;
  if constexpr (Is<T>::floating) return (T)(1 / x);
  else return x == 0 ? (Is<T>::is_signed ? (T)((unsigned long long)1 << (8 * sizeof(T) - 1)) : (T)0) : (T)(1 / x);
}
#define ROUNDED(NAME, FUNCTION) \
  template <class T> __device__ __forceinline__ T NAME(T x) { \
    if constexpr (Is<T>::floating) return (T)FUNCTION((wide<T>)x); else return x; }
ROUNDED(floor, ::floor)
ROUNDED(ceil, ::ceil)
ROUNDED(trunc, ::trunc)
ROUNDED(rint, ::rint)

template <class T> __device__ __forceinline__ bool isinf(T argument) {
  const wide<T> x = (wide<T>)argument;
  if constexpr (Is<T>::floating) return x == infinity<wide<T>>() || x == -infinity<wide<T>>(); else return false;
}
template <class T> __device__ __forceinline__ bool isfinite(T argument) {
  const wide<T> x = (wide<T>)argument;
  if constexpr (Is<T>::floating) return x - x == 0; else return true;
}
template <class T> __device__ __forceinline__ bool signbit(T argument) {
  const wide<T> x = (wide<T>)argument;
  if constexpr (Is<T>::floating) return ::copysign((wide<T>)1, x) < 0; else return x < 0;
}
template <class T> __device__ __forceinline__ bool logical_not(T argument) { return !((wide<T>)argument != 0); }

// -- comparisons; NumPy compares int64 with uint64 exactly
#define COMPARISON(NAME, OPERATOR) \
  template <class A, class B> __device__ __forceinline__ bool NAME(A first, B second) { \
    const wide<A> a = (wide<A>)first; const wide<B> b = (wide<B>)second; return a OPERATOR b; } \
  template <> __device__ __forceinline__ bool NAME(long long a, unsigned long long b) { return a < 0 ? -1 OPERATOR 0 : (unsigned long long)a OPERATOR b; } \
  template <> __device__ __forceinline__ bool NAME(unsigned long long a, long long b) { return b < 0 ? 0 OPERATOR -1 : a OPERATOR (unsigned long long)b; }
COMPARISON(equal, ==)
COMPARISON(not_equal, !=)
COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
template <class T> __device__ __forceinline__ bool logical_and(T a, T b) { return (wide<T>)a != 0 && (wide<T>)b != 0; }
template <class T> __device__ __forceinline__ bool logical_or(T a, T b) { return (wide<T>)a != 0 || (wide<T>)b != 0; }
template <class T> __device__ __forceinline__ bool logical_xor(T a, T b) { return ((wide<T>)a != 0) != ((wide<T>)b != 0); }

// -- division that rounds down, and its remainder, which has the divisor's sign; of integers by zero both are 0
template <class T> __device__ __forceinline__ T remainder(T first, T second) {
  const wide<T> a = (wide<T>)first, b = (wide<T>)second;
  if constexpr (Is<T>::floating) {
    const wide<T> r = ::fmod(a, b);
    if (b == 0 || r != r) return (T)r;
    return (T)(r == 0 ? ::copysign((wide<T>)0, b) : (b < 0) != (r < 0) ? r + b : r);
  } else {
    if (b == 0 || (Is<T>::is_signed && b == (T)-1)) return (T)0;  // the least integer by -1 would overflow
    const T r = (T)(a % b);
    return r != 0 && is_negative(r) != is_negative(b) ? (T)(r + b) : r;
  }
}
template <class T> __device__ __forceinline__ T floor_divide(T first, T second) {
  const wide<T> a = (wide<T>)first, b = (wide<T>)second;
  if constexpr (Is<T>::floating) {
    if (b == 0) return (T)(a / b);
    const wide<T> r = ::fmod(a, b);
    wide<T> q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return (T)::copysign((wide<T>)0, a / b);
    const wide<T> f = ::floor(q);
    return (T)(q - f > (wide<T>)0.5 ? f + 1 : f);
  } else {
    if (b == 0) return (T)0;
    if (Is<T>::is_signed && b == (T)-1) return (T)(0 - (unsigned long long)a);
    const T q = (T)(a / b);
    return (a % b) != 0 && is_negative(a) != is_negative(b) ? (T)(q - 1) : q;
  }
}
template <class T> __device__ __forceinline__ T fmod(T first, T second) {
  const wide<T> a = (wide<T>)first, b = (wide<T>)second;
  if constexpr (Is<T>::floating) return (T)::fmod(a, b);
  else return b == 0 || (Is<T>::is_signed && b == (T)-1) ? (T)0 : (T)(a % b);
}
template <class T> __device__ __forceinline__ T power(T first, T second) {
  if constexpr (Is<T>::floating) return (T)::pow((wide<T>)first, (wide<T>)second);
  else {
    T result = 1, base = first;
    if (is_negative(second)) return base == 1 ? base : base != (T)-1 ? (T)0 : second % 2 ? base : (T)1;  // NumPy raises; here it is rounded to 0
    for (T n = second; n > 0; n = (T)(n >> 1)) {
      if (n & 1) result = (T)(result * base);
      base = (T)(base * base);
    }
    return result;
  }
}

// -- the neighbours of a number, by its bits; NumPy has ways of its own for float16
template <class T> struct IsHalf { static constexpr bool value = false; };
#if defined(NEEDS_HALF)
template <> struct IsHalf<half> { static constexpr bool value = true; };
#endif
template <class T> __device__ __forceinline__ T nextafter(T first, T second) {
  const wide<T> a = (wide<T>)first, b = (wide<T>)second;
  if constexpr (sizeof(T) >= 4) return (T)::nextafter(a, b);
  else {
    if (a != a || b != b) return (T)(a + b);
    if (a == b) return IsHalf<T>::value ? first : second;
    short bits;
    if (a == 0) bits = b > 0 ? 1 : (short)0x8001;
    else { memcpy(&bits, &first, 2); bits += (a < b) == (a > 0) ? 1 : -1; }
    T result;
    memcpy(&result, &bits, 2);
    return result;
  }
}
// To the neighbour that is further from 0; as in NumPy of float16 to the one above, and of -0 so, too, but in bfloat16.
template <class T> __device__ __forceinline__ T spacing(T x) {
  const wide<T> w = (wide<T>)x;
  if (isinf(x)) return not_a_number<T>();
  const bool down = sizeof(T) >= 4 ? w < 0 : !IsHalf<T>::value && signbit(x);
  const T away = (T)(down ? -infinity<wide<T>>() : infinity<wide<T>>());
  return (T)((wide<T>)nextafter(x, away) - w);
}
template <class T> __device__ __forceinline__ int exponent(T argument) {
  int e = 0;
  const wide<T> x = (wide<T>)argument;
  if (x != 0 && isfinite(argument)) ::frexp(x, &e);
  return e;
}
template <class T> __device__ __forceinline__ T ldexp(T x, long long exponent) {
  const int e = exponent > 100000 ? 100000 : exponent < -100000 ? -100000 : (int)exponent;
  return (T)::ldexp((wide<T>)x, e);
}

// The modified Bessel function of whole order: the power series, whose terms have one sign, and far out the asymptotic expansion.
template <class T> __device__ __forceinline__ T bessel_i(T argument, long long order) {
  const double x = (double)(wide<T>)argument, z = ::fabs(x);
  const long long bound = order * order > 20 ? order * order : 20;
  double total = 1;
  if (z <= (double)bound) {
    const double half = z / 2, square = half * half;
    for (long long k = bound + 20; k > 0; --k) total = 1 + square * total / (double)(k * (k + order));
    for (long long k = 1; k <= order; ++k) total *= half / (double)k;
  } else {
    for (long long k = 30; k > 0; --k) total = 1 + total * (double)((2 * k - 1) * (2 * k - 1) - 4 * order * order) / (double)(8 * k) / z;
    const double half = ::exp(z / 2);  // exp(z) overflows before the function does
    total = half * total / ::sqrt(6.283185307179586 * z) * half;
  }
  return (T)(wide<T>)(order % 2 && x < 0 ? -total : total);
}

// -- activations and their cotangents
template <class T> __device__ __forceinline__ T elu(T argument) {
  const wide<T> x = (wide<T>)argument;
  return (T)(x > 0 ? x : ::expm1(x));
}
template <class T> __device__ __forceinline__ T selu(T argument) {
  const wide<T> x = (wide<T>)argument, scale = (wide<T>)1.0507009873554805, limit = (wide<T>)1.7580993408473773;
  return (T)(x > 0 ? scale * x : limit * ::expm1(x));
}
template <class A, class B> __device__ __forceinline__ A relu_x(A dy, B y) { return (wide<B>)y > 0 ? dy : (A)0; }
EACH2(elu_x, b > 0 ? a : a * (b + 1))
EACH2(sigmoid_x, a * b * (1 - b))

}  // namespace at
