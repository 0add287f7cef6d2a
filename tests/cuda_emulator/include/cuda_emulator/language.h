// CUDA's words that C++ lacks.  __global__, __shared__ and __launch_bounds__ stay as they are: nvcc rewrites them (see ../../nvcc).
#pragma once

#undef __global__
#undef __shared__
#undef __launch_bounds__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#undef __align__
#undef __builtin_align__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

#define threadIdx (cuda_emulator_thread->index)
#define blockIdx (cuda_emulator_thread->block->index)
#define blockDim (cuda_emulator_thread->block->shape)
#define gridDim (cuda_emulator_thread->block->grid)
#define warpSize 32

// the macro assert of <cassert> calls this
#define __assert_fail cuda_emulator_assert
