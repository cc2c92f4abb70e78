// Keeps launches of CUDA graphs apart from other threads' waits of streams for events.
//
// When CUPTI 13.0 goes on to another buffer of device memory inside `cuGraphLaunch`, the launch takes
// two locks of the driver's in an order in which `cuStreamWaitEvent` takes them the other way round:
// where both meet, neither ends, and all other calls wait for them (driver 580;
// benchmarks/results/graph-flushes.json). Any number of calls of one kind are inside together.
//
// In: such calls of all threads, each for as long as it takes. Out: nothing. Calls that wait go in
// together when the last one of the other kind is out. One that waited for a while goes on in any
// case: a launch blocks for long where the device's queue is full.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tileprof {

class GraphsApart {
public:
  enum class Kind : uint8_t { graph, event_wait };

  // Returns the argument for `leave`.
  uint32_t enter(Kind kind) {
    std::unique_lock lock(mutex_);
    Side &side = of(kind), &other = other_than(kind);
    // Who comes while the other kind waits for this one waits too, or those would wait for ever.
    if (other.inside || (side.inside && other.waiting)) return wait(lock, side, other);
    ++side.inside;
    return round_;
  }
  void leave(Kind kind, uint32_t round) {
    const std::lock_guard lock(mutex_);
    Side &side = of(kind);
    if (round == round_ && side.inside && !--side.inside) let_in(other_than(kind), side);
  }
  // Nobody is inside: ends of calls were not reported for a while.
  void reset() {
    const std::lock_guard lock(mutex_);
    forget_inside(sides_[0], sides_[1]);
  }

private:
  // A call that waits, on its thread's stack.
  struct Waiting {
    Waiting *next;
    bool inside = false;
    uint32_t round = 0;
  };
  struct Side {
    uint32_t inside = 0;
    Waiting *waiting = nullptr;
    std::condition_variable let_in;
  };
  // A call takes microseconds; what takes longer waits for the device, or its end was not reported.
  static constexpr std::chrono::milliseconds kPatience{200};

  std::mutex mutex_;
  std::array<Side, 2> sides_;
  uint32_t round_ = 0;  // how often those inside were forgotten

  Side &of(Kind kind) { return sides_[size_t(kind)]; }
  Side &other_than(Kind kind) { return sides_[1 - size_t(kind)]; }

  uint32_t wait(std::unique_lock<std::mutex> &lock, Side &side, Side &other) {
    Waiting own{side.waiting};
    side.waiting = &own;
    if (!side.let_in.wait_for(lock, kPatience, [&own] { return own.inside; }))
      forget_inside(side, other);
    return own.round;
  }
  // All who wait on the first side, or where nobody does, on the second.
  void let_in(Side &first, Side &second) {
    Side &side = first.waiting ? first : second;
    for (Waiting *each = side.waiting; each; each = each->next) {
      each->inside = true;
      each->round = round_;
      ++side.inside;
    }
    side.waiting = nullptr;
    side.let_in.notify_all();
  }
  void forget_inside(Side &first, Side &second) {
    ++round_;
    first.inside = second.inside = 0;
    let_in(first, second);
  }
};

} // namespace tileprof
