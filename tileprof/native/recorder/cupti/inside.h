// Counts the calls that are under way. Ends that CUPTI did not report are forgotten by `reset`: a
// call that began before does not count as one that began after it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tileprof {

class Inside {
public:
  struct Entered {
    uint32_t round, before;  // for `leave`; how many were inside already
  };
  Entered enter() {
    const uint64_t before = state_.fetch_add(1);
    return {uint32_t(before >> 32), uint32_t(before)};
  }
  void leave(uint32_t round) {
    uint64_t state = state_.load();
    while (state >> 32 == round && uint32_t(state))
      if (state_.compare_exchange_weak(state, state - 1)) return;
  }
  bool any() const { return uint32_t(state_.load()); }
  // Nobody is inside: ends of calls were not reported for a while.
  void reset() {
    const uint64_t round = (state_.load() >> 32) + 1;
    state_ = round << 32;
  }

private:
  std::atomic<uint64_t> state_{0};  // round << 32 | calls
};

} // namespace tileprof
