// What collects something of CUPTI's in all contexts that launch kernels while a recording is on.
//
// In: what Python wants, and the first launch of each context, on the thread that launches. Out:
// what a derived class reads. CUPTI is called by a thread of its own, which obeys orders: these
// calls may take long, or never return, and then nobody waits for them for ever.
#pragma once

#include <atomic>
#include <mutex>

#include "cupti/cupti_api.h"
#include "cupti/gate.h"
#include "cupti/worker.h"

namespace tileprof {

class Collector {
public:
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // Calls nothing more: the library hangs.
  void abandon() {
    active_ = false;
    worker_.abandon();
  }
  // In callbacks of launches.
  void see(void *context) {
    if (active_.load(std::memory_order_relaxed) &&
        context != seen_.load(std::memory_order_relaxed))
      see_closely(context);
  }

protected:
  using Lock = std::unique_lock<std::mutex>;

  // CUPTI starts, stops and reads while no launch is under way: launches go through the gate.
  explicit Collector(Gate &gate) : gate_(gate) {}
  ~Collector() = default;

  Gate &gate_;
  std::atomic<bool> wanted_{false}, active_{false}, attached_{false};
  std::atomic<void *> seen_{nullptr};  // the context of the last launch
  std::mutex mutex_;  // of what a derived class has, and of the library; held during its calls
  Cupti cupti_;
  Worker worker_{gate_, [this](int order) { obey(order); }};

  // Does what was told; 0 is what is done every so often.
  virtual void obey(int order) = 0;
  // A launch in a context that was not the last one's.
  virtual void see_closely(void *context) = 0;

  // The lock; without it where it was not to be had in time, or the thread hangs.
  Lock locked(double patience_s) {
    return worker_.hung() ? Lock() : locked_anyway(patience_s);
  }
  // The same, which also is there where the thread hangs without it.
  Lock locked_anyway(double patience_s) {
    Lock lock(mutex_, std::defer_lock);
    taken_within(lock, worker_.hung() ? 0 : patience_s);
    return lock;
  }
  // Takes the library, and tells it whom to ask about cubins; best before CUDA begins.
  void attach_once(const Cupti &cupti, cupti::ComputeCrc compute_crc, double patience_s) {
    if (!wanted() || attached_.exchange(true)) return;
    Lock lock = locked(patience_s);
    if (!lock) return;
    cupti_ = cupti;
    if (cupti_.register_crc) cupti_.register_crc(compute_crc);
  }
  // Begins nothing meanwhile.
  void tell(int order, bool last = false) {
    active_ = false;
    worker_.tell(order, last);
  }
};

} // namespace tileprof
