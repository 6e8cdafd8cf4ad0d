#pragma once
// CPU loops of sigmoid_cross_entropy_with_logits, compiled once per instruction set.
//
// A task is a run of chunks; a chunk is small enough that its rows stay in the first-level cache.
// Rows that are already in the computing type are used in place, others are converted chunk by
// chunk, so the formulas below see only plain arrays, which the compiler turns into vector code.

#include "kernels/common/target.h"
// target.h comes first: what follows is compiled for that target.
#include "kernels/common/parallel_for.h"
#include "kernels/common/rows.h"
#include "kernels/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {
namespace PO_TARGET {
namespace sce {

constexpr int kChunk = 1024;
constexpr int kTask = 16 * kChunk;

// A row of an input: in place if it has the computing type, else converted into the buffer.
template <typename acc_t>
struct InputRow {
  acc_t buffer[kChunk];

  const acc_t* read(ConstData source, int64_t start, int count) {
    if (source.data == nullptr) return nullptr;
    if (source.dtype == (sizeof(acc_t) == 8 ? DType::kFloat64 : DType::kFloat32)) {
      return static_cast<const acc_t*>(source.data) + start;
    }
    load_row(buffer, source, start, count);
    return buffer;
  }
};

// A row of a result: the tensor's own memory if it has the computing type, else the buffer, which
// write() then converts.
template <typename acc_t>
struct OutputRow {
  acc_t buffer[kChunk];

  acc_t* open(MutableData target, int64_t start) {
    if (target.dtype == (sizeof(acc_t) == 8 ? DType::kFloat64 : DType::kFloat32)) {
      return static_cast<acc_t*>(target.data) + start;
    }
    return buffer;
  }
  void write(MutableData target, int64_t start, const acc_t* row, int count) {
    if (row == buffer) store_row(target, start, buffer, count);
  }
};

// Calls body(start, count) for every chunk of the tensor.
template <typename index_t, typename Body>
void for_each_chunk(const SigmoidCrossEntropyParams& p, const Body& body) {
  const index_t total = static_cast<index_t>(p.count);
  const int64_t tasks = ceil_div(p.count, kTask);
  const int threads = p.count <= kTask ? 1 : resolve_num_threads(p.num_threads);
  parallel_for(tasks, threads, [&](int64_t task, int) {
    index_t start = static_cast<index_t>(task) * kTask;
    for (int chunk = 0; chunk < kTask / kChunk && start < total; ++chunk) {
      const int count = static_cast<int>(std::min<index_t>(kChunk, total - start));
      body(static_cast<int64_t>(start), count);
      if (total - start <= kChunk) return;  // start + kChunk could overflow
      start += kChunk;
    }
  });
}

// The number of elements that are not ignored. Integers: the order of addition does not matter.
template <typename acc_t, typename index_t>
int64_t count_kept(const SigmoidCrossEntropyParams& p) {
  const acc_t ignore_index = static_cast<acc_t>(p.ignore_index);
  int64_t kept = 0;
  for_each_chunk<index_t>(p, [&](int64_t start, int count) {
    InputRow<acc_t> label;
    const acc_t* y = label.read(p.label, start, count);
    int here = 0;
    for (int i = 0; i < count; ++i) here += sce_ignored(y[i], ignore_index) ? 0 : 1;
    __atomic_fetch_add(&kept, here, __ATOMIC_RELAXED);
  });
  return kept;
}

template <typename acc_t, typename index_t>
SceScalars<acc_t> scalars(const SigmoidCrossEntropyParams& p) {
  const acc_t ignore_index = static_cast<acc_t>(p.ignore_index);
  return {ignore_index, p.normalize ? sce_scale<acc_t>(count_kept<acc_t, index_t>(p)) : acc_t(1)};
}

template <PosWeightForm form, typename acc_t>
void loss_row(acc_t* __restrict out, const acc_t* x, const acc_t* y, const acc_t* w,
              SceScalars<acc_t> s, int count) {
  for (int i = 0; i < count; ++i) {
    const acc_t weight = form == PosWeightForm::kNone ? acc_t(1) : w[i];
    out[i] = sce_out<form>(x[i], y[i], weight, s);
  }
}

template <PosWeightForm form, typename acc_t>
void grad_x_row(acc_t* __restrict grad_x, const acc_t* x, const acc_t* y, const acc_t* w,
                const acc_t* g, SceScalars<acc_t> s, int count) {
  for (int i = 0; i < count; ++i) {
    const acc_t weight = form == PosWeightForm::kNone ? acc_t(1) : w[i];
    grad_x[i] = sce_backward_x<form>(x[i], y[i], weight, g[i], s);
  }
}

template <typename acc_t>
void grad_label_row(acc_t* __restrict grad_label, const acc_t* x, const acc_t* y, const acc_t* g,
                    SceScalars<acc_t> s, int count) {
  for (int i = 0; i < count; ++i) grad_label[i] = sce_backward_label(x[i], y[i], g[i], s);
}

template <PosWeightForm form, typename acc_t>
void grad_pos_weight_row(acc_t* __restrict grad_w, const acc_t* x, const acc_t* y, const acc_t* g,
                         SceScalars<acc_t> s, int count) {
  for (int i = 0; i < count; ++i) grad_w[i] = sce_backward_pos_weight<form>(x[i], y[i], g[i], s);
}

// Rows of the double backward pass; u, v and t are null when absent.
template <typename acc_t>
struct SecondOrder {
  const acc_t *x, *y, *w, *g, *u, *v, *t;
  SceScalars<acc_t> s;

