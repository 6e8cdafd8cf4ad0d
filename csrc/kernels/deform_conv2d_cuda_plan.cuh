#pragma once
// What the CUDA kernels of deform_conv2d share: how channels are laid out, what a launch works on,
// and the sampling plan: where the four neighbours of a sample lie and how much each counts. It is
// computed once for a pixel, tap and deformable group, and serves all of the group's channels.

#include <cmath>

#include "kernels/common/gemm_tensor.cuh"
#include "kernels/deform_conv2d.h"

namespace paddle_ops {
namespace cuda {

template <typename T>
using acc_of = typename std::conditional<std::is_same<T, double>::value, double, float>::type;

// Images are sampled with their channels last, so that a neighbour is a few wide loads. Channels
// come in units, the largest runs that no boundary of a group or deformable group cuts; each unit
// is padded with zeros to a multiple of 4 channels.
struct Channels {
  int unit, padded;    // channels of a unit, without and with padding
  int per_group;       // units of a group
  int per_deformable;  // units of a deformable group
  int64_t row;         // elements of a pixel

  static Channels of(const DeformConv2dShape& s) {
    int64_t unit = s.group_in(), rest = s.c / s.deformable_groups;
    while (rest != 0) {
      const int64_t next = unit % rest;
      unit = rest;
      rest = next;
    }
    if (unit == 0) unit = 1;  // no channels at all
    const int64_t padded = round_up(unit, 4);
    return {static_cast<int>(unit), static_cast<int>(padded), static_cast<int>(s.group_in() / unit),
            static_cast<int>(s.c / s.deformable_groups / unit), s.c / unit * padded};
  }
  __host__ __device__ int64_t units() const { return row / padded; }
};

// One launch: `params` is about the images of one chunk only.
template <typename T>
struct Launch {
  DeformConv2dParams params;
  Channels channels;
  const T* pixels;  // [n, h * w, channels.row]
  const T* weight;  // packed, see pack_weight
};

template <typename T>
__device__ __forceinline__ acc_of<T> load_plan_element(ConstData from, int64_t at) {
  // Offset and mask may be float where x is half.
  if (sizeof(T) == 2 && from.dtype == DType::kFloat32)
    return static_cast<const float*>(from.data)[at];
  return load_element<acc_of<T>>(static_cast<const T*>(from.data) + at);
}

// One number as the formulas' Number, see bilinear.h.
template <typename T, typename index_type>
struct ScalarNumber {
  using scalar_t = T;
  using value_t = T;
  using index_t = index_type;
  using unsigned_t = typename std::make_unsigned<index_t>::type;
  using index_mask = bool;

  template <typename... M>
  static PO_HOSTDEVICE bool all(M... masks) {
    return (masks && ...);
  }
  template <typename... M>
  static PO_HOSTDEVICE bool any(M... masks) {
    return (masks || ...);
  }
  static PO_HOSTDEVICE T floor(T v) { return std::floor(v); }
  static PO_HOSTDEVICE index_t to_index(T v) { return static_cast<index_t>(v); }
  static PO_HOSTDEVICE index_t add_wrapping(index_t a, index_t b) {
    return static_cast<index_t>(static_cast<unsigned_t>(a) + static_cast<unsigned_t>(b));
  }
  static PO_HOSTDEVICE bool as_index_mask(bool m) { return m; }
};

// An output pixel of the chunk.
template <typename index_t>
struct OutPixel {
  index_t image, pixel;  // pixel < oh * ow
  index_t y, x;          // where tap (0, 0) samples when its offset is 0
  bool exists;

  static __device__ __forceinline__ OutPixel at(const DeformConv2dShape& s, int64_t number) {
    const index_t pixels = static_cast<index_t>(s.out_pixels()), ow = static_cast<index_t>(s.ow);
    const bool exists = number < s.n * s.out_pixels();
    const index_t i = exists ? static_cast<index_t>(number) : 0;
    const index_t pixel = i % pixels;
    return {i / pixels, pixel,
            pixel / ow * static_cast<index_t>(s.stride_h) - static_cast<index_t>(s.pad_top),
            pixel % ow * static_cast<index_t>(s.stride_w) - static_cast<index_t>(s.pad_left),
            exists};
  }

