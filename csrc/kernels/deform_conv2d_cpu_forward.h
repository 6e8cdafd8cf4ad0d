#pragma once
// Forward loops. Per batch of images: x goes to channels-last scratch once; then each thread takes
// tiles of output pixels, gathers a panel of sampled columns a block of channels at a time (a
// sample is four contiguous vector loads) and multiplies it with the packed weights.
//
// Sums over one panel are formed in registers in acc_t; panels are added up in double.

#include "kernels/common/gemm.h"
#include "kernels/common/parallel_for.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t>
class DeformConv2dForward {
 public:
  DeformConv2dForward(const DeformConv2dParams& params, Arena* arena)
      : p_(params), s_(params.shape), threads_(params.num_threads) {
    most_channels_ = block_channels<acc_t>(s_, kPanelColumns);
    choose_batch();
    blocks_ = arena->take<ChannelBlock>(block_count_);
    packed_at_ = arena->take<int64_t>(block_count_);
    pixels_at_ = arena->take<int64_t>(block_count_);
    weights_ = arena->take<acc_t>(pass_weights_);
    pixels_ = arena->take<acc_t>(pass_pixels_);
    if (passes_ > 1) carry_ = arena->take<double>(batch_ * s_.out_pixels() * sum_row());
    scratch_ = arena->take<Scratch>(threads_);
    for (int i = 0; i < threads_; ++i) {
      const Scratch scratch{arena->take<Plan>(s_.taps() * kMaxTile),
                            arena->take<acc_t>(kTile * panel_row()),
                            arena->take<double>(kTile * sum_row()), arena->take<Tile>(1)};
      if (arena->base != nullptr) scratch_[i] = scratch;
    }
  }

  void run() {
    if (s_.n == 0 || s_.o == 0 || s_.out_pixels() == 0) return;
    if (s_.c == 0) return store_bias_only();
    ChannelBlock* next = blocks_;
    for_each_channel_block<acc_t>(s_, most_channels_, [&](const ChannelBlock& b) { *next++ = b; });
    for (int64_t n = 0; n < s_.n; n += batch_) {
      const int64_t images = std::min(batch_, s_.n - n);
      for (int64_t first = 0; first < block_count_;) first = run_pass(n, images, first);
    }
  }

 private:
  using Plan = Sample<acc_t, index_t>;
  using Tile = PixelTile<acc_t, index_t>;
  static constexpr int64_t kTile = 48;           // pixels: rows of one panel
  static constexpr int64_t kPanelColumns = 512;  // summed in registers before double takes over
  static constexpr int64_t kPassBytes = INT64_C(512)
                                        << 20;              // weights and channels-last x at a time
  static constexpr int64_t kBatchBytes = INT64_C(4) << 20;  // small images are taken together
  static constexpr int64_t kPanelLanes = 2 * kFullLanes<acc_t>;

  struct Scratch {
    Plan* plan;
    acc_t* panel;
    double* sum;
    Tile* tile;
  };

  int64_t panel_row() const {
    return std::max(round_up(kPanelColumns, kFullLanes<acc_t>), most_channels_);
  }
  int64_t sum_row() const { return round_up(s_.group_out(), kFullLanes<acc_t>); }
  int64_t packed_size(const ChannelBlock& b) const {
    return ceil_div(s_.group_out(), kPanelLanes) * s_.taps() * b.padded * kPanelLanes;
  }
  int64_t pixels_size(const ChannelBlock& b, int64_t images) const {
    return (images * s_.image_pixels() + 1) * b.padded;
  }

  // How many images share scratch, and how much of the weights and of x a pass takes.
  void choose_batch() {
    ChannelBlock widest{0, most_channels_, most_channels_, 0, 0, 0};
    const int64_t wide = static_cast<int64_t>(sizeof(acc_t));
    int64_t padded = 0, packed = 0;
    block_count_ = 0;
    for_each_channel_block<acc_t>(s_, most_channels_, [&](const ChannelBlock& b) {
      ++block_count_;
      padded += b.padded;
      packed += packed_size(b);
    });
    const int64_t image_bytes = std::max<int64_t>(1, s_.image_pixels() * padded * wide);
    batch_ = std::max<int64_t>(1, std::min(s_.n, kBatchBytes / image_bytes));
    pass_weights_ = packed;
    pass_pixels_ = padded * (batch_ * s_.image_pixels() + 1);
    const int64_t block_bytes = (packed_size(widest) + pixels_size(widest, batch_)) * wide;
    blocks_per_pass_ = std::max<int64_t>(1, block_count_);
    if ((pass_weights_ + pass_pixels_) * wide > kPassBytes) {
      blocks_per_pass_ = std::max<int64_t>(1, kPassBytes / block_bytes);
      pass_weights_ = std::min(packed, blocks_per_pass_ * packed_size(widest));
      pass_pixels_ = std::min(pass_pixels_, blocks_per_pass_ * pixels_size(widest, batch_));
    }
    passes_ = ceil_div(block_count_, blocks_per_pass_);
  }

