#pragma once
// What the forward and the backward loops share: how channels are cut into blocks, how pixels are
// cut into tiles, and the sampling plan, which is computed once per tile and deformable group and
// then serves all of the group's channels.

#include "kernels/common/arena.h"
#include "kernels/common/rows.h"
#include "kernels/common/simd.h"
#include "kernels/deform_conv2d.h"

namespace paddle_ops {
namespace PO_TARGET {

// A run of input channels inside one deformable group: a part of one group, or whole groups. In
// channels-last scratch its channels lie side by side, padded with zeros to whole vectors of
// `lanes`.
struct ChannelBlock {
  int64_t first, count, padded;
  int64_t group, groups;  // the first group, and how many
  int64_t deformable_group;
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

// The block's padded channels: with a narrower vector, exactly one, which the compiler may know.
template <int kLanes, typename acc_t>
PO_HOSTDEVICE int64_t known_width(int64_t padded) {
  return kLanes < kFullLanes<acc_t> ? kLanes : padded;
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

constexpr int64_t kStrip = 64;  // pixels that layouts are changed by at a time, whole vectors

// The block of one group that starts at channel `first`, of at most `most` channels.
template <typename acc_t>
ChannelBlock channel_block_at(const DeformConv2dShape& s, int64_t most, int64_t first) {
  const int64_t per_group = s.group_in(), per_deformable = s.c / s.deformable_groups;
  const int64_t group = first / per_group, deformable = first / per_deformable;
  const int64_t end =
      std::min({(group + 1) * per_group, (deformable + 1) * per_deformable, first + most});
  const int32_t lanes = lanes_for<acc_t>(end - first);
  return {first, end - first, round_up(end - first, lanes), group, 1, deformable, lanes};
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
template <int kLanes, typename acc_t>
void to_channels_last(const DeformConv2dShape& s, ConstData x, int64_t n, const ChannelBlock& block,
                      acc_t* pixels) {
  using V = Vec<acc_t, kLanes>;
  acc_t rows[kLanes][kStrip];
  const int64_t image = s.image_pixels();
  for (int64_t p = 0; p < image; p += kStrip) {
    const int64_t strip = std::min(kStrip, image - p);
    for (int64_t c = 0; c < block.padded; c += kLanes) {
      const int64_t valid_rows = std::min<int64_t>(kLanes, block.count - c);
      load_rows(rows[0], x, (n * s.c + block.first + c) * image + p, strip, valid_rows,
                {kStrip, image});
      for (int64_t j = valid_rows; j < kLanes; ++j) std::fill_n(rows[j], strip, acc_t(0));
      acc_t* to = pixels + p * block.padded + c;
      for (int64_t i = 0; i < strip; i += kLanes) {
        V v[kLanes];
        for (int j = 0; j < kLanes; ++j) v[j] = load_vec<V>(rows[j] + i);
        transpose<acc_t, kLanes>(v);
        const int64_t valid = std::min<int64_t>(kLanes, strip - i);
        for (int64_t j = 0; j < valid; ++j) store_vec(to + (i + j) * block.padded, v[j]);
      }
    }
  }
}

// The way back, for grad_x. Reads up to kLanes - 1 pixels beyond the image.
template <int kLanes, typename acc_t>
void from_channels_last(const DeformConv2dShape& s, const acc_t* pixels, int64_t n,
                        const ChannelBlock& block, MutableData grad_x) {
  using V = Vec<acc_t, kLanes>;
  acc_t rows[kLanes][kStrip];
  const int64_t image = s.image_pixels();
  for (int64_t p = 0; p < image; p += kStrip) {
    const int64_t strip = std::min(kStrip, image - p);
    for (int64_t c = 0; c < block.padded; c += kLanes) {
      const acc_t* from = pixels + p * block.padded + c;
      for (int64_t i = 0; i < strip; i += kLanes) {
        V v[kLanes];
        for (int j = 0; j < kLanes; ++j) v[j] = load_vec<V>(from + (i + j) * block.padded);
        transpose<acc_t, kLanes>(v);
        for (int j = 0; j < kLanes; ++j) store_vec(rows[j] + i, v[j]);
      }
      for (int64_t j = 0; j < std::min<int64_t>(kLanes, block.count - c); ++j) {
        store_row(grad_x, (n * s.c + block.first + c + j) * image + p, rows[j], strip);
      }
    }
  }
}

// Up to kTile output pixels, taken in order from a batch of images that lie side by side in
// scratch; small images share a tile. Each run is a stretch of one image's pixels.
template <typename index_t, int64_t kTile>
struct PixelTile {
  struct Run {
    int64_t image;  // within the batch
    int64_t pixel;  // first output pixel
    int64_t at;     // its place in the tile
    int64_t count;
  };
  int64_t count = 0;
  int64_t runs = 0;
  Run run[kTile];
  index_t y[kTile], x[kTile];  // position of tap (0, 0) without its offset
  index_t image_pixel[kTile];  // number of the image's first pixel in scratch

  // Pixels [start, start + count) of the batch's images.
  void set(const DeformConv2dShape& s, int64_t start, int64_t pixels) {
    clear();
    int64_t image = start / s.out_pixels(), pixel = start % s.out_pixels();
    for (; count < pixels; ++image, pixel = 0) {
      add(s, image, pixel, std::min(pixels - count, s.out_pixels() - pixel));
    }
    fill();
  }

  // A rectangle of one image: what it samples lies closer together than that of a row as long.
  void set_rectangle(const DeformConv2dShape& s, int64_t image, int64_t row, int64_t rows,
                     int64_t column, int64_t columns) {
    clear();
    for (int64_t i = row; i < row + rows; ++i) add(s, image, i * s.ow + column, columns);
    fill();
  }

 private:
  void clear() { count = runs = 0; }

  void add(const DeformConv2dShape& s, int64_t image, int64_t pixel, int64_t length) {
    run[runs++] = {image, pixel, count, length};
    int64_t row = pixel / s.ow, column = pixel % s.ow;
    for (int64_t i = count; i < count + length; ++i) {
      y[i] = static_cast<index_t>(row * s.stride_h - s.pad_top);
      x[i] = static_cast<index_t>(column * s.stride_w - s.pad_left);
      image_pixel[i] = static_cast<index_t>(image * s.image_pixels());
      if (++column == s.ow) column = 0, ++row;
    }
    count += length;
  }

  // The rest of the tile is worked on too, by whole vectors: it gets valid numbers.
  void fill() {
    std::fill(y + count, y + kTile, index_t(0));
    std::fill(x + count, x + kTile, index_t(0));
    std::fill(image_pixel + count, image_pixel + kTile, index_t(0));
  }
};

// How the output pixels of a batch of images are cut into tiles of at most `tile` pixels. Small
// images share a tile, larger ones are cut each by itself: what an image gets does not depend on
// where in the batch it stands. Where rows are long and a pixel's channels fill cache lines, tiles
// are rectangles, else stretches of pixels.
struct TileGrid {
  int64_t together;       // images of one tile
  int64_t most;           // pixels of a stretch
  int64_t rows, columns;  // of a rectangle; 0: stretches
  int64_t down, across;   // rectangles of an image; with stretches, across counts them

  TileGrid(const DeformConv2dShape& s, int64_t tile, int64_t pixel_bytes) {
    const int64_t pixels = std::max<int64_t>(1, s.out_pixels());
    together = std::max<int64_t>(1, tile / pixels);
    across = ceil_div(pixels, tile);
    most = together * ceil_div(pixels, across);
    rows = columns = 0;
    down = 1;
    if (pixels > tile && pixel_bytes >= 128 && s.ow >= tile / 4) {
      columns = ceil_div(s.ow, ceil_div(s.ow, tile / 4));
      rows = tile / columns;
      across = ceil_div(s.ow, columns);
      down = ceil_div(s.oh, rows);
    }
  }

  int64_t pixels() const { return rows == 0 ? most : rows * columns; }  // of a tile, at most
  int64_t tiles(int64_t images) const { return ceil_div(images, together) * down * across; }

  // Tile i of that many images.
  template <typename Tile>
  void set(const DeformConv2dShape& s, int64_t images, int64_t i, Tile* tile) const {
    const int64_t image = i / (down * across) * together;
    if (rows == 0) {
      const int64_t start = image * s.out_pixels() + i % across * most;
      const int64_t end = std::min(images, image + together) * s.out_pixels();
      return tile->set(s, start, std::min(most, end - start));
    }
    const int64_t row = i / across % down * rows, column = i % across * columns;
    tile->set_rectangle(s, image, row, std::min(rows, s.oh - row), column,
                        std::min(columns, s.ow - column));
  }
};

// Rows [first, first + count) of a [n, rows, out_pixels] tensor over one tile:
// dst[r][i] = src[first_image + image, first + r, pixel].
template <typename acc_t, typename index_t, int64_t kTile>
void load_tile_rows(acc_t (*dst)[kTile], ConstData src, const PixelTile<index_t, kTile>& tile,
                    int64_t first_image, int64_t rows, int64_t first, int64_t count,
                    int64_t out_pixels) {
  for (int64_t r = 0; r < tile.runs; ++r) {
    const auto& run = tile.run[r];
    const int64_t start = ((first_image + run.image) * rows + first) * out_pixels + run.pixel;
    load_rows(dst[0] + run.at, src, start, run.count, count, {kTile, out_pixels});
  }
}

// The way back, for the outputs: src[r][i] to dst[first_image + image, first + r, pixel].
template <typename acc_t, typename index_t, int64_t kTile>
void store_tile_rows(MutableData dst, const PixelTile<index_t, kTile>& tile, int64_t first_image,
                     int64_t rows, int64_t first, const acc_t (*src)[kTile], int64_t count,
                     int64_t out_pixels) {
  for (int64_t r = 0; r < tile.runs; ++r) {
    const auto& run = tile.run[r];
    const int64_t start = ((first_image + run.image) * rows + first) * out_pixels + run.pixel;
    store_rows(dst, start, src[0] + run.at, run.count, count, {out_pixels, kTile});
  }
}

// One tap of the plan: where each pixel of a tile samples. What lies outside has weight and mask 0
// and reads a zero pixel, so that the loops need not ask.
template <typename acc_t, typename index_t, int64_t kTile>
struct TapPlan {
  index_t pixel[4][kTile];  // numbers of v0..v3, see bilinear.h
  acc_t weight[4][kTile];   // 0 unless the sample is inside
  acc_t mask[kTile];        // 1 without a mask
};

// What else the gradients of offset and mask need.
template <typename acc_t, int64_t kTile>
struct TapSlopes {
  acc_t ly[kTile], lx[kTile];
  acc_t inside[kTile], reached[kTile];  // 1 or 0; reached: inside, or on a border with a slope
};

// The pixels that take the place of those outside: every lane its own, or `step` 0 and all the
// same. Adding to one and the same pixel again and again, each addition would wait for the one
// before.
template <typename index_t>
struct ZeroPixels {
  index_t first, step;
};

// slope_at_border: the "torchvision" rule, which keeps the right-hand slope at exactly -1.
template <typename acc_t, typename index_t, int64_t kTile>
void plan_tap(const DeformConv2dShape& s, const PixelTile<index_t, kTile>& tile, index_t tap_y,
              index_t tap_x, const acc_t* dy, const acc_t* dx, const acc_t* mask,
              bool slope_at_border, ZeroPixels<index_t> zeros, TapPlan<acc_t, index_t, kTile>* plan,
              TapSlopes<acc_t, kTile>* slopes) {
  constexpr int kLanes = kFullLanes<acc_t>;
  static_assert(kTile % kLanes == 0, "vectors of pixels do not leave the tile");
  using Number = VectorNumber<acc_t, index_t, kLanes>;
  using V = typename Number::value_t;
  using I = typename Number::index_t;
  const index_t height = static_cast<index_t>(s.h), width = static_cast<index_t>(s.w);
  I zero;
#pragma GCC unroll 16
  for (int j = 0; j < kLanes; ++j) zero[j] = zeros.first + static_cast<index_t>(j) * zeros.step;
  const V one = V{} + acc_t(1);
  for (int64_t i = 0; i < tile.count; i += kLanes) {
    const auto y = locate<Number>(load_vec<I>(tile.y + i) + tap_y, load_vec<V>(dy + i), height);
    const auto x = locate<Number>(load_vec<I>(tile.x + i) + tap_x, load_vec<V>(dx + i), width);
    const auto inside = Number::all(y.inside, x.inside);
    const auto reached = slope_at_border ? Number::all(y.border, x.border) : inside;
    const I first = load_vec<I>(tile.image_pixel + i) + (reached ? y.low * width + x.low : I{});
    const auto top = Number::all(reached, y.low >= 0);
    const auto bottom = Number::all(reached, y.low < height - 1);
    const auto left = x.low >= 0, right = x.low < width - 1;
    store_vec(plan->pixel[0] + i, Number::all(top, left) ? first : zero);
    store_vec(plan->pixel[1] + i, Number::all(top, right) ? first + 1 : zero);
    store_vec(plan->pixel[2] + i, Number::all(bottom, left) ? first + width : zero);
    store_vec(plan->pixel[3] + i, Number::all(bottom, right) ? first + width + 1 : zero);
    const auto inside_value = Number::as_value_mask(inside);
    const auto reached_value = Number::as_value_mask(reached);
    V weight[4];
    bilinear_weights(y.fraction, x.fraction, weight);
    for (int k = 0; k < 4; ++k) store_vec(plan->weight[k] + i, inside_value ? weight[k] : V{});
    store_vec(plan->mask + i, reached_value ? load_vec<V>(mask + i) : V{});
    if (slopes == nullptr) continue;
    store_vec(slopes->ly + i, y.fraction);
    store_vec(slopes->lx + i, x.fraction);
    store_vec(slopes->inside + i, inside_value ? one : V{});
    store_vec(slopes->reached + i, reached_value ? one : V{});
  }
}

// The plan of one tile and deformable group: plan[tap] and, unless it is null, slopes[tap].
template <typename acc_t, typename index_t, int64_t kTile>
void make_plan(const DeformConv2dParams& params, const PixelTile<index_t, kTile>& tile,
               int64_t first_image, int64_t deformable_group, bool slope_at_border,
               ZeroPixels<index_t> zeros, TapPlan<acc_t, index_t, kTile>* plan,
               TapSlopes<acc_t, kTile>* slopes) {
  constexpr int64_t kTogether = 8;  // taps whose rows are read at a time
  const DeformConv2dShape& s = params.shape;
  acc_t offset[2 * kTogether][kTile] = {}, mask[kTogether][kTile];
  std::fill_n(mask[0], kTogether * kTile, acc_t(1));
  const int64_t taps = s.taps(), all_taps = s.deformable_groups * taps;
  for (int64_t first = 0; first < taps; first += kTogether) {
    const int64_t count = std::min(kTogether, taps - first);
    const int64_t row = deformable_group * taps + first;
    load_tile_rows(offset, params.offset, tile, first_image, 2 * all_taps, 2 * row, 2 * count,
                   s.out_pixels());
    if (params.mask.data != nullptr) {
      load_tile_rows(mask, params.mask, tile, first_image, all_taps, row, count, s.out_pixels());
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t t = first + i;
      plan_tap(s, tile, static_cast<index_t>(t / s.kw * s.dilation_h),
               static_cast<index_t>(t % s.kw * s.dilation_w), offset[2 * i], offset[2 * i + 1],
               mask[i], slope_at_border, zeros, plan + t, slopes == nullptr ? nullptr : slopes + t);
    }
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops
