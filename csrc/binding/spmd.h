#pragma once
// How auto-parallel Paddle may split an operator over processes. Paddle 2.6 has no such rules:
// there the operators see whole tensors.

#include "binding/check.h"

#ifdef CUSTOM_OP_WITH_SPMD
#include <algorithm>

#include "paddle/phi/api/ext/spmd_infer.h"
#include "paddle/phi/core/distributed/auto_parallel/dist_attr.h"
#include "paddle/phi/infermeta/spmd_rules/utils.h"

namespace paddle_ops {

using SpmdInputs = std::vector<paddle::CustomSpmdInferTensorArg>;
using SpmdAttributes = std::vector<paddle::CustomSpmdInferAttrArg>;

// kSplit: split like all tensors of this role. kWhole: every process has all of it. kSum: every
// process has a part of a sum over what is split.
enum class SpmdRole { kSplit, kWhole, kSum };

// An output: its role, and the input that has as many dimensions.
struct SpmdOutput {
  size_t like;
  SpmdRole role;
};

inline const phi::distributed::DistMetaTensor& spmd_input(const SpmdInputs& inputs, size_t i) {
  return PADDLE_GET_CONST(phi::distributed::DistMetaTensor, inputs[i]);
}

// The rule for tensors that share the split of their first `shared` dimensions: the first one found
// among the inputs holds for all, one mesh dimension for one tensor dimension.
inline phi::distributed::SpmdInfo split_alike(const SpmdInputs& inputs,
                                              const std::vector<SpmdRole>& roles,
                                              const std::vector<SpmdOutput>& outputs,
                                              size_t shared) {
  std::vector<int64_t> split(shared, phi::distributed::kReplicateDim);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (roles[i] != SpmdRole::kSplit) continue;
    const std::vector<int64_t> mapping = spmd_input(inputs, i).dist_attr().dims_mapping();
    for (size_t d = 0; d < std::min(shared, mapping.size()); ++d) {
      const bool used = std::find(split.begin(), split.end(), mapping[d]) != split.end();
      if (split[d] < 0 && !used) split[d] = mapping[d];
    }
  }
  const auto describe = [&](size_t like, SpmdRole role) {
    const phi::distributed::TensorDistAttr& given = spmd_input(inputs, like).dist_attr();
    std::vector<int64_t> mapping(given.dims_mapping().size(), phi::distributed::kReplicateDim);
    phi::distributed::TensorDistAttr attr = CopyTensorDistAttrForOutput(given);
    if (role == SpmdRole::kSplit) {
      std::copy_n(split.begin(), std::min(shared, mapping.size()), mapping.begin());
    }
    attr.set_dims_mapping(mapping);
    if (role == SpmdRole::kSum) {
      std::vector<int64_t> summed;
      for (const int64_t mesh_dim : split) {
        if (mesh_dim >= 0) summed.push_back(mesh_dim);
      }
      attr.set_partial_status(summed);
    }
    return attr;
  };
  phi::distributed::SpmdInfo info;
  for (size_t i = 0; i < inputs.size(); ++i) info.first.emplace_back(describe(i, roles[i]));
  for (const SpmdOutput& out : outputs) info.second.emplace_back(describe(out.like, out.role));
  return info;
}

}  // namespace paddle_ops

#endif  // CUSTOM_OP_WITH_SPMD
