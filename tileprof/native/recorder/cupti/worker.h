// A thread that works periodically, and at once on an order: for calls of a
// library that may take long, or never return. A caller waits for its order, but not for
// ever: a thread that did not obey in time gets no more orders, and launches that it keeps waiting
// go on.
//
// In: work, by order; 0 is no order, and done every so often. Out: whether an order was obeyed.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cupti/gate.h"

namespace tileprof {

// Whether a lock was to be had in time.
inline bool taken_within(std::unique_lock<std::mutex> &lock, double timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
  while (!lock.try_lock()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

class Worker {
public:
  // The gate is the one that the work closes.
  Worker(Gate &gate, std::function<void(int order)> work) : gate_(gate), work_(std::move(work)) {}

  void pace(uint32_t period_ms, double patience_s) {
    std::lock_guard lock(mutex_);
    period_ms_ = period_ms;
    patience_s_ = patience_s;
  }
  // Begins the thread, unless it runs.
  void begin() {
    std::lock_guard lock(mutex_);
    if (running_ || hung_) return;
    // All signals are the program's own threads' affair.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { run(); }).detach();
      running_ = true;
    } catch (const std::system_error &) {
      give_up();  // the process has as many threads as it may
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  // Whether the order was obeyed, or there is no thread to obey. After a last one the thread ends.
  bool tell(int order, bool last = false) {
    std::unique_lock lock(mutex_);
    if (!running_ || hung_) return !hung_;
    order_ = order;
    last_ = last;
    told_.notify_one();
    using Clock = std::chrono::system_clock;
    const auto patience = std::chrono::duration<double>(patience_s_);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
    if (!done_.wait_until(lock, until, [this] { return order_ == 0; })) give_up();
    return !hung_;
  }
  // Lets the thread go, wherever it is: the library hangs.
  void abandon() {
    std::lock_guard lock(mutex_);
    give_up();
    told_.notify_one();
  }
  bool hung() const { return hung_; }

private:
  Gate &gate_;
  std::function<void(int)> work_;
  std::mutex mutex_;
  std::condition_variable told_, done_;
  int order_ = 0;
  bool last_ = false, running_ = false;
  std::atomic<bool> hung_{false};
  uint32_t period_ms_ = 100;
  double patience_s_ = 10;
  std::chrono::system_clock::time_point begun_ = std::chrono::system_clock::now();

  void give_up() {
    hung_ = true;
    gate_.open();
  }
  void run() {
    using Clock = std::chrono::system_clock;  // the one whose waits sanitizers know
    std::unique_lock lock(mutex_);
    while (running_) {
      // From begin to begin: what the work takes is in the period.
      const auto next = begun_ + std::chrono::milliseconds(period_ms_);
      told_.wait_until(lock, next, [this] { return order_ != 0 || hung_; });
      if (hung_) return;
      begun_ = Clock::now();
      const int order = order_;
      lock.unlock();
      work_(order);
      lock.lock();
      if (order == 0 || order_ != order) continue;
      order_ = 0;
      running_ = !last_;
      done_.notify_all();
    }
  }
};

} // namespace tileprof
