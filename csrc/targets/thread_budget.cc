#include "targets/thread_budget.h"

#include <algorithm>
#include <atomic>

#include "kernels/common/parallel_for.h"

namespace paddle_ops {
namespace {

std::atomic<int> calls{0};

}  // namespace

ThreadBudget::ThreadBudget(int requested) {
  const int others = calls.fetch_add(1);
  threads_ =
      requested > 0 ? requested : std::max(1, baseline::resolve_num_threads(0) / (1 + others));
}

ThreadBudget::~ThreadBudget() { calls.fetch_sub(1); }

}  // namespace paddle_ops
