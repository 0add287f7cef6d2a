// __half and __nv_bfloat16 from CUDA's own headers, and the functions on them that those define for a GPU alone.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "floats.h"

namespace cuda_emulator {

template <class H> H narrow(float x) {
  if constexpr (std::is_same_v<H, __half>) return __float2half_rn(x);
  else return __float2bfloat16_rn(x);
}
inline float widen(__half x) { return __half2float(x); }
inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

inline float reciprocal(float x) { return 1 / x; }
// rounds to 16 bits once: the product is exact in double, and its sum with z is too but for bits far below
template <class H> H fused(H x, H y, H z) {
  double sum = fma(static_cast<double>(widen(x)), static_cast<double>(widen(y)), static_cast<double>(widen(z)));
  if constexpr (std::is_same_v<H, __half>) return __double2half(sum);
  else return __double2bfloat16(sum);
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_HALF_FUNCTION(NAME, H, H2, F)                                                     \
  inline H h##NAME(H x) { return cuda_emulator::narrow<H>(F(cuda_emulator::widen(x))); }                \
  inline H2 h2##NAME(H2 x) { return H2(h##NAME(x.x), h##NAME(x.y)); }
#define CUDA_EMULATOR_HALF(H, H2)                                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(exp, H, H2, expf)                                                         \
  CUDA_EMULATOR_HALF_FUNCTION(exp2, H, H2, exp2f)                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(exp10, H, H2, exp10f)                                                     \
  CUDA_EMULATOR_HALF_FUNCTION(log, H, H2, logf)                                                         \
  CUDA_EMULATOR_HALF_FUNCTION(log2, H, H2, log2f)                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(log10, H, H2, log10f)                                                     \
  CUDA_EMULATOR_HALF_FUNCTION(sin, H, H2, sinf)                                                         \
  CUDA_EMULATOR_HALF_FUNCTION(cos, H, H2, cosf)                                                         \
  CUDA_EMULATOR_HALF_FUNCTION(tanh, H, H2, tanhf)                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(sqrt, H, H2, sqrtf)                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(rsqrt, H, H2, rsqrtf)                                                     \
  CUDA_EMULATOR_HALF_FUNCTION(rcp, H, H2, cuda_emulator::reciprocal)                                    \
  CUDA_EMULATOR_HALF_FUNCTION(floor, H, H2, floorf)                                                     \
  CUDA_EMULATOR_HALF_FUNCTION(ceil, H, H2, ceilf)                                                       \
  CUDA_EMULATOR_HALF_FUNCTION(trunc, H, H2, truncf)                                                     \
  CUDA_EMULATOR_HALF_FUNCTION(rint, H, H2, rintf)                                                       \
  inline H __hfma(H x, H y, H z) { return cuda_emulator::fused(x, y, z); }                              \
  inline H2 __hfma2(H2 x, H2 y, H2 z) { return H2(__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)); }
CUDA_EMULATOR_HALF(__half, __half2)
CUDA_EMULATOR_HALF(__nv_bfloat16, __nv_bfloat162)
#undef CUDA_EMULATOR_HALF
#undef CUDA_EMULATOR_HALF_FUNCTION
