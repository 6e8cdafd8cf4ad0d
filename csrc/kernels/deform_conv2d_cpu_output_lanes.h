#pragma once
// The usual panel: a row for each pixel, times weights whose vectors run over the outputs.

#include "kernels/deform_conv2d_cpu_panels.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t>
class OutputLanes {
 public:
  using Scratch = ForwardScratch<acc_t, index_t>;
  static constexpr int64_t kChunkColumns = kPanelColumns;

  explicit OutputLanes(const DeformConv2dParams& params) : p_(params), s_(params.shape) {
    most_channels_ = block_channels<acc_t>(s_, kPanelColumns);
  }

  ChannelBlock block_at(int64_t first) const {
    return channel_block_at<acc_t>(s_, most_channels_, first);
  }
  int64_t packed_size(const ChannelBlock& b) const {
    return packed_outputs() * s_.taps() * b.padded;
  }
  int64_t panel_size() const { return kForwardTile * panel_row(); }
  int64_t rows_size() const { return 0; }
  int64_t sum_size() const { return kForwardTile * sum_row(); }

  // chunk[panel of outputs][block][tap][channel][2 vectors of outputs]
  void pack_weights(const ChannelBlock& block, const BlockPlace& place, acc_t* weights) const {
    const int64_t elements = block.count * s_.taps(), columns = s_.taps() * block.padded;
    const int64_t channel = block.first - block.group * s_.group_in();
    for (int64_t o = 0; o < packed_outputs(); o += kLanes) {
      acc_t* to = weights + place.chunk + o / kPanelLanes * place.chunk_columns * kPanelLanes +
                  place.column * kPanelLanes + o % kPanelLanes;
      if (block.count < block.padded) {
        for (int64_t k = 0; k < columns; ++k) store_vec(to + k * kPanelLanes, V{});
      }
      const int64_t output = block.group * s_.group_out() + o;
      for (int64_t at = 0; at < elements; at += kStrip) {
        const int64_t count = std::min(kStrip, elements - at);
        acc_t rows[kLanes][kStrip] = {};
        load_rows(rows[0], p_.weight, (output * s_.group_in() + channel) * s_.taps() + at, count,
                  std::min(kLanes, s_.group_out() - o), {kStrip, s_.group_in() * s_.taps()});
        store_columns(rows, block, at, count, to);
      }
    }
  }

  // Gathers the block's columns and, once the chunk is complete, multiplies: returns whether it
  // did.
  bool add_block(const Scratch& scratch, const ChannelBlock& block, const BlockPlace& place,
                 const acc_t* pixels, const acc_t* weights, int64_t /*group*/, bool fresh) const {
    const bool whole = place.chunk_columns <= kPanelColumns;
    const int64_t step = whole ? s_.taps() : std::max<int64_t>(1, kPanelColumns / block.padded);
    for (int64_t t = 0; t < s_.taps(); t += step) {
      const int64_t count = std::min(step, s_.taps() - t);
      with_lanes<acc_t>(block.lanes, [&](auto lanes) {
        gather<decltype(lanes)::value>(scratch, block.padded, pixels, t, count,
                                       scratch.panel + place.column);
      });
      if (!place.ends_chunk) return false;
      const int64_t skipped = whole ? 0 : t * block.padded;
      const int64_t depth = whole ? place.chunk_columns : count * block.padded;
      const GemmA<acc_t> a{scratch.panel, panel_row(), 1};
      const GemmB<acc_t> b{weights + place.chunk + skipped * kPanelLanes,
                           place.chunk_columns * kPanelLanes, kPanelLanes};
      gemm(a, b, round_up(scratch.tile->count, kGemmRows), sum_row(), depth, scratch.sum, sum_row(),
           /*add=*/!fresh || t > 0);
    }
    return true;
  }

  // Rounds the sums once and writes them, a vector of outputs at a time.
  void store_group(const Scratch& scratch, int64_t n, int64_t group) const {
    using D = Vec<double, kLanes>;
    acc_t rows[kLanes][kForwardTile];
    for (int64_t o = 0; o < s_.group_out(); o += kLanes) {
      const int64_t valid = std::min<int64_t>(kLanes, s_.group_out() - o);
      const int64_t channel = group * s_.group_out() + o;
      double bias[kLanes] = {};
      if (p_.bias.data != nullptr) load_row(bias, p_.bias, channel, valid);
      for (int64_t i = 0; i < scratch.tile->count; i += kLanes) {
        V v[kLanes];
        for (int64_t j = 0; j < kLanes; ++j) {
          const D sum = load_vec<D>(scratch.sum + (i + j) * sum_row() + o) + load_vec<D>(bias);
          v[j] = __builtin_convertvector(sum, V);
        }
        transpose<acc_t, kLanes>(v);
        for (int64_t j = 0; j < kLanes; ++j) store_vec(rows[j] + i, v[j]);
      }
      store_tile_rows(p_.out, *scratch.tile, n, s_.o, channel, rows, valid, s_.out_pixels());
    }
  }

 private:
  static constexpr int64_t kLanes = kFullLanes<acc_t>;
  static constexpr int64_t kPanelLanes = 2 * kLanes;  // outputs of one panel of packed weights
  static constexpr int64_t kNear = 32;                // pixels that are gathered together
  using V = Vec<acc_t, kLanes>;

  static_assert(kForwardTile % kGemmRows == 0, "products take whole blocks of rows");

  // One vector more than the columns: rows a power of two apart would share cache sets.
  static int64_t panel_row() { return kPanelColumns + kLanes; }
  int64_t sum_row() const { return round_up(s_.group_out(), kLanes); }
  int64_t packed_outputs() const { return round_up(s_.group_out(), kPanelLanes); }

  // Elements [at, at + count) of a vector of outputs: from [channel][tap] to [tap][channel].
  void store_columns(const acc_t (*rows)[kStrip], const ChannelBlock& block, int64_t at,
                     int64_t count, acc_t* to) const {
    int64_t c = at / s_.taps(), t = at % s_.taps();
    for (int64_t i = 0; i < count; i += kLanes) {
      V v[kLanes];
      for (int64_t j = 0; j < kLanes; ++j) v[j] = load_vec<V>(rows[j] + i);
      transpose<acc_t, kLanes>(v);
      for (int64_t j = 0; j < std::min(kLanes, count - i); ++j) {
        store_vec(to + (t * block.padded + c) * kPanelLanes, v[j]);
        if (++t == s_.taps()) t = 0, ++c;
      }
    }
  }

  // panel[pixel][tap][channel] for taps [first, first + taps) of the plan
  template <int kWidth>
  void gather(const Scratch& scratch, int64_t padded, const acc_t* pixels, int64_t first,
              int64_t taps, acc_t* panel) const {
    const int64_t width = known_width<kWidth, acc_t>(padded);
    for (int64_t start = 0; start < scratch.tile->count; start += kNear) {
      const int64_t end = std::min(start + kNear, scratch.tile->count);
      for (int64_t t = 0; t < taps; ++t) {
        acc_t* to = panel + start * panel_row() + t * width;
        for (int64_t i = start; i < end; ++i, to += panel_row()) {
          sample_pixel<kWidth>(scratch.plan[first + t], i, pixels, width, to);
        }
      }
    }
  }

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  int64_t most_channels_;
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