  int64_t run_pass(int64_t n, int64_t images, int64_t first) {
    const int64_t last = std::min(block_count_, first + blocks_per_pass_);
    int64_t packed = 0, pixels = 0;
    for (int64_t b = first; b < last; ++b) {
      packed_at_[b] = packed;
      pixels_at_[b] = pixels;
      packed += packed_size(blocks_[b]);
      pixels += pixels_size(blocks_[b], images);
    }
    if (n == 0 || passes_ > 1) {  // weights of a single pass stay packed for all images
      parallel_for(last - first, threads_,
                   [&](int64_t i, int) { pack_weights(blocks_[first + i]); });
    }
    parallel_for((last - first) * images, threads_, [&](int64_t i, int) {
      const int64_t b = first + i / images, image = i % images;
      acc_t* block = pixels_ + pixels_at_[b];
      const int64_t padded = blocks_[b].padded;
      to_channels_last(s_, p_.x, n + image, blocks_[b], block + image * s_.image_pixels() * padded);
      if (image == 0) std::fill_n(block + images * s_.image_pixels() * padded, padded, acc_t(0));
    });
    const int64_t out_pixels = images * s_.out_pixels();
    parallel_for(ceil_div(out_pixels, kTile), threads_, [&](int64_t i, int thread) {
      const int64_t start = i * kTile;
      run_tile(scratch_[thread], n, images, first, last, start,
               std::min(kTile, out_pixels - start));
    });
    return last;
  }

  // [panel of outputs][tap][channel][2 vectors of outputs]
  void pack_weights(const ChannelBlock& block) {
    const int64_t taps = s_.taps(), outputs = s_.group_out(), group_in = s_.group_in();
    acc_t* packed = weights_ + packed_at_[&block - blocks_];
    std::fill_n(packed, packed_size(block), acc_t(0));
    const int64_t channel = block.first - block.group * group_in;
    acc_t row[kWeightRow];
    for (int64_t o = 0; o < outputs; ++o) {
      acc_t* to = packed + o / kPanelLanes * taps * block.padded * kPanelLanes + o % kPanelLanes;
      const int64_t from = ((block.group * outputs + o) * group_in + channel) * taps;
      const int64_t elements = block.count * taps;
      for (int64_t at = 0; at < elements; at += kWeightRow) {
        const int64_t count = std::min(kWeightRow, elements - at);
        load_row(row, p_.weight, from + at, count);
        int64_t c = at / taps, t = at % taps;
        for (int64_t i = 0; i < count; ++i) {
          to[(t * block.padded + c) * kPanelLanes] = row[i];
          if (++t == taps) t = 0, ++c;
        }
      }
    }
  }

  void run_tile(const Scratch& scratch, int64_t n, int64_t images, int64_t first, int64_t last,
                int64_t start, int64_t count) {
    scratch.tile->set(s_, start, count);
    const index_t zero_pixel = static_cast<index_t>(images * s_.image_pixels());
    for (int64_t b = first; b < last; ++b) {
      const ChannelBlock& block = blocks_[b];
      const bool group_starts = block.first % s_.group_in() == 0;
      if (b == first || block.deformable_group != blocks_[b - 1].deformable_group) {
        make_plan(p_, *scratch.tile, n, block.deformable_group, false, zero_pixel, scratch.plan);
      }
      if (group_starts) {
        std::fill_n(scratch.sum, kTile * sum_row(), 0.0);
      } else if (b == first) {
        std::copy_n(carry_ + start * sum_row(), count * sum_row(), scratch.sum);
      }
      add_block(scratch, block, pixels_ + pixels_at_[b], weights_ + packed_at_[b]);
      if ((block.first + block.count) % s_.group_in() == 0) {
        store_group(scratch, n, block.group);
      } else if (b + 1 == last) {
        std::copy_n(scratch.sum, count * sum_row(), carry_ + start * sum_row());
      }
    }
  }

