#pragma once
// The panel for few outputs, which would leave most lanes of a vector empty: its vectors run over
// the pixels, a row for each channel and tap, and the weights are the scalars of the product. A
// block may take in several groups: what they sample lies side by side.

#include "kernels/deform_conv2d_cpu_panels.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t>
class PixelLanes {
 public:
  using Scratch = ForwardScratch<acc_t, index_t>;
  static constexpr int64_t kChunkColumns = 0;  // every block is multiplied by itself

  // Half a vector of outputs or less.
  static bool suits(const DeformConv2dShape& s) { return 2 * s.group_out() <= kLanes; }

  explicit PixelLanes(const DeformConv2dParams& params) : p_(params), s_(params.shape) {}

  ChannelBlock block_at(int64_t first) const {
    const int64_t most = most_channels();
    ChannelBlock block = channel_block_at<acc_t>(s_, most, first);
    if (block.count < s_.group_in()) return block;
    const int64_t per_deformable = s_.c / s_.deformable_groups;
    const int64_t end = std::min((block.deformable_group + 1) * per_deformable, first + most);
    block.groups = (end - first) / s_.group_in();
    block.count = block.groups * s_.group_in();
    block.lanes = lanes_for<acc_t>(block.count);
    block.padded = round_up(block.count, block.lanes);
    return block;
  }
  int64_t packed_size(const ChannelBlock& b) const { return b.groups * rows() * depth(b); }
  int64_t panel_size() const { return most_channels() * s_.taps() * kForwardTile; }
  int64_t rows_size() const { return kLanes * round_up(most_channels(), kLanes); }
  int64_t sum_size() const { return rows() * kForwardTile; }

  // chunk[group][output][channel][tap]
  void pack_weights(const ChannelBlock& block, const BlockPlace& place, acc_t* weights) const {
    const int64_t channel = block.first - block.group * s_.group_in();
    std::fill_n(weights + place.chunk, packed_size(block), acc_t(0));
    for (int64_t g = 0; g < block.groups; ++g) {
      const int64_t output = (block.group + g) * s_.group_out();
      load_rows(weights + place.chunk + g * rows() * depth(block), p_.weight,
                (output * s_.group_in() + channel) * s_.taps(), depth(block), s_.group_out(),
                {depth(block), s_.group_in() * s_.taps()});
    }
  }

  // Gathers the columns of all the block's groups with the first, and multiplies those of `group`.
  bool add_block(const Scratch& scratch, const ChannelBlock& block, const BlockPlace& place,
                 const acc_t* pixels, const acc_t* weights, int64_t group, bool fresh) const {
    if (group == 0) {
      with_lanes<acc_t>(
          block.lanes, [&](auto lanes) { gather<decltype(lanes)::value>(scratch, block, pixels); });
    }
    const int64_t whole = depth(block);
    weights += place.chunk + group * rows() * whole;
    const acc_t* columns = scratch.panel + group * whole * kForwardTile;
    for (int64_t k = 0; k < whole; k += kPanelColumns) {
      const GemmA<acc_t> a{weights + k, whole, 1};
      const GemmB<acc_t> b{columns + k * kForwardTile, 2 * kLanes, kForwardTile};
      multiply(a, b, round_up(scratch.tile->count, kLanes), std::min(kPanelColumns, whole - k),
               scratch.sum, /*add=*/!fresh || k > 0);
    }
    return true;
  }

  // Rounds the sums once and writes them.
  void store_group(const Scratch& scratch, int64_t n, int64_t group) const {
    acc_t rows[kLanes / 2][kForwardTile];
    for (int64_t o = 0; o < s_.group_out(); ++o) {
      double bias = 0;
      if (p_.bias.data != nullptr) load_row(&bias, p_.bias, group * s_.group_out() + o, 1);
      const double* sum = scratch.sum + o * kForwardTile;
      for (int64_t i = 0; i < kForwardTile; ++i) rows[o][i] = static_cast<acc_t>(sum[i] + bias);
    }
    store_tile_rows(p_.out, *scratch.tile, n, s_.o, group * s_.group_out(), rows, s_.group_out(),
                    s_.out_pixels());
  }

 private:
  static constexpr int64_t kLanes = kFullLanes<acc_t>;
  using V = Vec<acc_t, kLanes>;

  static_assert(kForwardTile % kLanes == 0, "products take whole vectors of pixels");

  int64_t most_channels() const { return std::max<int64_t>(1, kPanelColumns / s_.taps()); }
  int64_t depth(const ChannelBlock& b) const { return b.count / b.groups * s_.taps(); }
  int64_t rows() const { return s_.group_out() <= 4 ? 4 : s_.group_out() <= 6 ? 6 : 8; }

  void multiply(GemmA<acc_t> a, GemmB<acc_t> b, int64_t pixels, int64_t depth, double* sum,
                bool add) const {
    switch (rows()) {
      case 4:
        return gemm<4>(a, b, 4, pixels, depth, sum, kForwardTile, add);
      case 6:
        return gemm<6>(a, b, 6, pixels, depth, sum, kForwardTile, add);
      default:
        return gemm<8>(a, b, 8, pixels, depth, sum, kForwardTile, add);
    }
  }

  // panel[channel][tap][pixel]
  template <int kWidth>
  void gather(const Scratch& scratch, const ChannelBlock& block, const acc_t* pixels) const {
    const int64_t width = known_width<kWidth, acc_t>(block.padded);
    // From one vector of the block of rows to the next: a row each, or several rows a vector.
    const int64_t step = kWidth == kLanes ? width : kLanes;
    for (int64_t i = 0; i < scratch.tile->count; i += kLanes) {
      for (int64_t t = 0; t < s_.taps(); ++t) {
        for (int64_t j = 0; j < kLanes; ++j) {
          sample_pixel<kWidth>(scratch.plan[t], i + j, pixels, width, scratch.rows + j * width);
        }
        for (int64_t c = 0; c < block.count; c += kWidth) {
          V v[kWidth];
          for (int64_t k = 0; k < kWidth; ++k) v[k] = load_vec<V>(scratch.rows + c + k * step);
          transpose<acc_t, kLanes, kWidth>(v);
          for (int64_t k = 0; k < std::min<int64_t>(kWidth, block.count - c); ++k) {
            store_vec(scratch.panel + ((c + k) * s_.taps() + t) * kForwardTile + i, v[k]);
          }
        }
      }
    }
  }

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
