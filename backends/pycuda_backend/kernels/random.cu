// Uniform numbers in [0, 1): NumPy's Generator(Philox(key)).random, bit for bit.  Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", 2011: Philox 4x64-10 makes four words of each value of a counter, which NumPy starts with 1.
// variants: TYPE=float; TYPE=double; TYPE=half; TYPE=bfloat16
#include "common.cuh"

typedef TYPE T;
typedef unsigned long long word;

struct Words { word at[4]; };

__device__ __forceinline__ Words philox(word counter, word key0, word key1) {
  Words x = {{counter, 0, 0, 0}};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const word a = 0xD2E7470EE14C6C93ULL, b = 0xCA5A826395121157ULL;
    x = {{__umul64hi(b, x.at[2]) ^ x.at[1] ^ key0, b * x.at[2], __umul64hi(a, x.at[0]) ^ x.at[3] ^ key1, a * x.at[0]}};
    key0 += 0x9E3779B97F4A7C15ULL;
    key1 += 0xBB67AE8584CAA73BULL;
  }
  return x;
}

// A number's leading bits: as many as it holds, for rounding could give 1.  Doubles take a word each, all others half a word, low first.
template <class F> struct Digits { static constexpr int count = 24; };
#if defined(NEEDS_HALF)
template <> struct Digits<half> { static constexpr int count = 11; };
#endif
#if defined(NEEDS_BFLOAT16)
template <> struct Digits<bfloat16> { static constexpr int count = 8; };
#endif
template <class F> __device__ __forceinline__ F number(const Words& x, int j) {
  if constexpr (sizeof(F) == 8) return (F)((double)(x.at[j] >> 11) * (1.0 / 9007199254740992.0));
  constexpr int digits = Digits<F>::count;
  return (F)((float)((unsigned int)(x.at[j / 2] >> (j % 2 * 32)) >> (32 - digits)) * (1.0f / (1 << digits)));
}

// y, of n numbers, begins at a multiple of 16 bytes.
extern "C" __global__ void __launch_bounds__(256) uniform(T* y, int64 n, word key0, word key1) {
  constexpr int NUMBERS = sizeof(T) == 8 ? 4 : 8, PACK = 16 / sizeof(T);
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i * NUMBERS < n; i += gridDim.x * (int64)blockDim.x) {
    const Words x = philox(i + 1, key0, key1);
    T* const own = y + i * NUMBERS;
    if ((i + 1) * NUMBERS <= n) {
#pragma unroll
      for (int p = 0; p < NUMBERS; p += PACK) {
        Pack<T, PACK> pack;
#pragma unroll
        for (int j = 0; j < PACK; ++j) pack.at[j] = number<T>(x, p + j);
        *(Pack<T, PACK>*)(own + p) = pack;
      }
    } else {
#pragma unroll
      for (int j = 0; j < NUMBERS; ++j)
        if (i * NUMBERS + j < n) own[j] = number<T>(x, j);
    }
  }
}
