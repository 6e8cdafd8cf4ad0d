#include "targets/select.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

const SigmoidCrossEntropyKernels& sigmoid_cross_entropy_kernels() {
#if defined(__x86_64__)
  switch (select_target()) {
    case Target::kAvx512:
      return sigmoid_cross_entropy_avx512;
    case Target::kAvx2:
      return sigmoid_cross_entropy_avx2;
    case Target::kBaseline:
      break;
  }
#endif
  return sigmoid_cross_entropy_baseline;
}

}  // namespace paddle_ops
