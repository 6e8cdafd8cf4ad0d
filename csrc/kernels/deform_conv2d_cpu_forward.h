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
    grid_ = choose_grid();
    blocks_ = arena->take<ChannelBlock>(block_count_);
    places_ = arena->take<Place>(block_count_);
    weights_ = arena->take<acc_t>(pass_weights_);
    pixels_ = arena->take<acc_t>(pass_pixels_);
    if (passes_ > 1) carry_ = arena->take<double>(grid_.tiles(batch_) * kTile * sum_row());
    scratch_ = arena->take<Scratch>(threads_);
    for (int i = 0; i < threads_; ++i) {
      const Scratch scratch{arena->take<Plan>(s_.taps()), arena->take<acc_t>(kTile * panel_row()),
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
  static constexpr int64_t kTile = 96;           // pixels: rows of one panel
  static constexpr int64_t kPanelColumns = 576;  // summed in registers before double takes over
  static constexpr int64_t kPassBytes = INT64_C(512)
                                        << 20;              // weights and channels-last x at a time
  static constexpr int64_t kBatchBytes = INT64_C(4) << 20;  // small images are taken together
  static constexpr int64_t kLanes = kFullLanes<acc_t>;
  static constexpr int64_t kPanelLanes = 2 * kLanes;  // outputs of one panel of packed weights
  using V = Vec<acc_t, kLanes>;

  static_assert(kTile % kGemmRows == 0, "products take whole blocks of rows");
  using Plan = TapPlan<acc_t, index_t, kTile>;
  using Tile = PixelTile<index_t, kTile>;

  // Where a block lies in scratch. Consecutive blocks of one group whose columns fit into one panel
  // are multiplied together, as one chunk; a block with more columns is a chunk of its own.
  struct Place {
    int64_t pixels;         // its channels-last pixels
    int64_t chunk;          // the chunk's packed weights
    int64_t chunk_columns;  // channels times taps of the whole chunk
    int64_t column;         // the block's first column in the chunk
    bool ends_chunk;
  };
  struct Scratch {
    Plan* plan;
    acc_t* panel;
    double* sum;
    Tile* tile;
  };

  // One vector more than the columns: rows a power of two apart would share cache sets.
  int64_t panel_row() const { return kPanelColumns + kFullLanes<acc_t>; }
  int64_t sum_row() const { return round_up(s_.group_out(), kFullLanes<acc_t>); }
  int64_t packed_size(const ChannelBlock& b) const {
    return round_up(s_.group_out(), kPanelLanes) * columns_of(b);
  }
  int64_t columns_of(const ChannelBlock& b) const { return s_.taps() * b.padded; }
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
    place_blocks(first, last, images);
    if (n == 0 || passes_ > 1) {  // weights of a single pass stay packed for all images
      parallel_for(last - first, threads_, [&](int64_t i, int) { pack_weights(first + i); });
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

  // Small tiles where large ones would be too few to share out evenly. A pixel's sum is the same in
  // every tile, so this may depend on the number of threads.
  TileGrid choose_grid() const {
    const bool few = batch_ * s_.out_pixels() < 16 * threads_ * kTile;
    const int64_t pixel_bytes =
        std::min(most_channels_, s_.c) * static_cast<int64_t>(sizeof(acc_t));
    return TileGrid(s_, few ? kTile / 2 : kTile, pixel_bytes);
  }

  void place_blocks(int64_t first, int64_t last, int64_t images) {
    int64_t pixels = 0, packed = 0;
    for (int64_t b = first; b < last;) {
      int64_t end = b, columns = 0;
      for (; end < last && blocks_[end].group == blocks_[b].group; ++end) {
        if (end > b && columns + columns_of(blocks_[end]) > kPanelColumns) break;
        places_[end] = {pixels, packed, 0, columns, false};
        pixels += pixels_size(blocks_[end], images);
        columns += columns_of(blocks_[end]);
      }
      places_[end - 1].ends_chunk = true;
      packed += columns * round_up(s_.group_out(), kPanelLanes);
      for (; b < end; ++b) places_[b].chunk_columns = columns;
    }
  }

  // chunk[panel of outputs][block][tap][channel][2 vectors of outputs]
  void pack_weights(int64_t b) {
    const ChannelBlock& block = blocks_[b];
    const Place& place = places_[b];
    const int64_t elements = block.count * s_.taps();
    const int64_t channel = block.first - block.group * s_.group_in();
    for (int64_t o = 0; o < round_up(s_.group_out(), kPanelLanes); o += kLanes) {
      acc_t* to = weights_ + place.chunk + o / kPanelLanes * place.chunk_columns * kPanelLanes +
                  place.column * kPanelLanes + o % kPanelLanes;
      if (block.count < block.padded) clear_columns(to, columns_of(block));
      for (int64_t at = 0; at < elements; at += kStrip) {
        const int64_t count = std::min(kStrip, elements - at);
        acc_t rows[kLanes][kStrip] = {};
        for (int64_t j = 0; j < std::min(kLanes, s_.group_out() - o); ++j) {
          const int64_t output = block.group * s_.group_out() + o + j;
          load_row(rows[j], p_.weight, (output * s_.group_in() + channel) * s_.taps() + at, count);
        }
        store_columns(rows, block, at, count, to);
      }
    }
  }

  static void clear_columns(acc_t* to, int64_t columns) {
    for (int64_t k = 0; k < columns; ++k) store_vec(to + k * kPanelLanes, V{});
  }

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

  void run_tile(const Scratch& scratch, int64_t n, int64_t images, int64_t first, int64_t last,
                int64_t tile) {
    double* carry = carry_ == nullptr ? nullptr : carry_ + tile * kTile * sum_row();
    const int64_t sums = scratch.tile->count * sum_row();
    const index_t zero_pixel = static_cast<index_t>(images * s_.image_pixels());
    bool fresh = false;  // nothing has been added up for this group yet
    for (int64_t b = first; b < last; ++b) {
      const ChannelBlock& block = blocks_[b];
      if (b == first || block.deformable_group != blocks_[b - 1].deformable_group) {
        make_plan(p_, *scratch.tile, n, block.deformable_group, false, zero_pixel, scratch.plan);
      }
      if (block.first % s_.group_in() == 0) {
        fresh = true;
      } else if (b == first) {
        std::copy_n(carry, sums, scratch.sum);
      }
      if (add_block(scratch, b, fresh)) fresh = false;
      if ((block.first + block.count) % s_.group_in() == 0) {
        store_group(scratch, n, block.group);
      } else if (b + 1 == last) {
        std::copy_n(scratch.sum, sums, carry);
      }
    }
  }

  // Gathers the block's columns and, once the chunk is complete, multiplies: returns whether it
  // did.
  bool add_block(const Scratch& scratch, int64_t b, bool fresh) {
    const ChannelBlock& block = blocks_[b];
    const Place& place = places_[b];
    const bool whole = place.chunk_columns <= kPanelColumns;
    const int64_t step = whole ? s_.taps() : std::max<int64_t>(1, kPanelColumns / block.padded);
    for (int64_t t = 0; t < s_.taps(); t += step) {
      const int64_t count = std::min(step, s_.taps() - t);
      with_lanes<acc_t>(block.lanes, [&](auto lanes) {
        gather<decltype(lanes)::value>(scratch, block.padded, pixels_ + place.pixels, t, count,
                                       scratch.panel + place.column);
      });
      if (!place.ends_chunk) return false;
      const int64_t skipped = whole ? 0 : t * block.padded;
      const int64_t depth = whole ? place.chunk_columns : count * block.padded;
      const GemmA<acc_t> a{scratch.panel, panel_row(), 1};
      const GemmB<acc_t> weights{weights_ + place.chunk + skipped * kPanelLanes,
                                 place.chunk_columns * kPanelLanes, kPanelLanes};
      gemm(a, weights, round_up(scratch.tile->count, kGemmRows), sum_row(), depth, scratch.sum,
           sum_row(), /*add=*/!fresh || t > 0);
    }
    return true;
  }

  // panel[pixel][tap][channel] for taps [first, first + taps) of the plan
  template <int kWidth>
  void gather(const Scratch& scratch, int64_t padded, const acc_t* pixels, int64_t first,
              int64_t taps, acc_t* panel) const {
    using W = Vec<acc_t, kWidth>;
    const int64_t width = known_width<kWidth, acc_t>(padded);
    for (int64_t t = 0; t < taps; ++t) {
      const Plan& plan = scratch.plan[first + t];
      acc_t* to = panel + t * width;
      for (int64_t i = 0; i < scratch.tile->count; ++i, to += panel_row()) {
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
    }
  }

  // Rounds the sums once and writes them, a vector of outputs at a time.
  void store_group(const Scratch& scratch, int64_t n, int64_t group) {
    using D = Vec<double, kLanes>;
    acc_t rows[kLanes][kTile];
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
      for (int64_t r = 0; r < scratch.tile->runs; ++r) {
        const auto& run = scratch.tile->run[r];
        for (int64_t j = 0; j < valid; ++j) {
          store_row(p_.out, ((n + run.image) * s_.o + channel + j) * s_.out_pixels() + run.pixel,
                    rows[j] + run.at, run.count);
        }
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

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  int threads_;
  int64_t most_channels_, block_count_;
  int64_t batch_, passes_, blocks_per_pass_, pass_weights_, pass_pixels_;
  ChannelBlock* blocks_;
  TileGrid grid_{s_, kTile, 0};
  Place* places_;
  acc_t *weights_, *pixels_;
  double* carry_ = nullptr;
  Scratch* scratch_;  // one for each thread
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
