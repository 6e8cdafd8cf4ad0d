#pragma once

namespace paddle_ops {

// How many threads one call may use. Calls that run at the same time, from several Python threads,
// share the default among them; a number that was asked for is taken as it is. The number of
// threads never changes a result.
class ThreadBudget {
 public:
  explicit ThreadBudget(int requested);
  ~ThreadBudget();
  ThreadBudget(const ThreadBudget&) = delete;
  ThreadBudget& operator=(const ThreadBudget&) = delete;

  int threads() const { return threads_; }

 private:
  int threads_;
};

}  // namespace paddle_ops
