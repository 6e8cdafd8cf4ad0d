#if defined(__x86_64__)
#define PO_TARGET_AVX2
#include "kernels/sigmoid_cross_entropy_with_logits_cpu.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

const SigmoidCrossEntropyKernels sigmoid_cross_entropy_avx2 = {
    avx2::sce::run<avx2::sce::Forward>,
    avx2::sce::run<avx2::sce::Backward>,
    avx2::sce::run<avx2::sce::DoubleBackward>,
};

}  // namespace paddle_ops
#endif
