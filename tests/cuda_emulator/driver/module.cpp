// See module.h.
#include "module.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "memory.h"
#include "settings.h"
#include "stream.h"

using cuda_emulator::Kernel;

// What compiled code calls for the address of a thread-local variable; no header declares it.
struct tls_index {
  unsigned long ti_module, ti_offset;
};
extern "C" void* __tls_get_addr(tls_index*);

namespace {

// An image starts with two lines, "CUDA emulator image" and "<bytes> sm_80,compute_80", and goes on with a shared object.
constexpr char magic[] = "CUDA emulator image\n";

std::set<Module*> modules;
std::map<std::pair<Module*, std::string>, Function> functions;

Module* module_of(CUmodule handle) { return reinterpret_cast<Module*>(handle); }
Function* function_of(CUfunction handle) { return reinterpret_cast<Function*>(handle); }

// Machine code runs on devices of its major version with no smaller a minor one; PTX on all later devices.
bool runs_here(const std::string& target) {
  int number = atoi(target.c_str() + target.find('_') + 1), major = number / 10, minor = number % 10;
  int device = settings().major * 10 + settings().minor;
  return target[0] == 's' ? major == settings().major && minor <= settings().minor : number <= device;
}

bool any_runs_here(const std::string& targets) {
  std::istringstream list(targets);
  for (std::string target; std::getline(list, target, ',');)
    if (runs_here(target)) return true;
  return false;
}

// The dynamic linker takes a file, and one it hasn't seen by that name.
std::string write_file(const char* bytes, size_t count) {
  const char* folder = getenv("TMPDIR");
  std::string path = std::string(folder ? folder : "/tmp") + "/cuda-emulator-XXXXXX";
  int file = mkstemp(path.data());
  bool written = file >= 0 && write(file, bytes, count) == static_cast<ssize_t>(count);
  if (file >= 0) close(file);
  return written ? path : "";
}

struct Search {
  const Module& module;
  tls_index start;
  size_t bytes;
};

int visit(dl_phdr_info* library, size_t, void* data) {
  auto search = static_cast<Search*>(data);
  if (search->module.path != library->dlpi_name) return 0;
  for (int i = 0; i < library->dlpi_phnum; i++)
    if (library->dlpi_phdr[i].p_type == PT_TLS) search->bytes = library->dlpi_phdr[i].p_memsz;
  search->start.ti_module = library->dlpi_tls_modid;
  return 1;
}

CUresult open_library(Module& module, const char* bytes, size_t count) {
  module.path = write_file(bytes, count);
  if (module.path.empty()) return fail(CUDA_ERROR_INVALID_IMAGE, "no room for the module in TMPDIR");
  module.library = dlopen(module.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(module.path.c_str());
  if (!module.library) return fail(CUDA_ERROR_INVALID_IMAGE, "%s", dlerror());
  module.static_shared_bytes = static_shared(module).bytes;
  return CUDA_SUCCESS;
}

CUresult load(CUmodule* handle, const char* image) {
  counters.module_loads++;
  if (fault_due("invalid_image")) return fail(CUDA_ERROR_INVALID_IMAGE, "an injected fault");
  if (strncmp(image, magic, strlen(magic)))
    return fail(CUDA_ERROR_INVALID_IMAGE, "the image was not made by the emulator's nvcc, which AUTOTAPE_NVCC names");
  size_t bytes;
  char targets[500];
  int length;
  if (sscanf(image + strlen(magic), "%zu %499s%n", &bytes, targets, &length) != 2)
    return fail(CUDA_ERROR_INVALID_IMAGE, "the image is damaged");
  if (!any_runs_here(targets))
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image is for %s, the device is sm_%d%d", targets, settings().major, settings().minor);
  auto module = new Module;
  modules.insert(module);
  *handle = reinterpret_cast<CUmodule>(module);
  return open_library(*module, image + strlen(magic) + length + 1, bytes);
}

const Kernel* find_kernel(const Module& module, const char* name) {
  void* address = dlsym(module.library, name);
  auto kernel = static_cast<const Kernel*>(dlsym(module.library, "cuda_emulator_kernels"));
  for (; address && kernel && kernel->name; kernel++)
    if (kernel->function == address) return kernel;
  return nullptr;
}

template <class F> CUresult with_module(CUmodule handle, F f) {
  return in_context([&] {
    if (!modules.count(module_of(handle))) return fail(CUDA_ERROR_INVALID_HANDLE, "no such module, or unloaded");
    return f(module_of(handle));
  });
}

}  // namespace

Span static_shared(const Module& module) {
  Search search{module, {0, 0}, 0};
  dl_iterate_phdr(visit, &search);
  return {search.bytes ? static_cast<char*>(__tls_get_addr(&search.start)) : nullptr, search.bytes};
}

API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return in_context([&] { return load(module, static_cast<const char*>(image)); });
}
API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

API CUresult cuModuleLoad(CUmodule* module, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(CUDA_ERROR_FILE_NOT_FOUND, "%s", path);
  std::string image{std::istreambuf_iterator<char>(file), {}};
  return cuModuleLoadData(module, image.c_str());
}

API CUresult cuModuleUnload(CUmodule handle) {
  return with_module(handle, [](Module* module) {
    finish_all();
    for (auto f = functions.begin(); f != functions.end();) f = f->first.first == module ? functions.erase(f) : std::next(f);
    modules.erase(module);
    if (module->library) dlclose(module->library);
    delete module;
    return CUDA_SUCCESS;
  });
}

API CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module_handle, const char* name) {
  return with_module(module_handle, [&](Module* module) {
    const Kernel* kernel = find_kernel(*module, name);
    if (!kernel) return fail(CUDA_ERROR_NOT_FOUND, "the module has no kernel %s; C++ names are mangled without extern \"C\"", name);
    auto entry = functions.insert({{module, name}, {kernel, module, default_shared_bytes}});
    *handle = reinterpret_cast<CUfunction>(&entry.first->second);
    return CUDA_SUCCESS;
  });
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr* start, size_t* bytes, CUmodule handle, const char* name) {
  return with_module(handle, [&](Module* module) {
    void* address = dlsym(module->library, name);
    if (!address) return fail(CUDA_ERROR_NOT_FOUND, "the module has no variable %s", name);
    Dl_info information;
    ElfW(Sym) * symbol;
    dladdr1(address, &information, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT);
    adopt(address, symbol->st_size, true);
    if (start) *start = reinterpret_cast<CUdeviceptr>(address);
    if (bytes) *bytes = symbol->st_size;
    return CUDA_SUCCESS;
  });
}

API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction handle) {
  const Function& f = *function_of(handle);
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = static_cast<int>(f.kernel->max_threads); break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = static_cast<int>(f.most_dynamic_shared); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(f.module->static_shared_bytes); break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = settings().major * 10 + settings().minor; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;  // the others are hints
  if (value < 0 || static_cast<unsigned>(value) > most_shared_bytes)
    return fail(CUDA_ERROR_INVALID_VALUE, "%d bytes of dynamic shared memory asked for; the device has %u", value, most_shared_bytes);
  function_of(handle)->most_dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
