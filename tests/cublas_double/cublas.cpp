// A test double of libcublas (README.md): products of matrices in device memory that the host can read, with every argument checked.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Data { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 14 };
enum Compute { IN_FLOAT = 68, IN_FLOAT_PEDANTIC = 69, IN_DOUBLE = 70, IN_DOUBLE_PEDANTIC = 71, IN_TF32 = 77 };

struct Handle {
  void* stream = nullptr;
  int math = 0;
};

std::mutex lock;
std::set<Handle*> handles;
std::string calls;
int next_status = SUCCESS;

struct Operand {
  void* at;
  int type, leading;
  long long stride;
};

bool known(void* handle) {
  std::lock_guard<std::mutex> guard(lock);
  return handles.count(static_cast<Handle*>(handle)) > 0;
}

// -- elements
size_t bytes(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 2; }

float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

double read(const void* base, int type, long long i) {
  switch (type) {
    case DOUBLE: return static_cast<const double*>(base)[i];
    case FLOAT: return static_cast<const float*>(base)[i];
    case HALF: return static_cast<const _Float16*>(base)[i];
    default: return from_bits(static_cast<uint32_t>(static_cast<const uint16_t*>(base)[i]) << 16);
  }
}

void write(void* base, int type, long long i, double value) {
  const float x = static_cast<float>(value);
  uint32_t bits;
  memcpy(&bits, &x, 4);
  switch (type) {
    case DOUBLE: static_cast<double*>(base)[i] = value; break;
    case FLOAT: static_cast<float*>(base)[i] = x; break;
    case HALF: static_cast<_Float16*>(base)[i] = static_cast<_Float16>(x); break;
    default: static_cast<uint16_t*>(base)[i] = static_cast<uint16_t>(x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

// -- what NVIDIA's library refuses
bool supported(int a, int b, int c, int compute) {
  if (a != b || b != c) return false;
  if (a == DOUBLE) return compute == IN_DOUBLE || compute == IN_DOUBLE_PEDANTIC;
  if (a == FLOAT) return compute == IN_FLOAT || compute == IN_FLOAT_PEDANTIC || compute == IN_TF32;
  return (a == HALF || a == BFLOAT16) && (compute == IN_FLOAT || compute == IN_FLOAT_PEDANTIC);
}

bool refused(const Operand& x, int rows, bool may_overlap, int count) {
  const bool is_misplaced = !x.at || reinterpret_cast<uintptr_t>(x.at) % bytes(x.type);
  return is_misplaced || x.leading < (rows > 1 ? rows : 1) || x.stride < 0 || (!may_overlap && count > 1 && x.stride == 0);
}

// The stream's work so far, through the driver that this process has.
bool wait(void* stream) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  auto synchronize = driver ? reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuStreamSynchronize")) : nullptr;
  return synchronize && synchronize(stream) == 0;
}

void note(const char* name, void* handle, int a, int b, int m, int n, int k, const Operand& x, const Operand& w, int count, int compute) {
  std::lock_guard<std::mutex> guard(lock);
  const Handle* h = static_cast<Handle*>(handle);
  std::ostringstream line;
  line << name << " handle=" << handle << " stream=" << h->stream << " math=" << h->math << " ops=" << "nt"[a] << "nt"[b] << " m=" << m << " n=" << n << " k=" << k
       << " lda=" << x.leading << " ldb=" << w.leading << " count=" << count << " type=" << x.type << " compute=" << compute << "\n";
  calls += line.str();
}

int multiply(const char* name, void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const Operand& a, const Operand& b,
             const void* beta, const Operand& c, int count, int compute) {
  if (!known(handle)) return NOT_INITIALIZED;
  if (ta < 0 || ta > 1 || tb < 0 || tb > 1 || m < 0 || n < 0 || k < 0 || count < 0 || !alpha || !beta) return INVALID_VALUE;
  if (refused(a, ta ? k : m, true, count) || refused(b, tb ? n : k, true, count) || refused(c, m, false, count)) return INVALID_VALUE;
  if (!supported(a.type, b.type, c.type, compute)) return NOT_SUPPORTED;
  note(name, handle, ta, tb, m, n, k, a, b, count, compute);
  if (next_status) {
    const int status = next_status;
    next_status = SUCCESS;
    return status;
  }
  if (!wait(static_cast<Handle*>(handle)->stream)) return EXECUTION_FAILED;
  const bool is_double = c.type == DOUBLE;
  const double one = is_double ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double zero = is_double ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  for (int s = 0; s < count; ++s)
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        double sum = 0;
        for (long long t = 0; t < k; ++t)
          sum += read(a.at, a.type, s * a.stride + (ta ? i * static_cast<long long>(a.leading) + t : t * a.leading + i)) *
                 read(b.at, b.type, s * b.stride + (tb ? t * b.leading + j : j * static_cast<long long>(b.leading) + t));
        const long long at = s * c.stride + j * static_cast<long long>(c.leading) + i;
        write(c.at, c.type, at, one * sum + (zero == 0 ? 0 : zero * read(c.at, c.type, at)));
      }
  return SUCCESS;
}

}  // namespace

// -- for tests
API const char* cublas_double_calls() { return calls.c_str(); }
API void cublas_double_forget() { calls.clear(); }
API void cublas_double_fail(int status) { next_status = status; }
API int cublas_double_handles() { return static_cast<int>(handles.size()); }

// -- cuBLAS's own
API int cublasGetProperty(int which, int* value) {
  if (!value || which < 0 || which > 2) return INVALID_VALUE;
  *value = which == 0 ? 13 : which == 1 ? 1 : 0;
  return SUCCESS;
}

API int cublasCreate_v2(void** handle) {
  std::lock_guard<std::mutex> guard(lock);
  *handle = *handles.insert(new Handle).first;
  return SUCCESS;
}

API int cublasDestroy_v2(void* handle) {
  if (!known(handle)) return NOT_INITIALIZED;
  std::lock_guard<std::mutex> guard(lock);
  handles.erase(static_cast<Handle*>(handle));
  delete static_cast<Handle*>(handle);
  return SUCCESS;
}

API int cublasSetStream_v2(void* handle, void* stream) {
  if (!known(handle)) return NOT_INITIALIZED;
  static_cast<Handle*>(handle)->stream = stream;
  return SUCCESS;
}

API int cublasSetMathMode(void* handle, int mode) {
  if (!known(handle)) return NOT_INITIALIZED;
  if ((mode & ~16) < 0 || (mode & ~16) > 3) return INVALID_VALUE;
  static_cast<Handle*>(handle)->math = mode;
  return SUCCESS;
}

API int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, void* a, int a_type, int lda, void* b, int b_type,
                     int ldb, const void* beta, void* c, int c_type, int ldc, int compute, int) {
  return multiply("gemm", handle, ta, tb, m, n, k, alpha, {a, a_type, lda, 0}, {b, b_type, ldb, 0}, beta, {c, c_type, ldc, 0}, 1, compute);
}

API int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, void* a, int a_type, int lda,
                                   long long a_stride, void* b, int b_type, int ldb, long long b_stride, const void* beta, void* c,
                                   int c_type, int ldc, long long c_stride, int count, int compute, int) {
  return multiply("batched", handle, ta, tb, m, n, k, alpha, {a, a_type, lda, a_stride}, {b, b_type, ldb, b_stride}, beta,
                  {c, c_type, ldc, c_stride}, count, compute);
}
