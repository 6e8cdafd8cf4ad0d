#pragma once
// What is launched, in which order, and the scratch memory that it takes. Images are worked on in
// chunks: as many at a time as keep the scratch memory in bounds, and all of a chunk in one launch
// of each kernel.

#include <algorithm>
#include <type_traits>

#include "kernels/common/arena.h"
#include "kernels/deform_conv2d_cuda_backward_weight.cuh"
#include "kernels/deform_conv2d_cuda_forward.cuh"
#include "kernels/deform_conv2d_cuda_layout.cuh"
#include "kernels/deform_conv2d_cuda_ordered.cuh"

namespace paddle_ops {
namespace cuda {

constexpr int64_t kScratchBytes = INT64_C(256) << 20;  // where the caller does not say

// Less than 2^31, so that 32-bit indices reach all of a chunk.
inline int64_t scratch_bytes(const DeformConv2dParams& p) {
  const int64_t bytes = p.scratch_bytes > 0 ? p.scratch_bytes : kScratchBytes;
  return std::min(bytes, INT64_C(0x7fffffff));
}

// Work for one stream. After an error nothing more is done.
class Queue {
 public:
  explicit Queue(cudaStream_t stream) : stream_(stream) {}
  cudaError_t error() const { return error_; }

  template <typename... Parameters>
  void launch(void (*kernel)(Parameters...), int64_t blocks, int threads,
              typename SameType<Parameters>::type... arguments) {
    if (error_ != cudaSuccess || blocks == 0) return;
    error_ =
        cuda::launch(kernel, dim3(grid_size(blocks, 1)), dim3(threads), 0, stream_, arguments...);
  }

  void zero(void* to, int64_t bytes) {
    if (error_ != cudaSuccess || bytes == 0) return;
    error_ = cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_);
  }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

// How many images a chunk has, if each takes `bytes` bytes of scratch memory.
inline int64_t chunk_of(const DeformConv2dParams& p, int64_t bytes) {
  return std::max<int64_t>(1, std::min(p.shape.n, scratch_bytes(p) / std::max<int64_t>(1, bytes)));
}

// The same call for images [first, first + images).
inline DeformConv2dParams chunk_at(const DeformConv2dParams& whole, int64_t first, int64_t images) {
  DeformConv2dParams p = whole;
  const DeformConv2dShape& s = whole.shape;
  const int64_t taps = s.deformable_groups * s.taps() * s.out_pixels();
  const auto skip = [first](auto* to, int64_t per_image) {
    if (to->data == nullptr) return;
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(to->data)>>,
                                    const char, char>;
    to->data = static_cast<Byte*>(to->data) + first * per_image * size_of(to->dtype);
  };
  p.shape.n = images;
  skip(&p.x, s.c * s.image_pixels());
  skip(&p.grad_x, s.c * s.image_pixels());
  skip(&p.offset, 2 * taps);
  skip(&p.grad_offset, 2 * taps);
  skip(&p.mask, taps);
  skip(&p.grad_mask, taps);
  skip(&p.out, s.o * s.out_pixels());
  skip(&p.grad_out, s.o * s.out_pixels());
  return p;
}

// What both directions do first.
template <typename T>
class DeformConv2dCuda {
 protected:
  DeformConv2dCuda(const DeformConv2dParams& params, int64_t bytes_per_channel, Arena* arena)
      : p_(params), s_(params.shape), channels_(Channels::of(params.shape)) {
    chunk_ = chunk_of(params, s_.image_pixels() * channels_.row * bytes_per_channel);
    packed_ = arena->take<T>(packed_weight_size(s_, channels_));
  }

  void pack_weights(bool outputs_last, Queue* queue) const {
    queue->launch(pack_weight<T>, ceil_div(packed_weight_size(s_, channels_), kBlockThreads),
                  kBlockThreads, static_cast<const T*>(p_.weight.data), packed_, s_, channels_,
                  outputs_last);
  }
  int64_t pixels_size() const { return chunk_ * s_.image_pixels() * channels_.row; }
  int64_t squares(int64_t images) const {
    return images * ceil_div(s_.image_pixels(), kTransposeTile) *
           ceil_div(channels_.row, kTransposeTile);
  }
  void take_pixels(const DeformConv2dParams& chunk, T* pixels, Queue* queue) const {
    queue->launch(to_channels_last<T>, squares(chunk.shape.n), kTransposeThreads,
                  static_cast<const T*>(chunk.x.data), pixels, chunk.shape.n, s_.c,
                  s_.image_pixels(), channels_);
  }

