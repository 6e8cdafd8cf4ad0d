#include "targets/deform_conv2d_cuda_table.cuh"

namespace paddle_ops {

const DeformConv2dCudaKernels deform_conv2d_cuda_float16 = cuda::deform_conv2d_kernels<Float16>();

}  // namespace paddle_ops
