#if defined(__x86_64__)
#define PO_TARGET_AVX512
#include "kernels/sigmoid_cross_entropy_with_logits_cpu.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

const SigmoidCrossEntropyKernels sigmoid_cross_entropy_avx512 = {
    avx512::sce::run<avx512::sce::Forward>,
    avx512::sce::run<avx512::sce::Backward>,
    avx512::sce::run<avx512::sce::DoubleBackward>,
};

}  // namespace paddle_ops
#endif
