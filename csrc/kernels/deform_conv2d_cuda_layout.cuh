#pragma once
// From Paddle's layouts to those of the kernels, and back.

#include "kernels/deform_conv2d_cuda_plan.cuh"

namespace paddle_ops {
namespace cuda {

constexpr int kTransposeTile = 32;
constexpr int kTransposeThreads = 256;

// Moves [image][row][column] to [image][column][row], a square at a time through shared memory so
// that both sides run along their rows. read(image, row, column) gives a V, write takes it.
template <typename V, typename Read, typename Write>
__device__ __forceinline__ void transpose(int64_t images, int64_t rows, int64_t columns,
                                          const Read& read, const Write& write) {
  __shared__ V square[kTransposeTile][kTransposeTile + 1];
  const int64_t down = ceil_div(rows, kTransposeTile), across = ceil_div(columns, kTransposeTile);
  const int lane = static_cast<int>(threadIdx.x) % kTransposeTile;
  const int first = static_cast<int>(threadIdx.x) / kTransposeTile;
  constexpr int kStep = kTransposeThreads / kTransposeTile;
  for (int64_t tile = blockIdx.x; tile < images * down * across; tile += gridDim.x) {
    const int64_t image = tile / (down * across);
    const int64_t row = tile / across % down * kTransposeTile;
    const int64_t column = tile % across * kTransposeTile;
    for (int i = first; i < kTransposeTile; i += kStep) {
      if (row + i < rows && column + lane < columns) {
        square[i][lane] = read(image, row + i, column + lane);
      }
    }
    __syncthreads();
    for (int i = first; i < kTransposeTile; i += kStep) {
      if (row + lane < rows && column + i < columns) {
        write(image, row + lane, column + i, square[lane][i]);
      }
    }
    __syncthreads();
  }
}

// x [n, c, h * w] to pixels [n, h * w, channels.row], zeros in the padding.
template <typename T>
__global__ void __launch_bounds__(kTransposeThreads)
    to_channels_last(const T* x, T* pixels, int64_t images, int64_t c, int64_t image_pixels,
                     Channels channels) {
  transpose<T>(
      images, channels.row, image_pixels,
      [&](int64_t image, int64_t row, int64_t pixel) {
        const int64_t in_unit = row % channels.padded;
        const int64_t channel = row / channels.padded * channels.unit + in_unit;
        return in_unit < channels.unit ? x[(image * c + channel) * image_pixels + pixel] : T{};
      },
      [&](int64_t image, int64_t row, int64_t pixel, T value) {
        pixels[(image * image_pixels + pixel) * channels.row + row] = value;
      });
}

// The way back, rounding once.
template <typename T>
__global__ void __launch_bounds__(kTransposeThreads)
    from_channels_last(const acc_of<T>* pixels, T* x, int64_t images, int64_t c,
                       int64_t image_pixels, Channels channels) {
  transpose<acc_of<T>>(
      images, image_pixels, channels.row,
      [&](int64_t image, int64_t pixel, int64_t row) {
        return pixels[(image * image_pixels + pixel) * channels.row + row];
      },
      [&](int64_t image, int64_t pixel, int64_t row, acc_of<T> value) {
        const int64_t in_unit = row % channels.padded;
        const int64_t channel = row / channels.padded * channels.unit + in_unit;
        if (in_unit >= channels.unit) return;
        store_element(x + (image * c + channel) * image_pixels + pixel, value);
      });
}

// weight [o, c / groups, taps] to matrices for each unit and tap: with outputs_last,
// [channel of the unit][output of the group, padded], as forward multiplies with it; else
// [output of the group][channel of the unit], as backward does.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    pack_weight(const T* weight, T* packed, DeformConv2dShape s, Channels channels,
                bool outputs_last) {
  const int64_t outputs = outputs_last ? round_up(s.group_out(), 4) : s.group_out();
  const int64_t matrix = outputs * channels.padded;
  grid_stride<int64_t>(channels.units() * s.taps() * matrix, [&](int64_t i) {
    const int64_t at = i % matrix, tap = i / matrix % s.taps(), unit = i / matrix / s.taps();
    const int64_t output = outputs_last ? at % outputs : at / channels.padded;
    const int64_t in_unit = outputs_last ? at / outputs : at % channels.padded;
    const int64_t group = unit / channels.per_group;
    const int64_t channel = unit % channels.per_group * channels.unit + in_unit;
    const bool exists = output < s.group_out() && in_unit < channels.unit;
    const int64_t row = (group * s.group_out() + output) * s.group_in() + channel;
    packed[i] = exists ? weight[row * s.taps() + tap] : T{};
  });
}

inline int64_t packed_weight_size(const DeformConv2dShape& s, const Channels& channels) {
  return channels.units() * s.taps() * round_up(s.group_out(), 4) * channels.padded;
}

}  // namespace cuda
}  // namespace paddle_ops
