#pragma once
// What the forward and the backward loops share: how channels are cut into blocks, how pixels are
// cut into tiles, and the sampling plan, which is computed once per tile and deformable group and
// then serves all of the group's channels.

#include <cmath>

#include "kernels/common/arena.h"
#include "kernels/common/simd.h"
#include "kernels/deform_conv2d.h"

namespace paddle_ops {
namespace PO_TARGET {

// A run of input channels inside one group and one deformable group. In channels-last scratch its
// channels lie side by side, padded with zeros to whole vectors of `lanes`.
struct ChannelBlock {
  int64_t first, count, padded;
  int64_t group, deformable_group;
  int32_t lanes;
};

// Few channels use a narrower vector, so that padding never more than doubles the work.
template <typename acc_t>
int32_t lanes_for(int64_t channels) {
  constexpr int32_t kFull = kFullLanes<acc_t>;
  if (channels > kFull / 2) return kFull;
  if (channels > kFull / 4) return std::max(2, kFull / 2);
  return std::max(2, kFull / 4);
}

// Calls body with the lane count as a compile-time constant.
template <typename acc_t, typename Body>
void with_lanes(int32_t lanes, const Body& body) {
  constexpr int kFull = kFullLanes<acc_t>;
  constexpr int kHalf = std::max(2, kFull / 2);
  constexpr int kQuarter = std::max(2, kFull / 4);
  if (lanes == kFull) {
    body(std::integral_constant<int, kFull>());
  } else if (lanes == kHalf) {
    body(std::integral_constant<int, kHalf>());
  } else {
    body(std::integral_constant<int, kQuarter>());
  }
}

// The block that starts at channel `first`, of at most `most` channels.
template <typename acc_t>
ChannelBlock channel_block_at(const DeformConv2dShape& s, int64_t most, int64_t first) {
  const int64_t per_group = s.group_in(), per_deformable = s.c / s.deformable_groups;
  const int64_t group = first / per_group, deformable = first / per_deformable;
  const int64_t end =
      std::min({(group + 1) * per_group, (deformable + 1) * per_deformable, first + most});
  const int32_t lanes = lanes_for<acc_t>(end - first);
  return {first, end - first, round_up(end - first, lanes), group, deformable, lanes};
}

// All blocks in order.
template <typename acc_t, typename Body>
void for_each_channel_block(const DeformConv2dShape& s, int64_t most, const Body& body) {
  for (int64_t c = 0; c < s.c;) {
    const ChannelBlock block = channel_block_at<acc_t>(s, most, c);
    body(block);
    c += block.count;
  }
}

// Channels of one block: about `columns` columns (channels times taps) to a panel, in whole
// vectors.
template <typename acc_t>
int64_t block_channels(const DeformConv2dShape& s, int64_t columns) {
  const int64_t lanes = kFullLanes<acc_t>;
  return std::max(lanes, columns / s.taps() / lanes * lanes);
}

// x[n, first .. first + count) as pixels[h * w][padded]; the padding channels become 0.
template <typename acc_t>
void to_channels_last(const DeformConv2dShape& s, ConstData x, int64_t n, const ChannelBlock& block,
                      acc_t* pixels) {
  constexpr int64_t kStrip = 64;
  acc_t row[kStrip];
  const int64_t image = s.image_pixels();
  for (int64_t p = 0; p < image; p += kStrip) {
    const int64_t strip = std::min(kStrip, image - p);
    for (int64_t c = 0; c < block.padded; ++c) {
      acc_t* to = pixels + p * block.padded + c;
      if (c >= block.count) {
        for (int64_t i = 0; i < strip; ++i) to[i * block.padded] = 0;
        continue;
      }
      load_row(row, x, (n * s.c + block.first + c) * image + p, strip);
      for (int64_t i = 0; i < strip; ++i) to[i * block.padded] = row[i];
    }
  }
}

// The way back, for grad_x.
template <typename acc_t>
void from_channels_last(const DeformConv2dShape& s, const acc_t* pixels, int64_t n,
                        const ChannelBlock& block, MutableData grad_x) {
  constexpr int64_t kStrip = 64;
  acc_t row[kStrip];
  const int64_t image = s.image_pixels();
  for (int64_t p = 0; p < image; p += kStrip) {
    const int64_t strip = std::min(kStrip, image - p);
    for (int64_t c = 0; c < block.count; ++c) {
      const acc_t* from = pixels + p * block.padded + c;
      for (int64_t i = 0; i < strip; ++i) row[i] = from[i * block.padded];
      store_row(grad_x, (n * s.c + block.first + c) * image + p, row, strip);
    }
  }
}

// Up to kMaxTile output pixels, taken in order from a batch of images that lie side by side in
// scratch; small images share a tile. Each run is a stretch of one image's pixels.
constexpr int64_t kMaxTile = 96;

template <typename acc_t, typename index_t>
struct PixelTile {
  struct Run {
    int64_t image;  // within the batch
    int64_t pixel;  // first output pixel
    int64_t at;     // its place in the tile
    int64_t count;
  };
  int64_t count = 0;
  int64_t runs = 0;
  Run run[kMaxTile];
  index_t y[kMaxTile], x[kMaxTile];  // position of tap (0, 0) without its offset
  index_t image_pixel[kMaxTile];     // number of the image's first pixel in scratch

