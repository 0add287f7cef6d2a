// Atomic operations, for the types CUDA has them for and no others, so that what compiles here compiles there.
#pragma once
#include "half.h"

namespace cuda_emulator {

template <size_t bytes> struct Word;
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = unsigned long long; };

template <class T, class F> T modify(T* address, F change) {
  using W = typename Word<sizeof(T)>::type;
  T old = *address, value;
  W expected, desired;
  memcpy(&expected, &old, sizeof(T));
  do {
    memcpy(&old, &expected, sizeof(T));
    value = change(old);
    memcpy(&desired, &value, sizeof(T));
  } while (!__atomic_compare_exchange_n(reinterpret_cast<W*>(address), &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_ATOMIC_IN(NAME, T, EXPRESSION) \
  inline T NAME(T* address, T value) {               \
    return cuda_emulator::modify(address, [=](T old) -> T { return EXPRESSION; }); \
  }
#define CUDA_EMULATOR_ATOMIC(NAME, T, EXPRESSION)         \
  CUDA_EMULATOR_ATOMIC_IN(NAME, T, EXPRESSION)            \
  CUDA_EMULATOR_ATOMIC_IN(NAME##_block, T, EXPRESSION)    \
  CUDA_EMULATOR_ATOMIC_IN(NAME##_system, T, EXPRESSION)
#define CUDA_EMULATOR_ATOMICS_3(NAME, EXPRESSION)  \
  CUDA_EMULATOR_ATOMIC(NAME, int, EXPRESSION)      \
  CUDA_EMULATOR_ATOMIC(NAME, unsigned, EXPRESSION) \
  CUDA_EMULATOR_ATOMIC(NAME, unsigned long long, EXPRESSION)

CUDA_EMULATOR_ATOMICS_3(atomicAdd, old + value)
CUDA_EMULATOR_ATOMIC(atomicAdd, float, old + value)
CUDA_EMULATOR_ATOMIC(atomicAdd, double, old + value)
CUDA_EMULATOR_ATOMIC(atomicAdd, __half, __hadd(old, value))
CUDA_EMULATOR_ATOMIC(atomicAdd, __half2, __hadd2(old, value))
CUDA_EMULATOR_ATOMIC(atomicAdd, __nv_bfloat16, __hadd(old, value))
CUDA_EMULATOR_ATOMIC(atomicAdd, __nv_bfloat162, __hadd2(old, value))
CUDA_EMULATOR_ATOMIC(atomicSub, int, old - value)
CUDA_EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
CUDA_EMULATOR_ATOMICS_3(atomicExch, value)
CUDA_EMULATOR_ATOMIC(atomicExch, float, value)
CUDA_EMULATOR_ATOMICS_3(atomicMin, value < old ? value : old)
CUDA_EMULATOR_ATOMIC(atomicMin, long long, value < old ? value : old)
CUDA_EMULATOR_ATOMICS_3(atomicMax, value > old ? value : old)
CUDA_EMULATOR_ATOMIC(atomicMax, long long, value > old ? value : old)
CUDA_EMULATOR_ATOMICS_3(atomicAnd, old& value)
CUDA_EMULATOR_ATOMICS_3(atomicOr, old | value)
CUDA_EMULATOR_ATOMICS_3(atomicXor, old ^ value)
CUDA_EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUDA_EMULATOR_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

#undef CUDA_EMULATOR_ATOMICS_3
#undef CUDA_EMULATOR_ATOMIC
#undef CUDA_EMULATOR_ATOMIC_IN

#define CUDA_EMULATOR_CAS(NAME, T)                                                                     \
  inline T NAME(T* address, T compare, T value) {                                                      \
    return cuda_emulator::modify(address, [=](T old) -> T { return old == compare ? value : old; });   \
  }
#define CUDA_EMULATOR_CAS_ALL(T)       \
  CUDA_EMULATOR_CAS(atomicCAS, T)       \
  CUDA_EMULATOR_CAS(atomicCAS_block, T) \
  CUDA_EMULATOR_CAS(atomicCAS_system, T)
CUDA_EMULATOR_CAS_ALL(unsigned short)
CUDA_EMULATOR_CAS_ALL(int)
CUDA_EMULATOR_CAS_ALL(unsigned)
CUDA_EMULATOR_CAS_ALL(unsigned long long)
#undef CUDA_EMULATOR_CAS_ALL
#undef CUDA_EMULATOR_CAS
