// A stand-in for the CUDA runtime: as much of it as launchers call. Streams run at once, memory is
// host memory. Also the functions by which the Python driver controls the engine.

#include "runtime.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "kernels.h"
#include "memory.h"

// cuda_runtime.h has templates of these names for kernels
#undef cudaLaunchKernel
#undef cudaFuncSetAttribute

#define EMU_EXPORT extern "C" __attribute__((visibility("default")))

namespace emu {
namespace {

constexpr size_t kSharedByDefault = 48 << 10;

struct Call {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

Call pending;  // between __cudaPushCallConfiguration and __cudaPopCallConfiguration
cudaError_t last_error = cudaSuccess;
std::string last_fault;
size_t launches = 0;
size_t waits = 0;  // of the host for the device

std::map<const void*, std::string>& names() {  // of kernels and variables, by what the host calls
  static std::map<const void*, std::string> instance;
  return instance;
}
std::map<const void*, size_t>& shared_limits() {
  static std::map<const void*, size_t> instance;
  return instance;
}

cudaError_t launch_ptx(const void* function, const Call& call, void** arguments) {
  const auto name = names().find(function);
  const PtxKernel* kernel = name == names().end() ? nullptr : find_kernel(name->second);
  if (kernel == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  if (!shared_memory_allowed(function, call.shared_bytes, kernel->shared_bytes)) {
    return remember(cudaErrorInvalidValue);
  }
  if (size_t(call.block.x) * call.block.y * call.block.z > kernel->most_threads) {
    return remember(cudaErrorInvalidValue);
  }
  std::string parameters(kernel->parameter_bytes, '\0');
  for (size_t i = 0; i < kernel->offsets.size(); ++i) {
    std::memcpy(&parameters[kernel->offsets[i]], arguments[i], kernel->sizes[i]);
  }
  const std::function<void()> thread = [&] { kernel->thread(parameters.data()); };
  return run_and_report({readable(name->second), call.grid, call.block,
                         kernel->shared_bytes + call.shared_bytes, thread});
}

// The address of a __device__ or __constant__ variable, null if there is none of that size.
char* variable(const void* symbol, size_t offset, size_t bytes) {
  const PtxVariable* found = find_variable(names()[symbol]);
  if (found == nullptr || offset + bytes > found->bytes) return nullptr;
  return static_cast<char*>(found->address) + offset;
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

bool shared_memory_allowed(const void* kernel, size_t dynamic_bytes, size_t static_bytes) {
  const auto limit = shared_limits().find(kernel);
  if (limit != shared_limits().end()) return dynamic_bytes <= limit->second;
  return dynamic_bytes + static_bytes <= kSharedByDefault;
}

std::string take_fault() {
  std::string taken;
  taken.swap(last_fault);
  last_error = cudaSuccess;
  return taken;
}

cudaError_t run_and_report(const Launch& launch) {
  ++launches;
  try {
    run(launch);
  } catch (const Fault& fault) {
    if (last_fault.empty()) last_fault = fault.what();
    return remember(cudaErrorIllegalAddress);
  }
  return cudaSuccess;
}

}  // namespace emu

using emu::remember;

// -- what code compiled by nvcc calls -------------------------------------------------------------

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  emu::names()[host] = name;
}
void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t, int, int) {
  emu::names()[host] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  emu::pending = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = emu::pending.grid;
  *block = emu::pending.block;
  *shared = emu::pending.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = emu::pending.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return emu::launch_ptx(reinterpret_cast<const void*>(kernel), {grid, block, shared, stream},
                         arguments);
}

// -- the runtime ----------------------------------------------------------------------------------

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return emu::launch_ptx(function, {grid, block, shared, stream}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return emu::launch_ptx(
      function, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
      arguments);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > 227 << 10) return remember(cudaErrorInvalidValue);
  emu::shared_limits()[function] = size_t(value);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes > 0 ? bytes : 1);
  std::memset(*pointer, 0xff, bytes);
  emu::register_memory(*pointer, bytes, true, "cudaMalloc");
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (!emu::is_registered(pointer, 0)) return remember(cudaErrorInvalidValue);
  emu::unregister_memory(pointer);
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !emu::is_registered(to, bytes)) ||
      (from_device && !emu::is_registered(from, bytes))) {
    return remember(cudaErrorInvalidValue);
  }
  if (kind != cudaMemcpyDeviceToDevice) ++emu::waits;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
// From and to pageable memory this waits, too.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (!emu::is_registered(to, bytes)) return remember(cudaErrorInvalidValue);
  emu::fill(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind) {
  char* to = emu::variable(symbol, offset, bytes);
  if (to == nullptr) return remember(cudaErrorInvalidValue);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind) {
  const char* from = emu::variable(symbol, offset, bytes);
  if (from == nullptr) return remember(cudaErrorInvalidValue);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  ++emu::waits;
  return emu::last_error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }
cudaError_t cudaPeekAtLastError() { return emu::last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = emu::last_error;
  emu::last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered (emulated)";
    case cudaErrorInvalidValue:
      return "invalid argument (emulated)";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function (emulated)";
    default:
      return "error (emulated)";
  }
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// The machine that is imitated: an H200, with few multiprocessors so that capped grids are small.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    default:
      return remember(cudaErrorInvalidValue);
  }
}

}  // extern "C"

// -- the driver -----------------------------------------------------------------------------------

EMU_EXPORT void emu_configure(int order, uint64_t seed, const unsigned* grid, const unsigned* block,
                              int64_t first_block, int64_t last_block) {
  emu::settings() = {static_cast<emu::Order>(order), seed,        {grid[0], grid[1], grid[2]},
                     {block[0], block[1], block[2]}, first_block, last_block};
}
EMU_EXPORT void emu_register(const void* start, size_t bytes, int writable, const char* name) {
  emu::register_memory(start, bytes, writable != 0, name);
}
EMU_EXPORT void emu_unregister(const void* start) { emu::unregister_memory(start); }
EMU_EXPORT size_t emu_launches() { return emu::launches; }
EMU_EXPORT size_t emu_waits() { return emu::waits; }
EMU_EXPORT const char* emu_take_fault() {
  static std::string taken;
  taken = emu::take_fault();
  return taken.c_str();
}
