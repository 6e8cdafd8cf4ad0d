#pragma once
// Threads through OpenMP. The thread count never changes a result: work is cut by shape alone.

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "kernels/common/target.h"

namespace paddle_ops {
namespace PO_TARGET {

// PADDLE_OPS_NUM_THREADS when it is set to a positive number, else the CPUs this process may use:
// Paddle sets OMP_NUM_THREADS=1 at import, so OpenMP's own default says nothing.
inline int default_num_threads() {
  if (const char* text = std::getenv("PADDLE_OPS_NUM_THREADS")) {
    const int wanted = std::atoi(text);
    if (wanted > 0) return wanted;
  }
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
  return 1;
}

// requested > 0 is taken as it is; 0 means the default, but one thread inside a parallel caller.
inline int resolve_num_threads(int requested) {
  if (requested > 0) return requested;
  return omp_in_parallel() ? 1 : default_num_threads();
}

// body(i, thread) for every i < count, in any order. The work is handed out by a counter of our
// own: GCC's dynamic schedules call entry points that Paddle's libiomp5 lacks; they would come from
// the system's libgomp instead, which does not know of the threads and lets each one run the whole
// loop.
template <typename Body>
void parallel_for(int64_t count, int threads, const Body& body) {
  threads = static_cast<int>(std::min<int64_t>(threads, count));
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i, thread);
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops
