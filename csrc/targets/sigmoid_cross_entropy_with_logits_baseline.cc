#include "kernels/sigmoid_cross_entropy_with_logits_cpu.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

const SigmoidCrossEntropyKernels sigmoid_cross_entropy_baseline = {
    baseline::sce::run<baseline::sce::Forward>,
    baseline::sce::run<baseline::sce::Backward>,
    baseline::sce::run<baseline::sce::DoubleBackward>,
};

}  // namespace paddle_ops
