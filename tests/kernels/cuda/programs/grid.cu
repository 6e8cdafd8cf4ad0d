// The launch helper's own arithmetic, which runs on the host.

#include "kernels/common/launch.cuh"

// out[i] = the blocks for work[i] threads, uncapped and capped at 1000.
extern "C" int grid_sizes(const int64_t* work, int64_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = paddle_ops::cuda::grid_size(work[i]);
    out[count + i] = paddle_ops::cuda::grid_size(work[i], 64, 1000);
  }
  return cudaSuccess;
}
