// Time that the host waited for devices, measured around the driver's calls that wait.
//
// In: each wait, on the thread that waited. Out: all totals at once. CUPTI has records of waits, but
// while they are on every launch takes 3 µs more (CUPTI 13.0 on an H200).
#pragma once

#include <mutex>

#include "records/totals.h"

namespace tileprof {

// The numbers are part of the module's interface (`_recorder.WAITS`).
enum class Wait : uint8_t { none = 0, event = 1, stream = 3, device = 4 };

class Waits {
public:
  void add(uint32_t epoch, ContextId context, Wait what, uint64_t ns) {
    std::lock_guard lock(mutex_);
    totals_.at({epoch, context, uint32_t(what), What::sync}).add(ns);
  }
  std::vector<Total> take() {
    std::lock_guard lock(mutex_);
    return totals_.take();
  }

private:
  std::mutex mutex_;
  Totals totals_;
};

} // namespace tileprof
