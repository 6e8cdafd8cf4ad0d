#pragma once
// What the bindings need to run kernels on a GPU; for builds that have them.

#include <cuda_runtime_api.h>

#include <algorithm>

#include "binding/check.h"
#if __has_include("paddle/common/flags.h")
#include "paddle/common/flags.h"
#else
#include "paddle/phi/core/flags.h"  // Paddle 2.6
#endif

namespace paddle_ops {

inline void check_cuda(const char* op, cudaError_t error) {
  if (error != cudaSuccess) PD_THROW(op, ": ", cudaGetErrorString(error));
}

// Makes a tensor's GPU the current one, which it need not be where a process has several.
class CurrentDevice {
 public:
  CurrentDevice(const char* op, const Tensor& tensor) {
    check_cuda(op, cudaGetDevice(&before_));
    check_cuda(op, cudaSetDevice(tensor.place().GetDeviceId()));
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

// run(params, scratch memory, stream) on the GPU of x, in the order of its stream. The memory goes
// back to Paddle's allocator, which keeps that order too.
template <typename Params, typename Run>
void run_on_gpu(const char* op, const Tensor& x, int64_t scratch_bytes, const Params& params,
                const Run& run) {
  const CurrentDevice device(op, x);
  Tensor scratch =
      paddle::empty({std::max<int64_t>(1, scratch_bytes)}, paddle::DataType::UINT8, x.place());
  check_cuda(op, run(params, scratch.data(), x.stream()));
}

// FLAGS_cudnn_deterministic, which Paddle defines in its GPU builds only.
inline bool wants_deterministic() {
  const auto& flags = phi::GetExportedFlagInfoMap();
  const auto flag = flags.find("cudnn_deterministic");
  return flag != flags.end() && *static_cast<const bool*>(flag->second.value_ptr);
}

}  // namespace paddle_ops
