// Callbacks of the driver's calls: where each launch, copy, fill, wait and allocation was made.
//
// In: CUPTI's callbacks, on the threads that call. Out: entries of these threads (host time), a
// correlation for every call that leaves records, and the time of every wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "records/totals.h"
#include "records/correlations.h"
#include "counters/counters.h"
#include "cupti/cupti_api.h"
#include "cupti/gate.h"
#include "cupti/graphs_apart.h"
#include "records/graphs.h"
#include "pcs/pc_sampling.h"
#include "pm/pm_sampling.h"
#include "counters/sass_metrics.h"

namespace tileprof {

// The numbers are part of the module's interface (`_recorder.WAITS`).
enum class Wait : uint8_t { none = 0, event = 1, stream = 3, device = 4 };

// Time that the host waited for devices, measured around the driver's calls that wait.
//
// In: each wait, on the thread that waited. Out: all totals at once. CUPTI has records of waits, but
// while they are on every launch takes 3 µs more (CUPTI 13.0 on an H200).
class Waits {
public:
  void add(uint32_t epoch, ContextId context, Wait what, uint64_t ns) {
    std::lock_guard lock(mutex_);
    totals_.at({epoch, context, uint32_t(what), What::sync}).add(ns);
  }
  TakenTotals take() {
    std::lock_guard lock(mutex_);
    return totals_.take();
  }
  // Memory of what was handed over, for what comes.
  void give_back(TakenTotals &&taken) {
    std::lock_guard lock(mutex_);
    totals_.give_back(std::move(taken));
  }

private:
  std::mutex mutex_;
  Totals totals_;
};

class Subscriber {
public:
  Subscriber(Correlations &correlations, Graphs &graphs, Waits &waits, Gate &gate,
             Gate &flush_gate, PcSampling &pcs, PmSampling &pms, SassMetrics &sass, Counters &counters);

  // Subscribes, with all callbacks off. The result, and of another subscriber its name.
  CuptiResult subscribe(const Cupti &cupti, std::string &other);
  void unsubscribe();
  // Does nothing more, without telling the library.
  void abandon();
  // Turns the callbacks on or off.
  CuptiResult listen(bool on);
  // CUPTI's status of the subscription: kSuccess while it exists.
  CuptiResult state() const;
  bool listening() const { return listening_.load(std::memory_order_relaxed); }
  // Launches of kernels and graphs that were recorded.
  uint64_t launches() const;

private:
  // What a call does to graphs, which is seen in pauses too.
  enum class Graphing : uint8_t { none, begins_capture, ends_capture, adds_node };
  struct Call {
    CallKind kind = CallKind::none;
    Graphing graphing = Graphing::none;
    Blocked blocks = Blocked::never;  // what the thread waits for until it returns
    Wait wait = Wait::none;
    NameId name = 0;
    std::optional<GraphsApart::Kind> apart;
    bool launches() const { return kind == CallKind::launch || kind == CallKind::graph; }
    // Whether it adds a node to a graph that is being captured.
    bool captured() const {
      return launches() || kind == CallKind::memcpy || kind == CallKind::memset;
    }
  };
  static constexpr uint32_t kCalls = 2048;

  Correlations &correlations_;
  Graphs &graphs_;
  Waits &waits_;
  Gate &gate_, &flush_gate_;
  GraphsApart graphs_apart_;
  PcSampling &pcs_;
  PmSampling &pms_;
  SassMetrics &sass_;
  Counters &counters_;
  Cupti cupti_;
  void *handle_ = nullptr;
  std::atomic<bool> listening_{false};
  std::atomic<uint32_t> round_{0};  // number of the time for which callbacks are on
  std::unique_ptr<Call[]> calls_;
  std::vector<uint32_t> numbers_;  // of the calls that are listened to while all is recorded
  std::vector<uint32_t> graphing_;  // of those that are listened to from the first recording on
  std::vector<uint32_t> event_waits_;  // of those that are listened to once a graph was launched
  std::atomic<bool> apart_{false};  // whether they are
  // Captures that are under way: while there are some, calls that they take up are listened to in
  // pauses, too.
  std::atomic<uint32_t> captures_{0};
  std::mutex enabling_;  // CUPTI wants callbacks to be turned on and off by one thread at a time
  std::atomic<uint64_t> silent_since_ns_{0};  // when callbacks were turned off
  // Counted in several places, so that threads hardly share one.
  struct alignas(64) Count {
    std::atomic<uint64_t> value{0};
  };
  static constexpr uint32_t kCounts = 32;
  Count counts_[kCounts];  // by number of the thread; the first, of all without a place of their own

  // Whether launches go through the gate: something samples.
  bool gated() const { return pcs_.wanted() || pms_.wanted() || sass_.wanted(); }
  bool wants(const Call &call) const;
  using Lock = std::unique_lock<std::mutex>;
  CuptiResult listen_locked(bool on, Lock);
  CuptiResult enable(uint32_t domain, uint32_t number, bool on);
  void listen_to_captures();
  void listen_to_event_waits();
  struct Calling;
  static thread_local Calling calling_here;  // of the calling thread
  void keep_apart(Calling &calling, const Call &call, uint32_t correlation);
  void leave_unseen(Calling &calling);
  void foresee(Calling &calling, const Call &call);
  void follow_capture(const Call &call, int32_t returned);
  void find_calls();
  static Call call_of(const char *name);
  static void called(void *self, uint32_t domain, uint32_t number, const void *data);
  void enter(Calling &calling, uint32_t number, const void *data);
  void count(const void *data, const Launch &launch);
  void leave(Calling &calling, uint32_t number, const void *data);
  void resource(uint32_t number, const void *data);
  void graph_node(uint32_t number, const void *data);
};

} // namespace tileprof
