// The newest events on devices, one by one: bounded, and empty unless asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "totals.h"

namespace tileprof {

struct TimelineEvent {
  uint64_t start, end;  // ns
  ContextId context;
  uint32_t epoch, detail, stream;  // detail: as in totals
  uint16_t device;
  What what;
};

class Timeline {
public:
  void resize(size_t most) {
    most_ = most;
    events_.clear();
    events_.reserve(most);
    next_ = overwritten_ = 0;
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

private:
  size_t most_ = 0, next_ = 0;
  uint64_t overwritten_ = 0;
  std::vector<TimelineEvent> events_;
};

} // namespace tileprof