  const DeformConv2dParams& p_;
  const DeformConv2dShape& s_;
  Channels channels_;
  int64_t chunk_;  // images
  T* packed_;
};

template <typename T, typename index_t>
class DeformConv2dForwardCuda : DeformConv2dCuda<T> {
  using Base = DeformConv2dCuda<T>;
  using Base::chunk_, Base::channels_, Base::p_, Base::s_, Base::packed_;

 public:
  DeformConv2dForwardCuda(const DeformConv2dParams& params, Arena* arena)
      : Base(params, sizeof(T), arena) {
    pixels_ = arena->take<T>(Base::pixels_size());
  }

  cudaError_t run(cudaStream_t stream) {
    using acc_t = acc_of<T>;
    Queue queue(stream);
    if (s_.n * s_.out_pixels() == 0 || s_.o == 0) return queue.error();
    Base::pack_weights(true, &queue);
    for (int64_t n = 0; n < s_.n; n += chunk_) {
      const DeformConv2dParams chunk = chunk_at(p_, n, std::min(chunk_, s_.n - n));
      Base::take_pixels(chunk, pixels_, &queue);
      const Launch<T> launch{chunk, channels_, pixels_, packed_};
      // A tile wider than the outputs is work for nothing; one narrower samples once more.
      if (s_.group_out() <= 16) {
        run_tiles<GemmTile<acc_t, 128, 8, 4, 2>>(launch, &queue);
      } else if (s_.group_out() <= 64 || sizeof(acc_t) == 8) {
        run_tiles<GemmTile<acc_t, 64, 64, 8, 4>>(launch, &queue);
      } else {
        run_tiles<GemmTile<acc_t, 64, sizeof(acc_t) == 8 ? 64 : 128, 8, 4>>(launch, &queue);
      }
    }
    return queue.error();
  }

 private:
  template <typename Tile>
  void run_tiles(const Launch<T>& launch, Queue* queue) const {
    const int64_t tiles = ceil_div(launch.params.shape.n * s_.out_pixels(), Tile::kM) * s_.groups *
                          ceil_div(s_.group_out(), Tile::kN);
    queue->launch(deform_conv2d_forward<T, index_t, Tile>, tiles, Tile::kThreads, launch);
  }

  T* pixels_;
};

template <typename T, typename index_t>
class DeformConv2dBackwardCuda : DeformConv2dCuda<T> {
  using acc_t = acc_of<T>;
  using Base = DeformConv2dCuda<T>;
  using Base::chunk_, Base::channels_, Base::p_, Base::s_, Base::packed_;

 public:
  DeformConv2dBackwardCuda(const DeformConv2dParams& params, Arena* arena)
      : Base(params, bytes_per_channel(params), arena) {
    if (p_.grad_bias.data != nullptr) bias_partial_ = arena->take<double>(bias_parts() * s_.o);
    if (empty()) return;
    if (reads_pixels(p_)) pixels_ = arena->take<T>(Base::pixels_size());
    if (wants_x(p_)) grad_pixels_ = arena->take<acc_t>(Base::pixels_size());
    if (wants_x(p_) && p_.deterministic) {
      grad_columns_ = arena->take<acc_t>(ordered_pixels() * s_.taps() * channels_.row);
    }
    if (wants_weight(p_)) {
      split_ = choose_split();
      weight_partial_ = arena->take<double>(split_.parts * weight_size());
    }
  }

