#pragma once
// Backward loops. The unit of work is one slab of channels over one run of images, so that every
// element of grad_x and of grad_weight has one owner and nothing needs atomics. Per tile of output
// pixels: the gradient of the sampled columns is one matrix product; a single pass over the samples
// then reads the four neighbours once and gives grad_x, the four dot products from which
// grad_offset and grad_mask follow, and the columns for grad_weight's matrix product.
//
// Determinism: slabs, runs of images and tiles are cut by shape alone, and partial sums are added
// in that order, in double, whatever the number of threads.

#include "kernels/common/gemm.h"
#include "kernels/common/parallel_for.h"
#include "kernels/deform_conv2d_plan.h"
#include "kernels/deform_conv2d_samples.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t>
class DeformConv2dBackward {
 public:
  DeformConv2dBackward(const DeformConv2dParams& params, Arena* arena)
      : p_(params), s_(params.shape), threads_(params.num_threads) {
    want_x_ = p_.grad_x.data != nullptr;
    want_offset_ = p_.grad_offset.data != nullptr || p_.grad_mask.data != nullptr;
    want_weight_ = p_.grad_weight.data != nullptr;
    if (s_.n == 0 || s_.c == 0 || s_.o == 0) return;
    choose_cuts();
    slabs_ = arena->take<Slab>(kWave);
    packed_ = arena->take<acc_t>(kWaveSize(slab_count_) * packed_size());
    weight_sum_ =
        arena->take<double>(want_weight_ ? slots_ * kWaveSize(slab_count_) * weight_sum_size() : 0);
    shared_ = want_offset_ && !whole_;
    if (shared_) {
      sums_ = OffsetSums<acc_t>(p_, kWaveSize(slab_count_), batch_, slab_count_ > kWave, arena);
    }
    scratch_ = arena->take<Scratch>(threads_);
    for (int i = 0; i < threads_; ++i) take_scratch(i, arena);
  }

  void run() {
    if (p_.grad_bias.data != nullptr) sum_bias();
    if (s_.n == 0 || s_.c == 0 || s_.o == 0) return zero_all();
    if (!want_x_ && !want_offset_ && !want_weight_) return;
    int64_t next_channel = 0;
    for (int64_t first = 0; first < slab_count_; first += kWave) {
      const int64_t slabs = std::min(kWave, slab_count_ - first);
      for (int64_t i = 0; i < slabs; ++i) {
        slabs_[i] = channel_block_at<acc_t>(s_, most_channels_, next_channel);
        next_channel += slabs_[i].count;
      }
      run_wave(slabs);
    }
  }

 private:
  static constexpr int64_t kTile = 144;  // output pixels
  using Plan = TapPlan<acc_t, index_t, kTile>;
  using Tile = PixelTile<index_t, kTile>;
  using Slab = ChannelBlock;
  static constexpr int64_t kSlabColumns = 288;  // channels times taps of one slab, about
  static constexpr int64_t kWave = 64;          // slabs whose partial sums exist at a time
  static constexpr int64_t kWantedItems = 16;   // units of work, for threads to share
  static constexpr int64_t kSlotBytes = INT64_C(32) << 20;  // all slots' weight sums
  static constexpr int64_t kPartialBytes = INT64_C(16)
                                           << 20;            // offset sums of the images in flight
  static constexpr int64_t kPackBytes = INT64_C(256) << 10;  // small images are taken together
  static constexpr int64_t kDepth = 512;  // outputs summed in registers at a time
  static constexpr int64_t kPanelLanes = 2 * kFullLanes<acc_t>;

  static_assert(kTile % kGemmRows == 0, "products take whole blocks of rows");

  struct Scratch {
    acc_t *pixels, *grad_pixels;  // [image pixel][channel] of the images at hand
    Plan* plan;
    TapSlopes<acc_t, kTile>* slopes;
    acc_t (*grad_out)[kTile];     // [output][tile pixel]
    acc_t *grad_column, *column;  // [tile pixel][tap][channel]
    acc_t (*offset_rows)[kTile];  // OffsetRows of a tile, where one slab holds the whole sums
    Tile* tile;
  };

  static int64_t kWaveSize(int64_t slabs) { return std::min(kWave, slabs); }
  int64_t columns() const { return round_up(s_.taps() * most_padded_, kFullLanes<acc_t>); }
  int64_t outputs() const { return round_up(s_.group_out(), kGemmRows); }
  int64_t packed_size() const {
    return ceil_div(columns(), kPanelLanes) * s_.group_out() * kPanelLanes;
  }
  int64_t weight_sum_size() const { return outputs() * columns(); }