  // Where it lies in output 0 of its image, in out and grad_out; -1 where it does not exist.
  __device__ __forceinline__ index_t first(const DeformConv2dShape& s) const {
    const index_t of_image = static_cast<index_t>(s.o) * static_cast<index_t>(s.out_pixels());
    return exists ? image * of_image + pixel : index_t(-1);
  }
};

// Where one pixel samples, for one tap. Corners are v0..v3 of bilinear.h.
template <typename acc_t, typename index_t>
struct Sample {
  index_t row[4];   // where the corner's channels start in `pixels`; -1: outside of the image
  acc_t weight[4];  // 0 unless the sample is inside
  acc_t mask;       // 1 without a mask
  acc_t ly, lx;
  index_t y;             // of v0
  bool inside, reached;  // reached: inside, or on a border where the slope counts
};

// slope_at_border: the "torchvision" rule, which keeps the right-hand slope at exactly -1.
template <typename T, typename index_t>
__device__ __forceinline__ Sample<acc_of<T>, index_t> sample_of(const Launch<T>& launch,
                                                                const OutPixel<index_t>& at,
                                                                int deformable_group, int tap,
                                                                bool slope_at_border) {
  using acc_t = acc_of<T>;
  using Number = ScalarNumber<acc_t, index_t>;
  const DeformConv2dParams& p = launch.params;
  const DeformConv2dShape& s = p.shape;
  Sample<acc_t, index_t> sample{{-1, -1, -1, -1}, {0, 0, 0, 0}, 1, 0, 0, 0, false, false};
  if (!at.exists) return sample;
  const index_t pixels = static_cast<index_t>(s.out_pixels()), kw = static_cast<index_t>(s.kw);
  const index_t taps = static_cast<index_t>(s.taps());
  const index_t row =
      (at.image * static_cast<index_t>(s.deformable_groups) + deformable_group) * taps + tap;
  const acc_t dy = load_plan_element<T>(p.offset, 2 * row * pixels + at.pixel);
  const acc_t dx = load_plan_element<T>(p.offset, (2 * row + 1) * pixels + at.pixel);
  if (p.mask.data != nullptr) sample.mask = load_plan_element<T>(p.mask, row * pixels + at.pixel);
  const index_t height = static_cast<index_t>(s.h), width = static_cast<index_t>(s.w);
  const index_t tap_y = tap / kw * static_cast<index_t>(s.dilation_h);
  const index_t tap_x = tap % kw * static_cast<index_t>(s.dilation_w);
  const auto y = locate<Number>(at.y + tap_y, dy, height);
  const auto x = locate<Number>(at.x + tap_x, dx, width);
  sample.inside = y.inside && x.inside;
  sample.reached = slope_at_border ? y.border && x.border : sample.inside;
  if (!sample.reached) return sample;
  sample.y = y.low;
  sample.ly = y.fraction;
  sample.lx = x.fraction;
  bilinear_weights(y.fraction, x.fraction, sample.weight);
  const index_t length = static_cast<index_t>(launch.channels.row);
  const index_t first = (at.image * height + y.low) * width + x.low;
  const bool top = y.low >= 0, bottom = y.low < height - 1;
  const bool left = x.low >= 0, right = x.low < width - 1;
  if (top && left) sample.row[0] = first * length;
  if (top && right) sample.row[1] = (first + 1) * length;
  if (bottom && left) sample.row[2] = (first + width) * length;
  if (bottom && right) sample.row[3] = (first + width + 1) * length;
  return sample;
}

// 4 channels of a corner; nothing is read outside of the image, where a value times 0 may be NaN.
template <typename T, typename index_t>
__device__ __forceinline__ RawPack<T, 4> load_corner(const T* pixels, index_t row,
                                                     index_t channel) {
  if (row < 0) return {};
  return *reinterpret_cast<const RawPack<T, 4>*>(pixels + (row + channel));
}

// The blend of 4 channels. weight: of the corners, times the mask.
template <typename T>
__device__ __forceinline__ void blend(const acc_of<T>* weight, const RawPack<T, 4>* corner,
                                      acc_of<T>* to) {
  using acc_t = acc_of<T>;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    acc_t v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_element<acc_t>(corner[k].v + j);
    to[j] = bilinear_value(weight, v[0], v[1], v[2], v[3]);
  }
}

// The plan of kCount pixels for one tap, as much of it as sampling needs.
template <typename acc_t, typename index_t, int kCount>
struct SamplePlan {
  index_t row[4][kCount];
  acc_t weight[4][kCount];  // times the mask

  __device__ __forceinline__ void set(int i, const Sample<acc_t, index_t>& sample) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      row[k][i] = sample.row[k];
      weight[k][i] = sample.inside ? sample.weight[k] * sample.mask : acc_t(0);
    }
  }
};

}  // namespace cuda
}  // namespace paddle_ops