  SceElement<acc_t> at(int i) const {
    const auto read = [i](const acc_t* row, acc_t absent) { return row ? row[i] : absent; };
    return {x[i], y[i], read(w, 1), g[i], read(u, 0), read(v, 0), read(t, 0)};
  }
};

template <PosWeightForm form, typename acc_t>
void grad_grad_out_row(acc_t* __restrict out, const SecondOrder<acc_t>& r, int count) {
  for (int i = 0; i < count; ++i) out[i] = sce_second_grad_out<form>(r.at(i), r.s);
}

template <PosWeightForm form, typename acc_t>
void second_x_row(acc_t* __restrict out, const SecondOrder<acc_t>& r, int count) {
  for (int i = 0; i < count; ++i) out[i] = sce_second_x<form>(r.at(i), r.s);
}

template <typename acc_t>
void second_label_row(acc_t* __restrict out, const SecondOrder<acc_t>& r, int count) {
  for (int i = 0; i < count; ++i) out[i] = sce_second_label(r.at(i), r.s);
}

template <PosWeightForm form, typename acc_t>
void second_pos_weight_row(acc_t* __restrict out, const SecondOrder<acc_t>& r, int count) {
  for (int i = 0; i < count; ++i) out[i] = sce_second_pos_weight<form>(r.at(i), r.s);
}

// Computes one row of a result, if it is wanted.
template <typename acc_t, typename Compute>
void into(MutableData target, int64_t start, int count, const Compute& compute) {
  if (target.data == nullptr) return;
  OutputRow<acc_t> row;
  acc_t* memory = row.open(target, start);
  compute(memory);
  row.write(target, start, memory, count);
}

struct Forward {
  template <PosWeightForm form, typename acc_t, typename index_t>
  static void run(const SigmoidCrossEntropyParams& p) {
    const SceScalars<acc_t> s = scalars<acc_t, index_t>(p);
    for_each_chunk<index_t>(p, [&](int64_t start, int count) {
      InputRow<acc_t> x_row, y_row, w_row;
      const acc_t* x = x_row.read(p.x, start, count);
      const acc_t* y = y_row.read(p.label, start, count);
      const acc_t* w = w_row.read(p.pos_weight, start, count);
      into<acc_t>(p.out, start, count, [&](acc_t* out) { loss_row<form>(out, x, y, w, s, count); });
    });
  }
};

struct Backward {
  template <PosWeightForm form, typename acc_t, typename index_t>
  static void run(const SigmoidCrossEntropyParams& p) {
    const SceScalars<acc_t> s = scalars<acc_t, index_t>(p);
    for_each_chunk<index_t>(p, [&](int64_t start, int count) {
      InputRow<acc_t> x_row, y_row, w_row, g_row;
      const acc_t* x = x_row.read(p.x, start, count);
      const acc_t* y = y_row.read(p.label, start, count);
      const acc_t* w = w_row.read(p.pos_weight, start, count);
      const acc_t* g = g_row.read(p.grad_out, start, count);
      into<acc_t>(p.grad_x, start, count,
                  [&](acc_t* out) { grad_x_row<form>(out, x, y, w, g, s, count); });
      into<acc_t>(p.grad_label, start, count,
                  [&](acc_t* out) { grad_label_row(out, x, y, g, s, count); });
      into<acc_t>(p.grad_pos_weight, start, count,
                  [&](acc_t* out) { grad_pos_weight_row<form>(out, x, y, g, s, count); });
    });
  }
};

struct DoubleBackward {
  template <PosWeightForm form, typename acc_t, typename index_t>
  static void run(const SigmoidCrossEntropyParams& p) {
    const SceScalars<acc_t> s = scalars<acc_t, index_t>(p);
    for_each_chunk<index_t>(p, [&](int64_t start, int count) {
      InputRow<acc_t> x, y, w, g, u, v, t;
      const SecondOrder<acc_t> rows{x.read(p.x, start, count),
                                    y.read(p.label, start, count),
                                    w.read(p.pos_weight, start, count),
                                    g.read(p.grad_out, start, count),
                                    u.read(p.grad_grad_x, start, count),
                                    v.read(p.grad_grad_label, start, count),
                                    t.read(p.grad_grad_pos_weight, start, count),
                                    s};
      into<acc_t>(p.grad_grad_out, start, count,
                  [&](acc_t* out) { grad_grad_out_row<form>(out, rows, count); });
      into<acc_t>(p.grad_x, start, count,
                  [&](acc_t* out) { second_x_row<form>(out, rows, count); });
      into<acc_t>(p.grad_label, start, count,
                  [&](acc_t* out) { second_label_row(out, rows, count); });
      into<acc_t>(p.grad_pos_weight, start, count,
                  [&](acc_t* out) { second_pos_weight_row<form>(out, rows, count); });
    });
  }
};

template <typename Pass, typename acc_t, typename index_t>
void run_form(const SigmoidCrossEntropyParams& p) {
  switch (p.form) {
    case PosWeightForm::kNone:
      return Pass::template run<PosWeightForm::kNone, acc_t, index_t>(p);
    case PosWeightForm::kLog1p:
      return Pass::template run<PosWeightForm::kLog1p, acc_t, index_t>(p);
    case PosWeightForm::kSoftplus:
      return Pass::template run<PosWeightForm::kSoftplus, acc_t, index_t>(p);
  }
}

template <typename Pass, typename acc_t>
void run_width(const SigmoidCrossEntropyParams& p) {
  uses_int32(p) ? run_form<Pass, acc_t, int32_t>(p) : run_form<Pass, acc_t, int64_t>(p);
}

template <typename Pass>
void run(const SigmoidCrossEntropyParams& p) {
  accumulates_in_double(p.x.dtype) ? run_width<Pass, double>(p) : run_width<Pass, float>(p);
}

}  // namespace sce
}  // namespace PO_TARGET
}  // namespace paddle_ops
