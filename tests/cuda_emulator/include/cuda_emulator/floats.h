// Floating-point intrinsics and the functions of CUDA's mathematics library that the C library lacks.
#pragma once
#include "integers.h"

// ---- the fast ones are the exact ones here; glibc has some of these names for itself
#define __expf cuda_emulator_expf
#define __exp10f cuda_emulator_exp10f
#define __logf cuda_emulator_logf
#define __log2f cuda_emulator_log2f
#define __log10f cuda_emulator_log10f
#define __sinf cuda_emulator_sinf
#define __cosf cuda_emulator_cosf
#define __tanf cuda_emulator_tanf
#define __powf cuda_emulator_powf
#define __sincosf cuda_emulator_sincosf
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }  // a NaN becomes 0

// ---- operations with a rounding of their own, which the compiler may not contract
namespace cuda_emulator {
template <class T> T rounded(T x) {
  asm("" : "+x"(x));
  return x;
}
}  // namespace cuda_emulator
inline float __fadd_rn(float x, float y) { return cuda_emulator::rounded(x + y); }
inline float __fsub_rn(float x, float y) { return cuda_emulator::rounded(x - y); }
inline float __fmul_rn(float x, float y) { return cuda_emulator::rounded(x * y); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return cuda_emulator::rounded(x + y); }
inline double __dsub_rn(double x, double y) { return cuda_emulator::rounded(x - y); }
inline double __dmul_rn(double x, double y) { return cuda_emulator::rounded(x * y); }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __drcp_rn(double x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

// ---- conversions, which saturate and turn a NaN into 0
namespace cuda_emulator {
template <class I, class F> I to_integer(F x) {
  if (x != x) return 0;
  if (x >= std::ldexp(F(1), std::numeric_limits<I>::digits)) return std::numeric_limits<I>::max();
  if (x <= static_cast<F>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  return static_cast<I>(x);
}
}  // namespace cuda_emulator
#define CUDA_EMULATOR_TO_INTEGER(NAME, F, I)                                                   \
  inline I NAME##_rn(F x) { return cuda_emulator::to_integer<I>(std::nearbyint(x)); }          \
  inline I NAME##_rz(F x) { return cuda_emulator::to_integer<I>(std::trunc(x)); }              \
  inline I NAME##_rd(F x) { return cuda_emulator::to_integer<I>(std::floor(x)); }              \
  inline I NAME##_ru(F x) { return cuda_emulator::to_integer<I>(std::ceil(x)); }
CUDA_EMULATOR_TO_INTEGER(__float2int, float, int)
CUDA_EMULATOR_TO_INTEGER(__float2uint, float, unsigned)
CUDA_EMULATOR_TO_INTEGER(__float2ll, float, long long)
CUDA_EMULATOR_TO_INTEGER(__float2ull, float, unsigned long long)
CUDA_EMULATOR_TO_INTEGER(__double2int, double, int)
CUDA_EMULATOR_TO_INTEGER(__double2uint, double, unsigned)
CUDA_EMULATOR_TO_INTEGER(__double2ll, double, long long)
CUDA_EMULATOR_TO_INTEGER(__double2ull, double, unsigned long long)
#undef CUDA_EMULATOR_TO_INTEGER
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// ---- functions, each computed in double
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline double rcbrt(double x) { return 1 / cbrt(x); }
inline double rhypot(double x, double y) { return 1 / hypot(x, y); }
inline double sinpi(double x) { return sin(M_PI * std::remainder(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * std::remainder(x, 2.0)); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

// exp(x x) erfc(x): direct while erfc has digits, then its continued fraction
inline double erfcx(double x) {
  if (x < 10) return exp(x * x) * erfc(x);
  double tail = x;
  for (int k = 20; k > 0; k--) tail = x + k / 2.0 / tail;
  return 1 / (tail * std::sqrt(M_PI));
}

// the inverse of erfc on [0, 2]: a start to three digits, then Halley's steps
inline double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
  double p = y < 1 ? y : 2 - y, t = sqrt(-2 * log(p / 2));
  double x = M_SQRT1_2 * (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)));
  for (int i = 0; i < 3; i++) {
    double error = (erfc(x) - p) / (M_2_SQRTPI * exp(-x * x));
    x += error / (1 - x * error);
  }
  return y < 1 ? x : -x;
}
inline double erfinv(double x) {
  if (fabs(x) > 0.5) return erfcinv(1 - x);
  double y = x * (1 + x * x * M_PI / 12) / M_2_SQRTPI;
  for (int i = 0; i < 4; i++) {
    double error = (erf(y) - x) / (M_2_SQRTPI * exp(-y * y));
    y -= error / (1 + y * error);
  }
  return y;
}
inline double normcdfinv(double p) { return -M_SQRT2 * erfcinv(2 * p); }

#define CUDA_EMULATOR_FLOAT(NAME)                                         \
  inline float NAME##f(float x) { return static_cast<float>(NAME(static_cast<double>(x))); }
CUDA_EMULATOR_FLOAT(rsqrt)
CUDA_EMULATOR_FLOAT(rcbrt)
CUDA_EMULATOR_FLOAT(sinpi)
CUDA_EMULATOR_FLOAT(cospi)
CUDA_EMULATOR_FLOAT(normcdf)
CUDA_EMULATOR_FLOAT(normcdfinv)
CUDA_EMULATOR_FLOAT(erfcx)
CUDA_EMULATOR_FLOAT(erfcinv)
CUDA_EMULATOR_FLOAT(erfinv)
#undef CUDA_EMULATOR_FLOAT
inline float rhypotf(float x, float y) { return static_cast<float>(rhypot(x, y)); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrt(float x) { return rcbrtf(x); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }
inline float normcdf(float x) { return normcdff(x); }
inline float normcdfinv(float x) { return normcdfinvf(x); }
inline float erfcx(float x) { return erfcxf(x); }
inline float erfcinv(float x) { return erfcinvf(x); }
inline float erfinv(float x) { return erfinvf(x); }
inline void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
