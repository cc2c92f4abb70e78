// Timelines of threads: the newest entries that ended; bounded, empty unless asked for.
//
// In: `add` on each thread, without a lock. Out: `take`, by one reader at a time. A ring grows by
// blocks while no more than half of the room that the others leave is its own; then it overwrites.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "host/contexts.h"

namespace tileprof {

struct HostEvent {
  uint64_t start, end;  // ns
  ContextId context;
  uint32_t epoch;
  uint64_t thread;  // as `threading.get_ident()` counts
};

// The room that all rings share.
class HostRoom {
public:
  static constexpr size_t kMost = size_t(1) << 26;

  // Events at most; 0: none are wanted.
  void limit(size_t most) {
    most = std::min(most, kMost);
    if (most && most != most_.load(std::memory_order_relaxed)) {
      most_.store(most, std::memory_order_relaxed);
      held_.store(0, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_relaxed);
    }
    wanted_.store(most != 0, std::memory_order_relaxed);
  }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // Changes when the limit does: rings start again.
  uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }
  // Growth allowed for a ring of a size; the first block is every ring's.
  size_t grant(size_t held, size_t block) {
    const size_t most = most_.load(std::memory_order_relaxed);
    const size_t all = held_.load(std::memory_order_relaxed);
    const size_t left = most - std::min(most, all);
    const size_t granted = held ? (held + block <= left ? block : 0) : std::min(block, most);
    held_.fetch_add(granted, std::memory_order_relaxed);
    return granted;
  }

private:
  std::atomic<bool> wanted_{false};
  std::atomic<size_t> most_{0}, held_{0};
  std::atomic<uint32_t> generation_{0};
};

class HostRing {
public:
  explicit HostRing(uint32_t generation) : generation_(generation) {}
  uint32_t generation() const { return generation_; }

  void add(const HostEvent &event, HostRoom &room) {
    const uint64_t at = begun_.load(std::memory_order_relaxed);
    uint64_t size = size_.load(std::memory_order_relaxed);
    // Only at the end of the first lap: later, growing would change where events lie.
    if (at == size) {
      size += room.grant(size, Blocks<Slot>::kBlock);
      if (!size) return;
      size_.store(size, std::memory_order_relaxed);
    }
    Slot &slot = slots_.make(uint32_t(at % size));
    begun_.store(at + 1, std::memory_order_release);
    // Released, so that who sees a part of the event sees that it was begun.
    slot.start.store(event.start, std::memory_order_release);
    slot.end.store(event.end, std::memory_order_release);
    slot.where.store(uint64_t(event.epoch) << 32 | event.context, std::memory_order_release);
    slot.thread.store(event.thread, std::memory_order_release);
    written_.store(at + 1, std::memory_order_release);
  }

  // Appends what was added since the last time, oldest first; returns how many were overwritten.
  uint64_t take(std::vector<HostEvent> &into) {
    const uint64_t end = written_.load(std::memory_order_acquire);
    const uint64_t size = size_.load(std::memory_order_relaxed);
    const uint64_t first = std::max(taken_, overwritten(end, size));
    const auto before = ptrdiff_t(into.size());
    for (uint64_t at = first; at < end; ++at)
      into.push_back(slots_.find(uint32_t(at % size))->read());
    // The thread has gone on meanwhile: what it has begun to overwrite may be of two events.
    const uint64_t begun = begun_.load(std::memory_order_acquire);
    const uint64_t gone = overwritten(begun, size_.load(std::memory_order_relaxed));
    const uint64_t whole = std::clamp(gone, first, end);
    into.erase(into.begin() + before, into.begin() + before + ptrdiff_t(whole - first));
    const uint64_t lost = whole - taken_;
    taken_ = end;
    return lost;
  }

private:
  struct Slot {
    std::atomic<uint64_t> start{0}, end{0}, where{0}, thread{0};

    HostEvent read() const {
      const uint64_t from = start.load(std::memory_order_acquire);
      const uint64_t to = end.load(std::memory_order_acquire);
      const uint64_t at = where.load(std::memory_order_acquire);
      return {from, to, ContextId(at), uint32_t(at >> 32), thread.load(std::memory_order_acquire)};
    }
  };

  const uint32_t generation_;
  std::atomic<uint64_t> begun_{0}, written_{0}, size_{0};
  uint64_t taken_ = 0;  // the reader's own
  Blocks<Slot> slots_;

  static uint64_t overwritten(uint64_t events, uint64_t size) {
    return events - std::min(events, size);
  }
};

} // namespace tileprof
