// CUDA's device language for g++: nvcc includes this, precompiled, before every source.
#pragma once
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <math.h>
#include <type_traits>
#include <utility>

#include <vector_functions.h>
#include <vector_types.h>

#include "cuda_emulator/language.h"

#include "cuda_emulator/interface.h"
#include "cuda_emulator/warp.h"
#include "cuda_emulator/integers.h"
#include "cuda_emulator/floats.h"
#include "cuda_emulator/half.h"
#include "cuda_emulator/atomics.h"
#include "cuda_emulator/kernel.h"
