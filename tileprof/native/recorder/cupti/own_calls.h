// Calls of CUPTI's that are the recorder's own: what they do on their thread is no work of the
// program's, and its callbacks are not listened to.
#pragma once

#include <atomic>
#include <cstdint>

namespace tileprof {

class OwnCall {
public:
  OwnCall() {
    anywhere_.fetch_add(1, std::memory_order_relaxed);
    inside() = true;
  }
  ~OwnCall() {
    inside() = before_;
    anywhere_.fetch_sub(1, std::memory_order_relaxed);
  }
  OwnCall(const OwnCall &) = delete;
  OwnCall &operator=(const OwnCall &) = delete;

  // Whether this thread is in one. Mostly none is, and its variable need not be looked for.
  static bool under_way() { return anywhere_.load(std::memory_order_relaxed) && inside(); }

private:
  static inline std::atomic<uint32_t> anywhere_{0};  // calls of all threads
  bool before_ = inside();

  static bool &inside() {
    thread_local bool inside = false;
    return inside;
  }
};

} // namespace tileprof
