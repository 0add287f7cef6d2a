// How the driver calls a kernel whose arguments lie packed in a buffer, as cuLaunchKernel gets them.
#pragma once
#include <utility>

#include "interface.h"

namespace cuda_emulator {

template <class Signature> struct Packed;

template <class... A> struct Packed<void(A...)> {
  struct Layout {
    Parameter parameters[sizeof...(A) + 1];
    unsigned bytes;
  };

  static constexpr Layout layout() {
    Layout l{};
    unsigned i = 0;
    ((l.bytes = (l.bytes + alignof(A) - 1) / alignof(A) * alignof(A), l.parameters[i++] = {l.bytes, sizeof(A)}, l.bytes += sizeof(A)), ...);
    return l;
  }
  static constexpr Layout placed = layout();

  template <size_t... I> static void call(const void* function, const char* arguments, std::index_sequence<I...>) {
    reinterpret_cast<void (*)(A...)>(const_cast<void*>(function))(
        *reinterpret_cast<const std::remove_const_t<A>*>(arguments + placed.parameters[I].offset)...);
  }
  static void call(const void* function, const char* arguments) { call(function, arguments, std::index_sequence_for<A...>{}); }
};

template <class... A> Kernel kernel(const char* name, void (*function)(A...), unsigned max_threads) {
  using P = Packed<void(A...)>;
  return {name, reinterpret_cast<const void*>(function), P::call, P::placed.parameters, sizeof...(A), P::placed.bytes, max_threads};
}

}  // namespace cuda_emulator
