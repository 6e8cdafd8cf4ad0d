#pragma once
// Forward loops. Per batch of images: x goes to channels-last scratch once; then each thread takes
// tiles of output pixels, gathers a panel of sampled columns a block of channels at a time (a
// sample is four contiguous vector loads) and multiplies it with the packed weights. Two layouts of
// a panel: OutputLanes, and PixelLanes where outputs are few.

#include "kernels/common/parallel_for.h"
#include "kernels/deform_conv2d_cpu_output_lanes.h"
#include "kernels/deform_conv2d_cpu_pixel_lanes.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t, template <typename, typename> class Layout>
class DeformConv2dForward {
 public:
  DeformConv2dForward(const DeformConv2dParams& params, Arena* arena)
      : p_(params), s_(params.shape), threads_(params.num_threads), panels_(params) {
    choose_batch();
    grid_ = choose_grid();
    blocks_ = arena->take<ChannelBlock>(block_count_);
    places_ = arena->take<BlockPlace>(block_count_);
    weights_ = arena->take<acc_t>(pass_weights_);
    pixels_ = arena->take<acc_t>(pass_pixels_);
    if (passes_ > 1) carry_ = arena->take<double>(grid_.tiles(batch_) * panels_.sum_size());
    scratch_ = arena->take<Scratch>(threads_);
    for (int i = 0; i < threads_; ++i) {
      const Scratch scratch{arena->take<Plan>(s_.taps()), arena->take<Tile>(1),
                            arena->take<acc_t>(panels_.panel_size()),
                            arena->take<acc_t>(panels_.rows_size()),
                            arena->take<double>(panels_.sum_size())};
      if (arena->base != nullptr) scratch_[i] = scratch;
    }
  }

  void run() {
    if (s_.n == 0 || s_.o == 0 || s_.out_pixels() == 0) return;
    if (s_.c == 0) return store_bias_only();
    ChannelBlock* next = blocks_;
    for_each_block([&](const ChannelBlock& b) { *next++ = b; });
    for (int64_t n = 0; n < s_.n; n += batch_) {
      const int64_t images = std::min(batch_, s_.n - n);
      for (int64_t first = 0; first < block_count_;) first = run_pass(n, images, first);
    }
  }

 private:
  static constexpr int64_t kPassBytes = INT64_C(512)
                                        << 20;              // weights and channels-last x at a time
  static constexpr int64_t kBatchBytes = INT64_C(8) << 20;  // small images are taken together
  using Scratch = ForwardScratch<acc_t, index_t>;
  using Plan = TapPlan<acc_t, index_t, kForwardTile>;
  using Tile = PixelTile<index_t, kForwardTile>;

  // All blocks in order.
  template <typename Body>
  void for_each_block(const Body& body) const {
    for (int64_t c = 0; c < s_.c;) {
      const ChannelBlock block = panels_.block_at(c);
      body(block);
      c += block.count;
    }
  }
  int64_t columns_of(const ChannelBlock& b) const { return s_.taps() * b.padded; }
  int64_t pixels_size(const ChannelBlock& b, int64_t images) const {
    return (images * s_.image_pixels() + 1) * b.padded;
  }

  // How many images share scratch, and how much of the weights and of x a pass takes.
  void choose_batch() {
    const int64_t wide = static_cast<int64_t>(sizeof(acc_t));
    int64_t padded = 0, packed = 0, most_packed = 0;
    block_count_ = most_padded_ = 0;
    for_each_block([&](const ChannelBlock& b) {
      ++block_count_;
      padded += b.padded;
      packed += panels_.packed_size(b);
      most_padded_ = std::max(most_padded_, b.padded);
      most_packed = std::max(most_packed, panels_.packed_size(b));
    });
    const int64_t image_bytes = std::max<int64_t>(1, s_.image_pixels() * padded * wide);
    batch_ = std::max<int64_t>(1, std::min(s_.n, kBatchBytes / image_bytes));
    const int64_t block_pixels = (batch_ * s_.image_pixels() + 1) * most_padded_;
    pass_weights_ = packed;
    pass_pixels_ = padded * (batch_ * s_.image_pixels() + 1);
    blocks_per_pass_ = std::max<int64_t>(1, block_count_);
    if ((pass_weights_ + pass_pixels_) * wide > kPassBytes) {
      const int64_t block_bytes = (most_packed + block_pixels) * wide;
      blocks_per_pass_ = std::max<int64_t>(1, kPassBytes / block_bytes);
      pass_weights_ = std::min(packed, blocks_per_pass_ * most_packed);
      pass_pixels_ = std::min(pass_pixels_, blocks_per_pass_ * block_pixels);
    }
    passes_ = ceil_div(block_count_, blocks_per_pass_);
  }