  cudaError_t run(cudaStream_t stream) {
    Queue queue(stream);
    if (p_.grad_bias.data != nullptr) run_bias(&queue);
    if (empty()) {
      zero_all(&queue);
      return queue.error();
    }
    if (wants_x(p_) || wants_offset(p_)) Base::pack_weights(false, &queue);
    for (int64_t n = 0; n < s_.n; n += chunk_) {
      const DeformConv2dParams chunk = chunk_at(p_, n, std::min(chunk_, s_.n - n));
      if (reads_pixels(p_)) Base::take_pixels(chunk, pixels_, &queue);
      const Launch<T> launch{chunk, channels_, pixels_, packed_};
      if (wants_x(p_) || wants_offset(p_)) run_data(launch, &queue);
      if (wants_weight(p_)) run_weight(launch, n == 0, &queue);
    }
    if (wants_weight(p_)) {
      queue.launch(sum_parts<T>, ceil_div(weight_size(), kBlockThreads), kBlockThreads,
                   weight_partial_, split_.parts, weight_size(),
                   static_cast<T*>(p_.grad_weight.data));
    }
    return queue.error();
  }

 private:
  // Few channels to a unit would leave most of a wide tile empty.
  using Wide = GemmTile<acc_t, 64, 64, 8, 4>;
  using NarrowData = GemmTile<acc_t, 128, 8, 4, 2>;
  using NarrowWeight = GemmTile<acc_t, 64, 8, 4, 1>;
  static constexpr int64_t kWantedBlocks = 2048;  // for grad_weight: enough for any GPU

  static bool wants_x(const DeformConv2dParams& p) { return p.grad_x.data != nullptr; }
  static bool wants_offset(const DeformConv2dParams& p) {
    return p.grad_offset.data != nullptr || p.grad_mask.data != nullptr;
  }
  static bool wants_weight(const DeformConv2dParams& p) { return p.grad_weight.data != nullptr; }
  static bool reads_pixels(const DeformConv2dParams& p) {
    return wants_offset(p) || wants_weight(p);
  }
  static int64_t bytes_per_channel(const DeformConv2dParams& p) {
    return (reads_pixels(p) ? sizeof(T) : 0) + (wants_x(p) ? sizeof(acc_t) : 0);
  }
  bool empty() const { return s_.n * s_.out_pixels() == 0 || s_.o == 0 || s_.c == 0; }
  bool narrow() const { return channels_.padded <= 16; }
  int64_t weight_size() const { return s_.o * s_.group_in() * s_.taps(); }
  int64_t bias_parts() const {
    return std::max<int64_t>(1, std::min<int64_t>(64, s_.n * s_.out_pixels() / 2048));
  }

  // Output pixels whose column gradients exist at a time, when the order of additions matters.
  int64_t ordered_pixels() const {
    const int64_t bytes = s_.taps() * channels_.row * static_cast<int64_t>(sizeof(acc_t));
    const int64_t pixels = scratch_bytes(p_) / bytes;
    const int64_t whole =
        pixels < Wide::kM ? std::max<int64_t>(1, pixels) : pixels - pixels % Wide::kM;
    return std::min(chunk_ * s_.out_pixels(), whole);
  }

  WeightSplit choose_split() const {
    const int64_t wide = narrow() ? NarrowWeight::kN : Wide::kN;
    const int64_t tiles = channels_.units() * s_.taps() * ceil_div(s_.group_out(), Wide::kM) *
                          ceil_div(channels_.padded, wide);
    const int64_t pixels = chunk_ * s_.out_pixels();
    const int64_t bytes = weight_size() * static_cast<int64_t>(sizeof(double));
    const int64_t parts = std::min({ceil_div(kWantedBlocks, tiles), ceil_div(pixels, 512),
                                    std::max<int64_t>(1, scratch_bytes(p_) / 4 / bytes)});
    const int64_t length = round_up(ceil_div(pixels, parts), Wide::kThreads);
    return {ceil_div(pixels, length), length};
  }

  void run_data(const Launch<T>& launch, Queue* queue) const {
    const DeformConv2dShape& s = launch.params.shape;
    const int64_t pixels = s.n * s.out_pixels();
    if (wants_x(p_)) {
      queue->zero(grad_pixels_, s.n * s.image_pixels() * channels_.row * sizeof(acc_t));
    }
    const int64_t step = grad_columns_ != nullptr ? ordered_pixels() : pixels;
    for (int64_t first = 0; first < pixels; first += step) {
      const BackwardLaunch<T> part{
          launch,          grad_pixels_, grad_columns_, first, std::min(step, pixels - first),
          wants_offset(p_)};
      narrow() ? run_data_tiles<NarrowData>(part, queue) : run_data_tiles<Wide>(part, queue);
      if (grad_columns_ != nullptr) run_ordered(part, queue);
    }
    if (wants_x(p_)) {
      queue->launch(from_channels_last<T>, Base::squares(s.n), kTransposeThreads, grad_pixels_,
                    static_cast<T*>(launch.params.grad_x.data), s.n, s_.c, s_.image_pixels(),
                    channels_);
    }
  }