  // Everything here depends on the shape only, never on the number of threads.
  void choose_cuts() {
    most_channels_ = std::min<int64_t>(64, block_channels<acc_t>(s_, kSlabColumns));
    most_padded_ = 0;
    for_each_channel_block<acc_t>(s_, most_channels_, [&](const Slab& slab) {
      ++slab_count_;
      most_padded_ = std::max(most_padded_, slab.padded);
    });
    const int64_t in_wave = kWaveSize(slab_count_);
    const int64_t slot_bytes = in_wave * weight_sum_size() * static_cast<int64_t>(sizeof(double));
    slots_ = std::min(
        {s_.n, ceil_div(kWantedItems, slab_count_), std::max<int64_t>(1, kSlotBytes / slot_bytes)});
    whole_ = slab_count_ == s_.deformable_groups;
    const int64_t image_bytes = OffsetSums<acc_t>::image_bytes(s_, in_wave);
    batch_ = whole_ ? s_.n : std::min(s_.n, std::max(slots_, kPartialBytes / image_bytes));
    const int64_t pixels_bytes =
        s_.image_pixels() * most_padded_ * static_cast<int64_t>(sizeof(acc_t));
    pack_ = std::max<int64_t>(
        1, std::min(ceil_div(batch_, slots_), kPackBytes / std::max<int64_t>(1, pixels_bytes)));
  }

  void take_scratch(int thread, Arena* arena) {
    // Beyond the images: the zero pixels, which whole vectors of pixels read too.
    const int64_t pixels = (pack_ * s_.image_pixels() + kFullLanes<acc_t>)*most_padded_;
    const Scratch scratch{arena->take<acc_t>(pixels),
                          arena->take<acc_t>(want_x_ ? pixels : 0),
                          arena->take<Plan>(s_.taps()),
                          arena->take<TapSlopes<acc_t, kTile>>(s_.taps()),
                          arena->take<acc_t[kTile]>(outputs()),
                          arena->take<acc_t>(kTile * columns()),
                          arena->take<acc_t>(want_weight_ ? kTile * columns() : 0),
                          arena->take<acc_t[kTile]>(whole_ ? 3 * s_.taps() : 0),
                          arena->take<Tile>(1)};
    if (arena->base != nullptr) scratch_[thread] = scratch;
  }

  void run_wave(int64_t slabs) {
    if (want_weight_) std::fill_n(weight_sum_, slots_ * slabs * weight_sum_size(), 0.0);
    parallel_for(threads_, threads_, [&](int64_t i, int) { clear_padding(scratch_[i]); });
    if (want_x_ || want_offset_) {
      parallel_for(slabs, threads_,
                   [&](int64_t i, int thread) { pack_weights(i, scratch_[thread].grad_column); });
    }
    for (int64_t n = 0; n < s_.n; n += batch_) {
      const int64_t images = std::min(batch_, s_.n - n);
      const int64_t per_slot = ceil_div(images, slots_);
      parallel_for(slots_ * slabs, threads_, [&](int64_t item, int thread) {
        const int64_t slot = item / slabs, slab = item % slabs;
        const int64_t end = std::min(images, (slot + 1) * per_slot);
        for (int64_t i = slot * per_slot; i < end; i += pack_) {
          run_images(scratch_[thread], slot * slabs + slab, slab, n, i, std::min(pack_, end - i));
        }
      });
      if (shared_) sums_.reduce(slabs_, slabs, n, images, threads_);
    }
    if (want_weight_) {
      parallel_for(slabs, threads_, [&](int64_t i, int thread) {
        store_weight(i, slabs, scratch_[thread].grad_column);
      });
    }
  }

  // Columns beyond a slab's own are multiplied too; they must be numbers.
  void clear_padding(const Scratch& scratch) {
    std::fill_n(scratch.grad_out[0], outputs() * kTile, acc_t(0));
    if (want_weight_) std::fill_n(scratch.column, kTile * columns(), acc_t(0));
  }

