// Keeps launches of CUDA graphs apart from other threads' launches and copies.
//
// When CUPTI 13.0 goes on to its next buffer of device memory inside `cuGraphLaunch`, it waits for a
// lock that its own worker holds. The worker waits to read a lock of the driver's that the launch of
// the graph reads as well. That works until a third thread waits to write that lock, as launches and
// copies do: then the driver lets no further reader in, and nothing ever goes on
// (benchmarks/results/graph-flushes.json; driver 580).
//
// In: launches and copies of all threads, each for as long as its call takes. Out: nothing. Whoever
// waits goes on after a moment in any case, so that a call which blocks for long stops nobody. A
// program that launches no graph pays one look at a flag.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "cupti/inside.h"

namespace tileprof {

class GraphsApart {
public:
  // Copies go on without the driver's lock where they wait for the device.
  enum class Kind : uint8_t { graph, launch, copy };
  struct Turn {
    Kind kind;
    uint32_t round;
  };

  // Whether it counts: calls before the first graph do not.
  bool enter(Kind kind, Turn &turn) {
    if (kind == Kind::graph)
      turn = {kind, enter_graph()};
    else if (graphs_seen_.load(std::memory_order_relaxed))
      turn = {kind, enter_other(kind == Kind::launch ? launches_ : copies_)};
    else
      return false;
    return true;
  }
  void leave(const Turn &turn) { inside(turn.kind).leave(turn.round); }
  void reset() {
    for (Inside *each : {&graphs_, &launches_, &copies_}) each->reset();
  }

private:
  using Clock = std::chrono::steady_clock;
  // A launch takes microseconds, unless the device's queue is full.
  static constexpr std::chrono::microseconds kPatience{1000}, kPatienceForCopies{50};

  std::atomic<bool> graphs_seen_{false};
  std::atomic<uint32_t> waiting_{0};  // launches and copies that wait for graphs
  Inside graphs_, launches_, copies_;

  Inside &inside(Kind kind) {
    return kind == Kind::graph ? graphs_ : kind == Kind::launch ? launches_ : copies_;
  }
  uint32_t enter_graph() {
    if (!graphs_seen_.load(std::memory_order_relaxed)) graphs_seen_ = true;
    // Those who waited for graphs before come first, or graphs of several threads shut them out.
    wait_while(kPatience, [this] { return waiting_.load() && graphs_.any(); });
    const uint32_t round = graphs_.enter().round;
    wait_while(kPatience, [this] { return launches_.any(); });
    wait_while(kPatienceForCopies, [this] { return copies_.any(); });
    return round;
  }
  uint32_t enter_other(Inside &others) {
    uint32_t round = others.enter().round;
    if (!graphs_.any()) return round;
    const auto until = Clock::now() + kPatience;
    ++waiting_;
    do {
      others.leave(round);
      while (graphs_.any() && Clock::now() < until) pause();
      round = others.enter().round;
    } while (graphs_.any() && Clock::now() < until);
    --waiting_;
    return round;
  }
  template <typename Condition>
  static void wait_while(std::chrono::microseconds patience, Condition condition) {
    if (!condition()) return;
    const auto until = Clock::now() + patience;
    do pause();
    while (condition() && Clock::now() < until);
  }
  static void pause() { std::this_thread::yield(); }
};

} // namespace tileprof