  template <typename Tile>
  void run_data_tiles(const BackwardLaunch<T>& launch, Queue* queue) const {
    queue->launch(deform_conv2d_backward_data<T, index_t, Tile>,
                  ceil_div(launch.pixels, Tile::kM) * s_.deformable_groups * s_.taps(),
                  Tile::kThreads, launch);
  }

  void run_ordered(const BackwardLaunch<T>& launch, Queue* queue) const {
    const int64_t vectors = static_cast<int64_t>(channels_.per_deformable) * channels_.padded / 4;
    int lanes = 1;
    while (lanes < 32 && lanes < vectors) lanes *= 2;
    const int64_t images = launch.pixels / s_.out_pixels() + 2;  // at most
    queue->launch(deform_conv2d_ordered<T, index_t>,
                  images * s_.deformable_groups * ceil_div(s_.h, kOrderedThreads / lanes) *
                      ceil_div(vectors, lanes),
                  kOrderedThreads, launch, lanes);
  }

  void run_weight(const Launch<T>& launch, bool first_chunk, Queue* queue) const {
    narrow() ? run_weight_tiles<NarrowWeight>(launch, first_chunk, queue)
             : run_weight_tiles<Wide>(launch, first_chunk, queue);
  }

  template <typename Tile>
  void run_weight_tiles(const Launch<T>& launch, bool first_chunk, Queue* queue) const {
    queue->launch(deform_conv2d_backward_weight<T, index_t, Tile>,
                  split_.parts * channels_.units() * s_.taps() *
                      ceil_div(s_.group_out(), Tile::kM) * ceil_div(channels_.padded, Tile::kN),
                  Tile::kThreads, launch, split_, weight_partial_, first_chunk);
  }

  void run_bias(Queue* queue) const {
    const int64_t parts = bias_parts();
    queue->launch(deform_conv2d_backward_bias<T>, parts * s_.o, kBlockThreads,
                  static_cast<const T*>(p_.grad_out.data), s_, parts, bias_partial_);
    queue->launch(sum_parts<T>, ceil_div(s_.o, kBlockThreads), kBlockThreads, bias_partial_, parts,
                  s_.o, static_cast<T*>(p_.grad_bias.data));
  }

  // Nothing to sum over: every gradient but the bias's is 0.
  void zero_all(Queue* queue) const {
    const int64_t taps = s_.n * s_.deformable_groups * s_.taps() * s_.out_pixels();
    const auto zero = [queue](MutableData to, int64_t elements) {
      if (to.data != nullptr) queue->zero(to.data, elements * size_of(to.dtype));
    };
    zero(p_.grad_x, s_.n * s_.c * s_.image_pixels());
    zero(p_.grad_offset, 2 * taps);
    zero(p_.grad_mask, taps);
    zero(p_.grad_weight, weight_size());
  }

  T* pixels_ = nullptr;
  acc_t *grad_pixels_ = nullptr, *grad_columns_ = nullptr;
  double *weight_partial_ = nullptr, *bias_partial_ = nullptr;
  WeightSplit split_{};
};

// Channels, outputs and taps are counted in 32 bits whatever the index type.
inline bool can_count(const DeformConv2dShape& s) {
  return std::max({s.c, s.o, s.taps()}) <= INT64_C(1) << 30;
}

template <typename Loops>
int64_t deform_conv2d_workspace(const DeformConv2dParams& params) {
  if (!can_count(params.shape)) return 0;
  Arena arena;
  Loops(params, &arena);
  return arena.size();
}

template <typename Loops>
cudaError_t deform_conv2d_run(const DeformConv2dParams& params, void* workspace,
                              cudaStream_t stream) {
  if (!can_count(params.shape)) return cudaErrorInvalidValue;
  Arena arena = Arena::over(workspace);
  return Loops(params, &arena).run(stream);
}

}  // namespace cuda
}  // namespace paddle_ops
