// Barriers of a block and of a warp; shuffles, votes and matches among the lanes of a warp.
#pragma once
#include "interface.h"

// where the call stands in the kernel's source, for messages and to tell two barriers apart
#define CUDA_EMULATOR_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline int __syncthreads_count(int predicate, CUDA_EMULATOR_PLACE) { return cuda_emulator_barrier(predicate, file, line); }
inline void __syncthreads(CUDA_EMULATOR_PLACE) { cuda_emulator_barrier(0, file, line); }
inline int __syncthreads_or(int predicate, CUDA_EMULATOR_PLACE) { return cuda_emulator_barrier(predicate, file, line) > 0; }
inline int __syncthreads_and(int predicate, CUDA_EMULATOR_PLACE) { return cuda_emulator_barrier(!predicate, file, line) == 0; }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }

namespace cuda_emulator {

template <class F> void for_lanes(unsigned lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

template <class T> unsigned long long to_bits(T value) {
  static_assert(sizeof(T) <= 8, "lanes exchange at most 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T> T from_bits(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// What a lane reads from one that takes no part is undefined: all ones, a NaN in every format.
inline void shuffle(Meeting& m) {
  for_lanes(m.lanes, [&](int lane) { m.result[lane] = m.lanes >> m.operand[lane] & 1 ? m.value[m.operand[lane]] : ~0ull; });
}

inline void ballot(Meeting& m) {
  unsigned votes = 0;
  for_lanes(m.lanes, [&](int lane) { votes |= (m.value[lane] ? 1u : 0u) << lane; });
  for_lanes(m.lanes, [&](int lane) { m.result[lane] = votes; });
}

inline void match(Meeting& m) {
  for_lanes(m.lanes, [&](int lane) {
    m.result[lane] = 0;
    for_lanes(m.lanes, [&](int other) { m.result[lane] |= (m.value[lane] == m.value[other] ? 1ull : 0ull) << other; });
  });
}

inline void meet(Meeting&) {}

template <class T, class F> void reduce(Meeting& m, F f) {
  T total = from_bits<T>(m.value[__builtin_ctz(m.lanes)]);
  for_lanes(m.lanes & (m.lanes - 1), [&](int lane) { total = f(total, from_bits<T>(m.value[lane])); });
  for_lanes(m.lanes, [&](int lane) { m.result[lane] = to_bits(total); });
}

template <class T> T shuffle_from(unsigned mask, T value, int source, const char* file, int line) {
  return from_bits<T>(cuda_emulator_meet(mask, to_bits(value), source & 31, shuffle, file, line));
}

inline int lane() { return static_cast<int>(cuda_emulator_thread->lane); }
inline int first_lane(int width) { return lane() & ~(width - 1); }

}  // namespace cuda_emulator

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_EMULATOR_PLACE) {
  cuda_emulator_meet(mask, 0, 0, cuda_emulator::meet, file, line);
}

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, CUDA_EMULATOR_PLACE) {
  return cuda_emulator::shuffle_from(mask, value, cuda_emulator::first_lane(width) | (source & (width - 1)), file, line);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_PLACE) {
  int lane = cuda_emulator::lane(), source = lane + static_cast<int>(delta);
  return cuda_emulator::shuffle_from(mask, value, source < cuda_emulator::first_lane(width) + width ? source : lane, file, line);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_PLACE) {
  int lane = cuda_emulator::lane(), source = lane - static_cast<int>(delta);
  return cuda_emulator::shuffle_from(mask, value, source >= cuda_emulator::first_lane(width) ? source : lane, file, line);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUDA_EMULATOR_PLACE) {
  int lane = cuda_emulator::lane(), source = lane ^ lanes;
  return cuda_emulator::shuffle_from(mask, value, source < cuda_emulator::first_lane(width) + width ? source : lane, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_EMULATOR_PLACE) {
  return cuda_emulator_meet(mask, predicate != 0, 0, cuda_emulator::ballot, file, line);
}
inline int __any_sync(unsigned mask, int predicate, CUDA_EMULATOR_PLACE) { return __ballot_sync(mask, predicate, file, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, CUDA_EMULATOR_PLACE) { return __ballot_sync(mask, !predicate, file, line) == 0; }

template <class T> unsigned __match_any_sync(unsigned mask, T value, CUDA_EMULATOR_PLACE) {
  return cuda_emulator_meet(mask, cuda_emulator::to_bits(value), 0, cuda_emulator::match, file, line);
}

// No lane can count on another's being at the same instruction, so a lane sees itself alone.
inline unsigned __activemask() { return 1u << cuda_emulator_thread->lane; }

#define CUDA_EMULATOR_REDUCE(NAME, T, EXPRESSION)                                                                          \
  inline T NAME(unsigned mask, T value, CUDA_EMULATOR_PLACE) {                                                             \
    auto resolve = [](cuda_emulator::Meeting& m) { cuda_emulator::reduce<T>(m, [](T a, T b) -> T { return EXPRESSION; }); }; \
    return cuda_emulator::from_bits<T>(                                                                                    \
        cuda_emulator_meet(mask, cuda_emulator::to_bits(value), 0, resolve, file, line));                                  \
  }
CUDA_EMULATOR_REDUCE(__reduce_add_sync, int, a + b)
CUDA_EMULATOR_REDUCE(__reduce_add_sync, unsigned, a + b)
CUDA_EMULATOR_REDUCE(__reduce_min_sync, int, a < b ? a : b)
CUDA_EMULATOR_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
CUDA_EMULATOR_REDUCE(__reduce_max_sync, int, a > b ? a : b)
CUDA_EMULATOR_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
CUDA_EMULATOR_REDUCE(__reduce_and_sync, unsigned, a& b)
CUDA_EMULATOR_REDUCE(__reduce_or_sync, unsigned, a | b)
CUDA_EMULATOR_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef CUDA_EMULATOR_REDUCE
