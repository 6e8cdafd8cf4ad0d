#include "kernels/sigmoid_cross_entropy_with_logits_cuda.cuh"
#include "targets/sigmoid_cross_entropy_with_logits_cuda.h"

namespace paddle_ops {

const SigmoidCrossEntropyCudaKernels sigmoid_cross_entropy_cuda = {
    cuda::sce::workspace_bytes,
    cuda::sce::run<cuda::sce::Forward>,
    cuda::sce::run<cuda::sce::Backward>,
    cuda::sce::run<cuda::sce::DoubleBackward>,
};

}  // namespace paddle_ops