  // Pixels [start, start + count) of the batch's images.
  void set(const DeformConv2dShape& s, int64_t start, int64_t pixels) {
    count = pixels;
    runs = 0;
    int64_t image = start / s.out_pixels(), pixel = start % s.out_pixels();
    for (int64_t at = 0; at < count; ++image, pixel = 0) {
      const int64_t length = std::min(count - at, s.out_pixels() - pixel);
      run[runs++] = {image, pixel, at, length};
      int64_t row = pixel / s.ow, column = pixel % s.ow;
      for (int64_t i = at; i < at + length; ++i) {
        y[i] = static_cast<index_t>(row * s.stride_h - s.pad_top);
        x[i] = static_cast<index_t>(column * s.stride_w - s.pad_left);
        image_pixel[i] = static_cast<index_t>(image * s.image_pixels());
        if (++column == s.ow) column = 0, ++row;
      }
      at += length;
    }
  }
};

// Rows of a [n, rows, out_pixels] tensor over one tile: dst[i] = src[first_image + image, row,
// pixel].
template <typename acc_t, typename index_t>
void load_tile_row(acc_t* dst, ConstData src, const PixelTile<acc_t, index_t>& tile,
                   int64_t first_image, int64_t rows, int64_t row, int64_t out_pixels) {
  for (int64_t r = 0; r < tile.runs; ++r) {
    const auto& run = tile.run[r];
    const int64_t start = ((first_image + run.image) * rows + row) * out_pixels + run.pixel;
    load_row(dst + run.at, src, start, run.count);
  }
}

// One tap of the plan: where each pixel of the tile samples.
template <typename acc_t, typename index_t>
void plan_tap(const DeformConv2dShape& s, const PixelTile<acc_t, index_t>& tile, index_t tap_y,
              index_t tap_x, const acc_t* dy, const acc_t* dx, const acc_t* mask,
              bool slope_at_border, index_t zero_pixel, Sample<acc_t, index_t>* plan) {
  const index_t height = static_cast<index_t>(s.h), width = static_cast<index_t>(s.w);
  for (int64_t i = 0; i < tile.count; ++i) {
    const auto y = locate(static_cast<index_t>(tile.y[i] + tap_y), dy[i], height);
    const auto x = locate(static_cast<index_t>(tile.x[i] + tap_x), dx[i], width);
    const Reach reach = reach_of(y, x, slope_at_border);
    const bool reached = reach != Reach::kNone;
    const index_t first = tile.image_pixel[i] + (reached ? y.low * width + x.low : index_t(0));
    const bool top = reached && y.low >= 0, bottom = reached && y.low < height - 1;
    const bool left = x.low >= 0, right = x.low < width - 1;
    Sample<acc_t, index_t>& sample = plan[i];
    sample.pixel[0] = top && left ? first : zero_pixel;
    sample.pixel[1] = top && right ? first + 1 : zero_pixel;
    sample.pixel[2] = bottom && left ? first + width : zero_pixel;
    sample.pixel[3] = bottom && right ? first + width + 1 : zero_pixel;
    sample.ly = y.fraction;
    sample.lx = x.fraction;
    sample.mask = mask == nullptr ? acc_t(1) : mask[i];
    sample.reach = reach;
  }
}

// The plan of one tile and deformable group: plan[tap * kMaxTile + i].
template <typename acc_t, typename index_t>
void make_plan(const DeformConv2dParams& params, const PixelTile<acc_t, index_t>& tile,
               int64_t first_image, int64_t deformable_group, bool slope_at_border,
               index_t zero_pixel, Sample<acc_t, index_t>* plan) {
  const DeformConv2dShape& s = params.shape;
  acc_t dy[kMaxTile], dx[kMaxTile], mask[kMaxTile];
  const bool has_mask = params.mask.data != nullptr;
  const int64_t taps = s.taps(), all_taps = s.deformable_groups * taps;
  for (int64_t t = 0; t < taps; ++t) {
    const int64_t row = deformable_group * taps + t;
    load_tile_row(dy, params.offset, tile, first_image, 2 * all_taps, 2 * row, s.out_pixels());
    load_tile_row(dx, params.offset, tile, first_image, 2 * all_taps, 2 * row + 1, s.out_pixels());
    if (has_mask)
      load_tile_row(mask, params.mask, tile, first_image, all_taps, row, s.out_pixels());
    plan_tap(s, tile, static_cast<index_t>(t / s.kw * s.dilation_h),
             static_cast<index_t>(t % s.kw * s.dilation_w), dy, dx, has_mask ? mask : nullptr,
             slope_at_border, zero_pixel, plan + t * kMaxTile);
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops
