// Copies and fills.  Copies to and from pageable host memory make the host wait; the rest take their turn in a stream.
#include <algorithm>
#include <cstring>
#include <string>

#include "memory.h"
#include "stream.h"

namespace {

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult finish_stream(CUstream stream, CUresult error) {
  if (!error) finish(last_of(stream));
  return error;
}

CUresult to_device(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  if (CUresult error = check_range(destination, bytes, "a copy to the device")) return error;
  counters.copies++;
  return enqueue(stream, [=] { memcpy(at(destination), source, bytes); });
}

CUresult to_host(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  if (CUresult error = check_range(source, bytes, "a copy from the device")) return error;
  counters.copies++;
  return enqueue(stream, [=] { memcpy(destination, at(source), bytes); });
}

CUresult on_device(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  if (CUresult error = check_range(source, bytes, "a copy on the device, its source,")) return error;
  if (CUresult error = check_range(destination, bytes, "a copy on the device")) return error;
  counters.copies++;
  return enqueue(stream, [=] { memmove(at(destination), at(source), bytes); });
}

template <class T> CUresult fill(CUdeviceptr start, size_t pitch, T value, size_t width, size_t height, CUstream stream) {
  return in_context([&] {
    if (!width || !height) return CUDA_SUCCESS;
    if (CUresult error = check_range(start, (height - 1) * pitch + width * sizeof(T), "a fill")) return error;
    counters.memsets++;
    return enqueue(stream, [=] {
      for (size_t row = 0; row < height; row++) std::fill_n(static_cast<T*>(at(start + row * pitch)), width, value);
    });
  });
}

}  // namespace

API CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  return in_context([&] {
    counters.wait_copy_to_device++;
    return finish_stream(nullptr, to_device(destination, source, bytes, nullptr));
  });
}

API CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  return in_context([&] {
    counters.wait_copy_to_host++;
    return finish_stream(nullptr, to_host(destination, source, bytes, nullptr));
  });
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return in_context([&] { return on_device(destination, source, bytes, nullptr); });
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return in_context([&] { return on_device(destination, source, bytes, stream); });
}

// Pageable memory is staged: the caller may change it at once, and the copy still takes its turn.
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  return in_context([&] {
    if (is_pinned(source)) return to_device(destination, source, bytes, stream);
    counters.wait_copy_to_device++;
    if (CUresult error = check_range(destination, bytes, "a copy to the device")) return error;
    counters.copies++;
    std::string staged(static_cast<const char*>(source), bytes);
    return enqueue(stream, [=] { memcpy(at(destination), staged.data(), bytes); });
  });
}

API CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return in_context([&] {
    CUresult error = to_host(destination, source, bytes, stream);
    if (is_pinned(destination)) return error;
    counters.wait_copy_to_host++;
    return finish_stream(stream, error);
  });
}

// ---- copies of boxes: whole ones, since they are rare, wait for everything

namespace {

struct Side {
  CUmemorytype type;
  char* start;
  size_t pitch, rows;  // rows of a slice, of a 3-d copy
};

CUresult check_side(const Side& side, size_t width, size_t height, size_t depth) {
  if (side.type == CU_MEMORYTYPE_ARRAY) return fail(CUDA_ERROR_NOT_SUPPORTED, "CUDA arrays are not emulated");
  if (side.type == CU_MEMORYTYPE_HOST || !width || !height || !depth) return CUDA_SUCCESS;
  size_t bytes = ((depth - 1) * side.rows + height - 1) * side.pitch + width;
  return check_range(reinterpret_cast<CUdeviceptr>(side.start), bytes, "a pitched copy");
}

CUresult copy_box(const Side& to, const Side& from, size_t width, size_t height, size_t depth) {
  return in_context([&] {
    if (CUresult error = check_side(to, width, height, depth)) return error;
    if (CUresult error = check_side(from, width, height, depth)) return error;
    if (to.type == CU_MEMORYTYPE_HOST) counters.wait_copy_to_host++;
    if (from.type == CU_MEMORYTYPE_HOST) counters.wait_copy_to_device++;
    counters.copies++;
    finish_all();
    for (size_t z = 0; z < depth; z++)
      for (size_t y = 0; y < height; y++)
        memmove(to.start + (z * to.rows + y) * to.pitch, from.start + (z * from.rows + y) * from.pitch, width);
    return CUDA_SUCCESS;
  });
}

// the two sides of a copy's description have the same fields, but for their prefix
#define START(SIDE) (c->SIDE##MemoryType == CU_MEMORYTYPE_HOST ? const_cast<char*>(static_cast<const char*>(c->SIDE##Host)) \
                                                               : static_cast<char*>(at(c->SIDE##Device)))
#define PITCH(SIDE) (c->SIDE##Pitch ? c->SIDE##Pitch : c->WidthInBytes)
#define SIDE_2D(SIDE) Side{c->SIDE##MemoryType, START(SIDE) + c->SIDE##Y * PITCH(SIDE) + c->SIDE##XInBytes, PITCH(SIDE), 0}
#define SIDE_3D(SIDE)                                                                                                     \
  Side{c->SIDE##MemoryType, START(SIDE) + (c->SIDE##Z * c->SIDE##Height + c->SIDE##Y) * PITCH(SIDE) + c->SIDE##XInBytes, \
       PITCH(SIDE), c->SIDE##Height}

}  // namespace

API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) { return copy_box(SIDE_2D(dst), SIDE_2D(src), c->WidthInBytes, c->Height, 1); }
API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* c) { return cuMemcpy2D_v2(c); }
API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream) { return cuMemcpy2D_v2(c); }
API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* c) {
  return copy_box(SIDE_3D(dst), SIDE_3D(src), c->WidthInBytes, c->Height, c->Depth);
}
API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream) { return cuMemcpy3D_v2(c); }

#define FILLS(BITS, T)                                                                                                         \
  API CUresult cuMemsetD##BITS##_v2(CUdeviceptr start, T value, size_t n) { return fill(start, 0, value, n, 1, nullptr); }     \
  API CUresult cuMemsetD##BITS##Async(CUdeviceptr start, T value, size_t n, CUstream s) { return fill(start, 0, value, n, 1, s); } \
  API CUresult cuMemsetD2D##BITS##_v2(CUdeviceptr start, size_t pitch, T value, size_t width, size_t height) {                 \
    return fill(start, pitch, value, width, height, nullptr);                                                                 \
  }                                                                                                                            \
  API CUresult cuMemsetD2D##BITS##Async(CUdeviceptr start, size_t pitch, T value, size_t width, size_t height, CUstream s) {   \
    return fill(start, pitch, value, width, height, s);                                                                       \
  }
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