  int64_t run_pass(int64_t n, int64_t images, int64_t first) {
    const int64_t last = std::min(block_count_, first + blocks_per_pass_);
    place_blocks(first, last, images);
    if (n == 0 || passes_ > 1) {  // weights of a single pass stay packed for all images
      parallel_for(last - first, threads_, [&](int64_t i, int) {
        panels_.pack_weights(blocks_[first + i], places_[first + i], weights_);
      });
    }
    parallel_for((last - first) * images, threads_, [&](int64_t i, int) {
      const int64_t b = first + i / images, image = i % images;
      acc_t* pixels = pixels_ + places_[b].pixels;
      const int64_t padded = blocks_[b].padded;
      with_lanes<acc_t>(blocks_[b].lanes, [&](auto lanes) {
        to_channels_last<decltype(lanes)::value>(s_, p_.x, n + image, blocks_[b],
                                                 pixels + image * s_.image_pixels() * padded);
      });
      if (image == 0) std::fill_n(pixels + images * s_.image_pixels() * padded, padded, acc_t(0));
    });
    parallel_for(grid_.tiles(images), threads_, [&](int64_t i, int thread) {
      grid_.set(s_, images, i, scratch_[thread].tile);
      run_tile(scratch_[thread], n, images, first, last, i);
    });
    return last;
  }

  // The largest tiles pass over the weights least often, smaller ones may share out more evenly. A
  // pixel's sum is the same in every tile, so this may depend on the number of threads.
  TileGrid choose_grid() const {
    constexpr int64_t kPass = 36;  // what a pass over the weights takes, in pixels (measured)
    const int64_t pixel_bytes = most_padded_ * static_cast<int64_t>(sizeof(acc_t));
    TileGrid best(s_, kForwardTile, pixel_bytes);
    const auto time = [&](const TileGrid& grid) {
      return ceil_div(grid.tiles(batch_), threads_) * (round_up(grid.pixels(), kGemmRows) + kPass);
    };
    for (const int64_t tile : {72, 48, 24}) {
      const TileGrid grid(s_, tile, pixel_bytes);
      if (time(grid) < time(best)) best = grid;
    }
    return best;
  }

  void place_blocks(int64_t first, int64_t last, int64_t images) {
    int64_t pixels = 0, packed = 0;
    for (int64_t b = first; b < last;) {
      int64_t end = b, columns = 0, size = 0;
      for (; end < last && blocks_[end].group == blocks_[b].group; ++end) {
        if (end > b && columns + columns_of(blocks_[end]) > Layout<acc_t, index_t>::kChunkColumns) {
          break;
        }
        places_[end] = {pixels, packed, 0, columns, false};
        pixels += pixels_size(blocks_[end], images);
        columns += columns_of(blocks_[end]);
        size += panels_.packed_size(blocks_[end]);
      }
      places_[end - 1].ends_chunk = true;
      packed += size;
      for (; b < end; ++b) places_[b].chunk_columns = columns;
    }
  }

  void run_tile(const Scratch& scratch, int64_t n, int64_t images, int64_t first, int64_t last,
                int64_t tile) {
    const int64_t sums = panels_.sum_size();
    double* carry = carry_ == nullptr ? nullptr : carry_ + tile * sums;
    const ZeroPixels<index_t> zeros{static_cast<index_t>(images * s_.image_pixels()), 0};
    bool fresh = false;  // nothing has been added up for this group yet
    for (int64_t b = first; b < last; ++b) {
      const ChannelBlock& block = blocks_[b];
      if (b == first || block.deformable_group != blocks_[b - 1].deformable_group) {
        make_plan<acc_t, index_t, kForwardTile>(p_, *scratch.tile, n, block.deformable_group, false,
                                                zeros, scratch.plan, nullptr);
      }
      const bool starts = block.first % s_.group_in() == 0;
      const bool ends = (block.first + block.count) % s_.group_in() == 0;
      if (!starts && b == first) std::copy_n(carry, sums, scratch.sum);
      for (int64_t g = 0; g < block.groups; ++g) {
        fresh = fresh || starts;
        if (panels_.add_block(scratch, block, places_[b], pixels_ + places_[b].pixels, weights_, g,
                              fresh)) {
          fresh = false;
        }
        if (ends) panels_.store_group(scratch, n, block.group + g);
      }
      if (!ends && b + 1 == last) std::copy_n(scratch.sum, sums, carry);
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

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  int threads_;
  Layout<acc_t, index_t> panels_;
  int64_t block_count_, most_padded_;
  int64_t batch_, passes_, blocks_per_pass_, pass_weights_, pass_pixels_;
  ChannelBlock* blocks_;
  TileGrid grid_{s_, kForwardTile, 0};
  BlockPlace* places_;
  acc_t *weights_, *pixels_;
  double* carry_ = nullptr;
  Scratch* scratch_;  // one for each thread
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
