// The launch of a record: the calling context, epoch and time of every driver call that
// leaves records, by CUPTI's correlation number.
//
// In: `put` on the launching threads, without a lock. Out: `find` on the thread that parses. Slots
// are used in turn; a launch whose record has not come when its slot is wanted again moves to a
// second table, where the one of a set that is least likely to be missed gives way; launches of
// kernels and graphs that do are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "host/contexts.h"

namespace tileprof {

enum class CallKind : uint8_t { none, launch, graph, memcpy, memset, sync, memory };

// The last thing that blocked the launching thread.
enum class Blocked : uint8_t { never, sync, copy };

struct Launch {
  ContextId context = 0;
  uint32_t epoch = 0;
  uint64_t entered_ns = 0;
  uint64_t blocked_until_ns = 0;  // when the last wait of the thread ended
  CallKind kind = CallKind::none;
  Blocked blocked = Blocked::never;
};

class Correlations {
public:
  static constexpr uint32_t kSlots = 1u << 18, kAhead = 16;

  Correlations();
  void put(uint32_t correlation, const Launch &launch);
  // Whether the launch is known; `last` says that no other record of it is expected. For one
  // thread at a time.
  bool find(uint32_t correlation, Launch &into, bool last = true);
  // The same for any thread, with nothing noted.
  bool peek(uint32_t correlation, Launch &into);
  // No record of it will come: it failed, or was captured.
  void forget(uint32_t correlation);
  // Launches of kernels and graphs that were given up before their records came.
  uint64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }
  // Launches of kernels and graphs that are not waited for any more: a record came, none will, or
  // they were given up.
  uint64_t settled() const {
    return read_.load(std::memory_order_relaxed) + settled_.load(std::memory_order_relaxed);
  }

private:
  // `state` is the correlation number << 3 | kWanted: records are expected | kUsed: some came; or
  // kBusy while the rest is written. The rest is read and then `state` again, so that a reader
  // never mixes two launches.
  struct Slot {
    std::atomic<uint64_t> state{0};
    std::atomic<uint64_t> entered{0};  // time << 8 | kind << 4 | blocked
    std::atomic<uint64_t> where{0};    // epoch << 32 | context
    std::atomic<uint64_t> blocked_until{0};
  };
  static constexpr uint64_t kBusy = 1, kWanted = 2, kUsed = 4, kFlags = 7;
  struct Kept {
    uint64_t age = 0;  // 0: free
    uint32_t correlation = 0;
    bool used = false;  // a record came: giving it up is no loss
    Launch launch;
  };
  static constexpr uint32_t kSets = 1u << 13, kWays = 8;

  // Both are zeroed pages. Those of the first are written to in turn, and take memory as they are;
  // those of the second in no order, and take it when there is something to keep.
  std::unique_ptr<Slot[], void (*)(void *)> slots_;
  std::unique_ptr<Kept[], void (*)(void *)> kept_;
  std::mutex mutex_;  // of what is kept
  uint64_t age_ = 0;
  std::atomic<uint64_t> evicted_{0}, settled_{0};
  std::atomic<uint64_t> read_{0};  // as settled_, by the one thread that reads records

  static bool awaited(const Launch &launch) {
    return launch.epoch && (launch.kind == CallKind::launch || launch.kind == CallKind::graph);
  }
  // Marks a slot as seen; returns whether this was the first time.
  bool find_slot(uint32_t correlation, Launch &into, bool last, bool &first);
  static uint64_t state_of(uint32_t correlation) { return uint64_t(correlation) << 3; }
  static bool load(const Slot &slot, uint64_t state, Launch &into);
  void keep(uint32_t correlation, const Launch &launch, bool used);
  Kept *kept(uint32_t correlation);
  static std::pair<int, uint64_t> worth(const Kept &entry);
  bool find_kept(uint32_t correlation, Launch &into);
};

} // namespace tileprof
