// Keeps launches out while something is done that must not meet one: CUPTI's starting, stopping and
// reading on another thread and a launch wait for each other's locks for ever (CUPTI 13.0, driver
// 580).
//
// In: launches of all threads, each for as long as its call takes. Out: whether none is under way.
// A launch costs two additions to a number that threads share. On request launches are let in one at
// a time, for a CUPTI whose own work in two of them at once does not end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tileprof {

// Code beside those of CUPTI: a launch did not return in time.
inline constexpr int kNeverIdle = -13;

class Gate {
public:
  // Waits while it is closed, but not for ever; returns the argument for `leave`.
  uint32_t enter() {
    uint32_t round;
    return admitted(round) ? round : enter_later();
  }
  void leave(uint32_t round) {
    uint64_t inside = inside_.load();
    while (inside >> 32 == round && uint32_t(inside))
      if (inside_.compare_exchange_weak(inside, inside - 1)) return;
  }
  void open() { closed_ = false; }
  void one_at_a_time(bool on) { one_at_a_time_ = on; }
  // Does something while it is closed; whether all were out in time, else it is not done.
  template <typename Work> bool closed_while(double timeout_s, Work work) {
    if (!close(timeout_s)) return false;
    try {
      work();
    } catch (...) {
      open();
      throw;
    }
    open();
    return true;
  }
  // Nobody is inside: ends of launches were not reported for a while.
  void reset() {
    const uint64_t round = (inside_.load() >> 32) + 1;
    inside_ = round << 32;
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLongest{10};

  std::atomic<uint64_t> inside_{0};  // round << 32 | launches
  std::atomic<bool> closed_{false}, one_at_a_time_{false};

  bool admitted(uint32_t &round) {
    const uint64_t before = inside_.fetch_add(1);
    round = uint32_t(before >> 32);
    if (!closed_.load() && !(one_at_a_time_.load() && uint32_t(before))) return true;
    leave(round);
    return false;
  }
  uint32_t enter_later() {
    const auto until = Clock::now() + kLongest;
    uint32_t round;
    do {
      nap();
      if (admitted(round)) return round;
    } while (Clock::now() <= until);
    // The thread that closed it, or is inside, does not come back.
    open();
    return uint32_t(inside_.fetch_add(1) >> 32);
  }
  // Lets nobody in; whether all were out within the time given. If not, it stays open.
  bool close(double timeout_s) {
    const auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
    closed_ = true;
    while (uint32_t(inside_.load())) {
      if (Clock::now() > until) {
        open();
        return false;
      }
      nap();
    }
    return true;
  }
  static void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
};

} // namespace tileprof
