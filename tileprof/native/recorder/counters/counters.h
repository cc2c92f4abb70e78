// Hardware counters of each launch, read by CUPTI's range profiler: a range for each launch, which
// is repeated until all counters that were asked for have been read. A graph has one for each of its
// kernels, as many as nobody says: it makes a batch of its own.
//
// In: what Python wants (names of metrics, and CUPTI's plan for them), launches on the threads that
// launch. Out: batches: the image of counters that CUPTI filled, and whose launches its ranges are,
// in their order. Ranges have no names but numbers, and a context's ranges are in the order of its
// launches: so threads that launch take turns from a launch's begin to its end, which the
// repetitions would make them do anyway.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "counters/chips.h"
#include "host/contexts.h"
#include "cupti/cupti_api.h"

namespace tileprof {

// A turn that one thread has at a time, given in the order of asking.
class Turns {
public:
  // Whether the turn came in time.
  bool take(double patience_s) {
    using Clock = std::chrono::system_clock;  // the one whose waits sanitizers know
    const auto patience = std::chrono::duration<double>(patience_s);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
    std::unique_lock lock(mutex_);
    const auto mine = waiting_.insert(waiting_.end(), 0);
    const bool had = given_.wait_until(
        lock, until, [&] { return !taken_ && mine == waiting_.begin(); });
    waiting_.erase(mine);
    taken_ = taken_ || had;
    // One that gives up may have been the first of those who wait.
    if (!had) given_.notify_all();
    return had;
  }
  void give() {
    std::lock_guard lock(mutex_);
    taken_ = false;
    given_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::list<char> waiting_;
  bool taken_ = false;
};

struct CounterOptions {
  std::string chip;  // the plan is for devices of this kind alone
  std::vector<std::string> metrics;  // none: counters are not wanted
  std::string plan;  // CUPTI's "config image"
  size_t ranges = 128;  // launches of a batch at most
  size_t batches = 256;  // that wait for being taken at most; the oldest give way
  double patience_s = 60;  // for a launch on another thread
  size_t graph_ranges = 1024;  // kernels of a graph at most
};

struct CounterLaunch {
  uint32_t epoch = 0;  // 0: not recorded
  ContextId context = 0;
  NameId function = 0;  // 0: a graph
};

struct CounterBatch {
  uint32_t device = 0;
  size_t dropped = 0;  // ranges for which there was no room
  std::vector<uint8_t> image;
  std::vector<CounterLaunch> launches;
};

struct CounterStatus {
  CuptiResult code = 0;  // of the first call that failed
  std::string text;  // that call, and CUPTI's words
  uint32_t counted = 0, refused = 0;  // contexts
  uint64_t launches = 0, lost = 0;  // that were logged; that gave way before they were taken
  uint64_t waited = 0;  // launches whose turn did not come in time
};

class Counters {
public:
  Counters();
  ~Counters();

  // Sets what is wanted from now on; not while counters are read.
  void configure(CounterOptions options);
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void attach(const Cupti &cupti) { cupti_ = cupti; }
  // Reads counters from the next launch of each context on.
  void begin();
  // Makes a batch of what was read until now.
  void cut();
  // The same, and reads none until `begin`.
  void pause();
  // Also gives back what CUPTI holds for it.
  void end();

  // -- in callbacks, on the thread that launches
  void enter(void *context, uint32_t correlation, const CounterLaunch &launch) {
    if (counting_.load(std::memory_order_relaxed)) enter_closely(context, correlation, launch);
  }
  void leave(uint32_t correlation, bool failed);
  // The launch that is under way is recorded into a graph, and does not run.
  void captured();
  void gone(void *context);

  // -- reading
  std::vector<CounterBatch> take();
  CounterStatus status();

private:
  struct Target;

  Cupti cupti_;
  CounterOptions options_;
  std::atomic<bool> wanted_{false}, counting_{false};
  Turns turns_;  // held from a launch's begin to its end
  std::map<void *, std::unique_ptr<Target>> targets_;
  bool initialized_ = false;
  std::mutex reading_;  // guards what follows
  std::deque<CounterBatch> batches_;
  CounterStatus status_;

  void enter_closely(void *context, uint32_t correlation, const CounterLaunch &launch);
  Target &target(void *context);
  bool failed(CuptiResult result, const char *what);
  template <typename Parameters>
  bool failed(const CuptiCall &call, Parameters &parameters) {
    return failed(call(&parameters), call.name);
  }
  bool enable(Target &target);
  bool chip_fits(Target &target);
  bool make_image(Target &target, size_t ranges);
  bool start(Target &target, size_t ranges);
  void finish(Target &target);
  void disable(Target &target);
  void with_turn(void (Counters::*work)());
  void finish_all();
  void end_all();
};

} // namespace tileprof
