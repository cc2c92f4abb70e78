// The newest events on devices, one by one: bounded, and empty unless asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "records/totals.h"

namespace tileprof {

struct TimelineEvent {
  uint64_t start, end;  // ns
  uint64_t launched;    // when the driver was called for it; 0 where that is not known
  ContextId context, launch;           // of the totals; of that call
  uint32_t epoch, detail, stream;  // detail: as in totals
  uint16_t device;
  What what;
};

class Timeline {
public:
  // Events at most from here on; 0: none are wanted.
  void limit(size_t most) {
    if (most == most_) return;
    std::vector<TimelineEvent> kept = take();
    const size_t gone = kept.size() - std::min(kept.size(), most);
    kept.erase(kept.begin(), kept.begin() + ptrdiff_t(gone));
    if (most) overwritten_ += gone;
    most_ = most;
    events_ = std::move(kept);
    events_.reserve(most);
  }
  bool wanted() const { return most_ != 0; }
  void add(const TimelineEvent &event) {
    if (events_.size() < most_) {
      events_.push_back(event);
      return;
    }
    events_[next_] = event;
    next_ = (next_ + 1) % most_;
    ++overwritten_;
  }
  // Hands over the events, oldest first.
  std::vector<TimelineEvent> take() {
    std::rotate(events_.begin(), events_.begin() + ptrdiff_t(next_), events_.end());
    std::vector<TimelineEvent> taken = std::move(events_);
    events_ = {};
    events_.reserve(most_);
    next_ = 0;
    return taken;
  }
  uint64_t overwritten() const { return overwritten_; }
  uint64_t overwritten_since() { return overwritten_ - std::exchange(told_, overwritten_); }

private:
  size_t most_ = 0, next_ = 0;
  uint64_t overwritten_ = 0, told_ = 0;
  std::vector<TimelineEvent> events_;
};

} // namespace tileprof