  // packed[panel of (tap, channel)][output][2 vectors]: the B of grad_column = grad_out^T weight
  void pack_weights(int64_t i, acc_t* row) {
    const Slab& slab = slabs_[i];
    acc_t* packed = packed_ + i * packed_size();
    std::fill_n(packed, packed_size(), acc_t(0));
    for (int64_t o = 0; o < s_.group_out(); ++o) {
      load_row(row, p_.weight, weight_row(slab, o), slab.count * s_.taps());
      for (int64_t t = 0; t < s_.taps(); ++t) {
        for (int64_t c = 0; c < slab.count; ++c) {
          const int64_t column = t * slab.padded + c;
          packed[(column / kPanelLanes * s_.group_out() + o) * kPanelLanes + column % kPanelLanes] =
              row[c * s_.taps() + t];
        }
      }
    }
  }

  // Where the slab's channels begin in weight, for one output of its group.
  int64_t weight_row(const Slab& slab, int64_t o) const {
    const int64_t channel = slab.first - slab.group * s_.group_in();
    return ((slab.group * s_.group_out() + o) * s_.group_in() + channel) * s_.taps();
  }

  // Images [first, first + images) of the batch that starts at image n.
  void run_images(const Scratch& scratch, int64_t sum, int64_t slab_number, int64_t n,
                  int64_t first, int64_t images) {
    const Slab& slab = slabs_[slab_number];
    const int64_t pixels = images * s_.image_pixels();
    with_lanes<acc_t>(slab.lanes, [&](auto lanes) {
      for (int64_t i = 0; i < images; ++i) {
        to_channels_last<decltype(lanes)::value>(
            s_, p_.x, n + first + i, slab, scratch.pixels + i * s_.image_pixels() * slab.padded);
      }
    });
    const int64_t zeros = kFullLanes<acc_t> * slab.padded;
    std::fill_n(scratch.pixels + pixels * slab.padded, zeros, acc_t(0));
    if (want_x_) std::fill_n(scratch.grad_pixels, pixels * slab.padded + zeros, acc_t(0));
    for (int64_t i = 0; i < grid_.tiles(images); ++i) {
      grid_.set(s_, images, i, scratch.tile);
      OffsetRows<acc_t> sums{scratch.offset_rows[0], scratch.offset_rows[2 * s_.taps()], kTile};
      if (shared_) {
        const auto& run = scratch.tile->run[0];
        sums = sums_.share(slab_number, first + run.image, run.pixel);
      }
      run_tile(scratch, slab, packed_ + slab_number * packed_size(), n + first, images, sums,
               weight_sum_ + sum * weight_sum_size());
      if (want_offset_ && whole_) store_offsets(scratch, slab.deformable_group, n + first);
    }
    if (!want_x_) return;
    with_lanes<acc_t>(slab.lanes, [&](auto lanes) {
      for (int64_t i = 0; i < images; ++i) {
        from_channels_last<decltype(lanes)::value>(
            s_, scratch.grad_pixels + i * s_.image_pixels() * slab.padded, n + first + i, slab,
            p_.grad_x);
      }
    });
  }

  void run_tile(const Scratch& scratch, const Slab& slab, const acc_t* packed, int64_t n,
                int64_t images, const OffsetRows<acc_t>& sums, double* weight_sum) {
    const Tile& tile = *scratch.tile;
    make_plan(p_, tile, n, slab.deformable_group, p_.boundary_grad == BoundaryGrad::kTorchvision,
              ZeroPixels<index_t>{static_cast<index_t>(images * s_.image_pixels()), 1},
              scratch.plan, scratch.slopes);
    load_tile_rows(scratch.grad_out, p_.grad_out, tile, n, s_.o, slab.group * s_.group_out(),
                   s_.group_out(), s_.out_pixels());
    const int64_t used = round_up(s_.taps() * slab.padded, kFullLanes<acc_t>);
    if (want_x_ || want_offset_) multiply_grad_column(scratch, packed, used);
    const SampleTask<acc_t, index_t, kTile> task{tile.count,
                                                 scratch.plan,
                                                 scratch.slopes,
                                                 s_.taps(),
                                                 slab.padded,
                                                 scratch.pixels,
                                                 scratch.grad_column,
                                                 scratch.grad_pixels,
                                                 scratch.column,
                                                 columns(),
                                                 sums};
    with_lanes<acc_t>(slab.lanes, [&](auto lanes) {
      backward_samples<decltype(lanes)::value>(task, want_x_, want_offset_, want_weight_);
    });
    if (want_weight_) {
      const GemmA<acc_t> a{scratch.grad_out[0], kTile, 1};
      const GemmB<acc_t> b{scratch.column, kPanelLanes, columns()};
      gemm(a, b, outputs(), used, tile.count, weight_sum, columns(), /*add=*/true);
    }
  }