  // sum[pixel, output] += the block's share
  void add_block(const Scratch& scratch, const ChannelBlock& block, const acc_t* pixels,
                 const acc_t* packed) {
    const int64_t taps = s_.taps();
    const int64_t step = std::max<int64_t>(1, kPanelColumns / block.padded);
    const GemmB<acc_t> all{packed, taps * block.padded * kPanelLanes, kPanelLanes};
    for (int64_t t = 0; t < taps; t += step) {
      const int64_t count = std::min(step, taps - t);
      with_lanes<acc_t>(block.lanes, [&](auto lanes) {
        gather<decltype(lanes)::value>(scratch, block.padded, pixels, t, count);
      });
      const GemmA<acc_t> a{scratch.panel, panel_row(), 1};
      const GemmB<acc_t> b{all.data + t * block.padded * kPanelLanes, all.panel_stride, all.step};
      gemm(a, b, round_up(scratch.tile->count, kGemmRows), sum_row(), count * block.padded,
           scratch.sum, sum_row(), /*add=*/true);
    }
  }

  // panel[pixel][tap][channel] for taps [first, first + taps) of the plan
  template <int kLanes>
  void gather(const Scratch& scratch, int64_t width, const acc_t* pixels, int64_t first,
              int64_t taps) {
    using V = Vec<acc_t, kLanes>;
    for (int64_t t = 0; t < taps; ++t) {
      const Plan* plan = scratch.plan + (first + t) * kMaxTile;
      acc_t* to = scratch.panel + t * width;
      for (int64_t i = 0; i < scratch.tile->count; ++i, to += panel_row()) {
        const Plan& sample = plan[i];
        if (sample.reach != Reach::kFull) {
          std::fill_n(to, width, acc_t(0));
          continue;
        }
        const acc_t* v0 = pixels + sample.pixel[0] * width;
        const acc_t* v1 = pixels + sample.pixel[1] * width;
        const acc_t* v2 = pixels + sample.pixel[2] * width;
        const acc_t* v3 = pixels + sample.pixel[3] * width;
        for (int64_t c = 0; c < width; c += kLanes) {
          const V value =
              bilinear_value(sample.ly, sample.lx, load_vec<V>(v0 + c), load_vec<V>(v1 + c),
                             load_vec<V>(v2 + c), load_vec<V>(v3 + c));
          store_vec(to + c, value * sample.mask);
        }
      }
    }
  }

  void store_group(const Scratch& scratch, int64_t n, int64_t group) {
    double row[kTile];
    for (int64_t o = 0; o < s_.group_out(); ++o) {
      const int64_t channel = group * s_.group_out() + o;
      double bias = 0;
      if (p_.bias.data != nullptr) load_row(&bias, p_.bias, channel, 1);
      for (int64_t i = 0; i < scratch.tile->count; ++i) {
        row[i] = scratch.sum[i * sum_row() + o] + bias;
      }
      for (int64_t r = 0; r < scratch.tile->runs; ++r) {
        const auto& run = scratch.tile->run[r];
        store_row(p_.out, ((n + run.image) * s_.o + channel) * s_.out_pixels() + run.pixel,
                  row + run.at, run.count);
      }
    }
  }

  // Without input channels the sum is empty.
  void store_bias_only() {
    for (int64_t channel = 0; channel < s_.n * s_.o; ++channel) {
      double bias = 0;
      if (p_.bias.data != nullptr) load_row(&bias, p_.bias, channel % s_.o, 1);
      for (int64_t i = 0; i < s_.out_pixels(); ++i) {
        store_row(p_.out, channel * s_.out_pixels() + i, &bias, 1);
      }
    }
  }

  static constexpr int64_t kWeightRow = 512;
  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  int threads_;
  int64_t most_channels_, block_count_;
  int64_t batch_, passes_, blocks_per_pass_, pass_weights_, pass_pixels_;
  ChannelBlock* blocks_;
  int64_t *packed_at_, *pixels_at_;
  acc_t *weights_, *pixels_;
  double* carry_ = nullptr;
  Scratch* scratch_;  // one for each thread
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
