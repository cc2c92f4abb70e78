// A turn that one thread has at a time, given in the order of asking.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

namespace tileprof {

class Turns {
public:
  // Whether the turn came in time.
  bool take(double patience_s) {
    using Clock = std::chrono::system_clock;  // the one whose waits sanitizers know
    const auto patience = std::chrono::duration<double>(patience_s);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
    std::unique_lock lock(mutex_);
    const auto mine = waiting_.insert(waiting_.end(), 0);
    const bool had = given_.wait_until(
        lock, until, [&] { return !taken_ && mine == waiting_.begin(); });
    waiting_.erase(mine);
    taken_ = taken_ || had;
    // One that gives up may have been the first of those who wait.
    if (!had) given_.notify_all();
    return had;
  }
  void give() {
    std::lock_guard lock(mutex_);
    taken_ = false;
    given_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::list<char> waiting_;
  bool taken_ = false;
};

} // namespace tileprof
