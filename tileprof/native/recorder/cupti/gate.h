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

#include "cupti/inside.h"

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
  void leave(uint32_t round) { inside_.leave(round); }
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
  void reset() { inside_.reset(); }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLongest{10};

  Inside inside_;
  std::atomic<bool> closed_{false}, one_at_a_time_{false};

  bool admitted(uint32_t &round) {
    const Inside::Entered entered = inside_.enter();
    round = entered.round;
    if (!closed_.load() && !(one_at_a_time_.load() && entered.before)) return true;
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
    return inside_.enter().round;
  }
  // Lets nobody in; whether all were out within the time given. If not, it stays open.
  bool close(double timeout_s) {
    const auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
    closed_ = true;
    while (inside_.any()) {
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
