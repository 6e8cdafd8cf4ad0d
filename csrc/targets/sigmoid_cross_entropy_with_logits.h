#pragma once
// The loops of sigmoid_cross_entropy_with_logits as functions, one set per instruction set.

#include "kernels/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

struct SigmoidCrossEntropyKernels {
  void (*forward)(const SigmoidCrossEntropyParams&);
  void (*backward)(const SigmoidCrossEntropyParams&);
  void (*double_backward)(const SigmoidCrossEntropyParams&);
};

extern const SigmoidCrossEntropyKernels sigmoid_cross_entropy_baseline;
extern const SigmoidCrossEntropyKernels sigmoid_cross_entropy_avx2;
extern const SigmoidCrossEntropyKernels sigmoid_cross_entropy_avx512;

// The fastest set that this machine can run.
const SigmoidCrossEntropyKernels& sigmoid_cross_entropy_kernels();

}  // namespace paddle_ops