  // grad_column[pixel, column] = sum over outputs of grad_out[output, pixel] weight[output, column]
  void multiply_grad_column(const Scratch& scratch, const acc_t* packed, int64_t used) {
    for (int64_t o = 0; o < s_.group_out(); o += kDepth) {
      const int64_t depth = std::min(kDepth, s_.group_out() - o);
      const GemmA<acc_t> a{scratch.grad_out[o], 1, kTile};
      const GemmB<acc_t> b{packed + o * kPanelLanes, s_.group_out() * kPanelLanes, kPanelLanes};
      gemm(a, b, round_up(scratch.tile->count, kGemmRows), used, depth, scratch.grad_column,
           columns(), /*add=*/o > 0);
    }
  }

  // What one slab holds whole.
  void store_offsets(const Scratch& scratch, int64_t group, int64_t n) {
    const int64_t taps = s_.taps(), all_taps = s_.deformable_groups * taps;
    if (p_.grad_offset.data != nullptr) {
      store_tile_rows(p_.grad_offset, *scratch.tile, n, 2 * all_taps, 2 * group * taps,
                      scratch.offset_rows, 2 * taps, s_.out_pixels());
    }
    if (p_.grad_mask.data != nullptr) {
      store_tile_rows(p_.grad_mask, *scratch.tile, n, all_taps, group * taps,
                      scratch.offset_rows + 2 * taps, taps, s_.out_pixels());
    }
  }

  // Adds the slots' sums in order and writes the slab's part of grad_weight.
  void store_weight(int64_t i, int64_t slabs, acc_t* row) {
    const Slab& slab = slabs_[i];
    for (int64_t o = 0; o < s_.group_out(); ++o) {
      for (int64_t t = 0; t < s_.taps(); ++t) {
        for (int64_t c = 0; c < slab.count; ++c) {
          double sum = 0;
          for (int64_t slot = 0; slot < slots_; ++slot) {
            const double* sums = weight_sum_ + (slot * slabs + i) * weight_sum_size();
            sum += sums[o * columns() + t * slab.padded + c];
          }
          row[c * s_.taps() + t] = static_cast<acc_t>(sum);
        }
      }
      store_row(p_.grad_weight, weight_row(slab, o), row, slab.count * s_.taps());
    }
  }

  void sum_bias() {
    parallel_for(s_.o, threads_, [&](int64_t o, int) {
      double total = 0, row[kTile];
      for (int64_t n = 0; n < s_.n; ++n) {
        for (int64_t p = 0; p < s_.out_pixels(); p += kTile) {
          const int64_t count = std::min(kTile, s_.out_pixels() - p);
          load_row(row, p_.grad_out, (n * s_.o + o) * s_.out_pixels() + p, count);
          for (int64_t i = 0; i < count; ++i) total += row[i];
        }
      }
      store_row(p_.grad_bias, o, &total, 1);
    });
  }

  // Nothing to sum over: every gradient but the bias's is 0.
  void zero_all() {
    const int64_t taps = s_.n * s_.deformable_groups * s_.taps() * s_.out_pixels();
    const auto zero = [](MutableData to, int64_t elements) {
      if (to.data != nullptr && elements > 0) memset(to.data, 0, elements * size_of(to.dtype));
    };
    zero(p_.grad_x, s_.n * s_.c * s_.image_pixels());
    zero(p_.grad_offset, 2 * taps);
    zero(p_.grad_mask, taps);
    zero(p_.grad_weight, s_.o * s_.group_in() * s_.taps());
  }

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  int threads_;
  bool want_x_, want_offset_, want_weight_;
  int64_t most_channels_, most_padded_, slab_count_ = 0;
  int64_t slots_;  // runs of images with weight sums of their own
  int64_t batch_;  // images whose offset sums exist at a time
  int64_t pack_;   // images that share scratch
  bool whole_;     // each deformable group is one slab, which holds the whole sums over channels
  bool shared_;    // several slabs contribute to the sums, and these are wanted
  TileGrid grid_{s_, kTile,
                 0};  // stretches: rectangles cut grad_out's rows short, and are no faster
  Slab* slabs_;
  acc_t* packed_;
  double* weight_sum_;
  OffsetSums<acc_t> sums_;  // where `shared_`
  Scratch* scratch_;        // one for each thread
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
