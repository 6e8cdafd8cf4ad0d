#pragma once
// The sums over channels that grad_offset and grad_mask are, where several slabs of channels
// contribute: each slab leaves its share of the images in flight, and the shares are added in the
// order of the channels, in double. Between waves of slabs the sums are carried over.

#include "kernels/common/parallel_for.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

// Rows of pixels: [tap][dy, dx] of grad_offset, then [tap] of grad_mask.
template <typename acc_t>
struct OffsetRows {
  acc_t *offset, *mask;
  int64_t row;  // from one to the next
};

template <typename acc_t>
class OffsetSums {
 public:
  OffsetSums() = default;

  // Of `slabs` slabs at a time, for `batch` images at a time; more than one wave carries.
  OffsetSums(const DeformConv2dParams& params, int64_t slabs, int64_t batch, bool carries,
             Arena* arena)
      : p_(&params), batch_(batch) {
    shares_ = arena->take<acc_t>(slabs * share_size());
    const DeformConv2dShape& s = params.shape;
    if (carries) {
      carry_ = arena->take<double>(s.n * s.deformable_groups * 3 * s.taps() * s.out_pixels());
    }
  }

  static int64_t image_bytes(const DeformConv2dShape& s, int64_t slabs) {
    return slabs * 3 * s.taps() * s.out_pixels() * static_cast<int64_t>(sizeof(acc_t));
  }

  // A slab's share, from that pixel of that image of the batch on.
  OffsetRows<acc_t> share(int64_t slab, int64_t image, int64_t pixel) const {
    acc_t* first = shares_ + slab * share_size() + image * p_->shape.out_pixels() + pixel;
    return {first, first + 2 * p_->shape.taps() * row(), row()};
  }

  // Adds the shares of the wave's slabs for images [n, n + images).
  void reduce(const ChannelBlock* slabs, int64_t count, int64_t n, int64_t images,
              int threads) const {
    const DeformConv2dShape& s = p_->shape;
    const int64_t groups = s.deformable_groups, per_group = s.c / groups;
    parallel_for(images * groups, threads, [&](int64_t item, int) {
      const int64_t image = item / groups, group = item % groups;
      int64_t first = 0, last = count;
      while (first < last && slabs[first].deformable_group != group) ++first;
      while (last > first && slabs[last - 1].deformable_group != group) --last;
      if (first == last) return;
      const bool starts = slabs[first].first == group * per_group;
      const bool ends = slabs[last - 1].first + slabs[last - 1].count == (group + 1) * per_group;
      const int64_t tap = (n + image) * groups * s.taps() + group * s.taps();
      for (int64_t r = 0; r < 3 * s.taps(); ++r) {
        const bool mask = r >= 2 * s.taps();
        const MutableData to = mask ? p_->grad_mask : p_->grad_offset;
        if (to.data == nullptr) continue;
        const int64_t out_row = mask ? tap + r - 2 * s.taps() : 2 * tap + r;
        double* carry = carry_ == nullptr ? nullptr : carry_ + (3 * tap + r) * s.out_pixels();
        reduce_row(share(0, image, 0).offset + r * row(), first, last, starts ? nullptr : carry,
                   ends ? nullptr : carry, to, out_row * s.out_pixels());
      }
    });
  }

 private:
  int64_t row() const { return batch_ * p_->shape.out_pixels(); }
  int64_t share_size() const { return 3 * p_->shape.taps() * row(); }

  // Slabs [first, last) of one row: begins with what was carried, ends there or in `to`.
  void reduce_row(const acc_t* shares, int64_t first, int64_t last, const double* carried,
                  double* carry, MutableData to, int64_t start) const {
    constexpr int64_t kStretch = 128;
    double sum[kStretch];
    for (int64_t p = 0; p < p_->shape.out_pixels(); p += kStretch) {
      const int64_t count = std::min(kStretch, p_->shape.out_pixels() - p);
      for (int64_t i = 0; i < count; ++i) sum[i] = carried == nullptr ? 0.0 : carried[p + i];
      for (int64_t slab = first; slab < last; ++slab) {
        const acc_t* from = shares + slab * share_size() + p;
        for (int64_t i = 0; i < count; ++i) sum[i] += static_cast<double>(from[i]);
      }
      if (carry == nullptr) {
        store_row(to, start + p, sum, count);
      } else {
        std::copy_n(sum, count, carry + p);
      }
    }
  }

  const DeformConv2dParams* p_ = nullptr;
  int64_t batch_ = 0;
  acc_t* shares_ = nullptr;
  double* carry_ = nullptr;
};

}  // namespace PO_TARGET
}  // namespace paddle_ops
