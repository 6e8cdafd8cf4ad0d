#pragma once
// What the two layouts of a forward panel share. A panel holds the sampled columns of one tile of
// output pixels; its product with the packed weights is summed in registers, panels are added up in
// double.

#include "kernels/common/gemm.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

constexpr int64_t kForwardTile = 96;    // output pixels of one panel
constexpr int64_t kPanelColumns = 576;  // summed in registers before double takes over

// Where a block lies in scratch. Consecutive blocks of one group whose columns fit into one panel
// are multiplied together, as one chunk; a block with more columns is a chunk of its own.
struct BlockPlace {
  int64_t pixels;         // its channels-last pixels
  int64_t chunk;          // the chunk's packed weights
  int64_t chunk_columns;  // channels times taps of the whole chunk
  int64_t column;         // the block's first column in the chunk
  bool ends_chunk;
};

template <typename acc_t, typename index_t>
struct ForwardScratch {
  TapPlan<acc_t, index_t, kForwardTile>* plan;
  PixelTile<index_t, kForwardTile>* tile;
  acc_t* panel;
  acc_t* rows;  // a vector of pixels on their way into a panel of pixel lanes
  double* sum;
};

// to[channel] = the sample of the tile's pixel i, times its mask
template <int kWidth, typename acc_t, typename index_t>
PO_HOSTDEVICE void sample_pixel(const TapPlan<acc_t, index_t, kForwardTile>& plan, int64_t i,
                                const acc_t* pixels, int64_t width, acc_t* to) {
  using W = Vec<acc_t, kWidth>;
  const acc_t weight[4] = {plan.weight[0][i], plan.weight[1][i], plan.weight[2][i],
                           plan.weight[3][i]};
  const acc_t* v0 = pixels + plan.pixel[0][i] * width;
  const acc_t* v1 = pixels + plan.pixel[1][i] * width;
  const acc_t* v2 = pixels + plan.pixel[2][i] * width;
  const acc_t* v3 = pixels + plan.pixel[3][i] * width;
  for (int64_t c = 0; c < width; c += kWidth) {
    const W value = bilinear_value(weight, load_vec<W>(v0 + c), load_vec<W>(v1 + c),
                                   load_vec<W>(v2 + c), load_vec<W>(v3 + c));
    store_vec(to + c, value * plan.mask[i]);
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops
