// Integer intrinsics, bit casts, loads and stores with a cache hint (which does nothing here), clocks and __trap.
#pragma once
#include "interface.h"

// min and max as CUDA has them, for any two numbers; a NaN loses
#define CUDA_EMULATOR_EXTREME(NAME, FLOATING, COMPARE)                                                                       \
  template <class A, class B>                                                                                                \
  std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>> NAME(A a, B b) {             \
    using C = std::common_type_t<A, B>;                                                                                      \
    if constexpr (std::is_floating_point_v<C>) return FLOATING(static_cast<C>(a), static_cast<C>(b));                        \
    else return static_cast<C>(a) COMPARE static_cast<C>(b) ? static_cast<C>(a) : static_cast<C>(b);                         \
  }
CUDA_EMULATOR_EXTREME(min, std::fmin, <)
CUDA_EMULATOR_EXTREME(max, std::fmax, >)
#undef CUDA_EMULATOR_EXTREME

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long reversed = 0;
  for (int i = 0; i < 64; i++, x >>= 1) reversed = reversed << 1 | (x & 1);
  return reversed;
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}

inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

namespace cuda_emulator {
template <class To, class From> To cast_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
}  // namespace cuda_emulator

inline int __float_as_int(float x) { return cuda_emulator::cast_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return cuda_emulator::cast_bits<unsigned>(x); }
inline float __int_as_float(int x) { return cuda_emulator::cast_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return cuda_emulator::cast_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_emulator::cast_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_emulator::cast_bits<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

template <class T> T __ldg(const T* address) { return *address; }
template <class T> T __ldca(const T* address) { return *address; }
template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }
template <class T> T __ldlu(const T* address) { return *address; }
template <class T> T __ldcv(const T* address) { return *address; }
template <class T> void __stwb(T* address, T value) { *address = value; }
template <class T> void __stcg(T* address, T value) { *address = value; }
template <class T> void __stcs(T* address, T value) { *address = value; }
template <class T> void __stwt(T* address, T value) { *address = value; }

inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }
inline int clock() { return static_cast<int>(clock64()); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { cuda_emulator_trap(); }
