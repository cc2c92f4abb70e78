// Hardware counters over time, of all devices that kernels are launched on while a recording is on.
//
// In: what Python wants, and the first launch on each device, on the thread that launches. Out:
// rows by device. Kernels run as they do without it. Samples are read by a thread of its own, which
// also stops and disables; a launch that finds the lock taken leaves its device to the next one.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "cupti/gate.h"
#include "pm/pm_device.h"
#include "cupti/worker.h"

namespace tileprof {

struct PmStatus {
  CuptiResult code = 0;  // of the first device that is not sampled, or no more
  std::string text;
  uint32_t sampled = 0;  // devices
  PmTotals totals;
  bool hung = false;  // a call did not return in time
};

class PmSampling {
public:
  // Each launch goes through the gate while something is wanted: CUPTI starts and stops while none
  // is under way, as for samples of program counters.
  explicit PmSampling(Gate &gate);

  // Sets what is wanted from the next `begin` on; ends the current series and forgets all rows.
  void configure(PmOptions options);
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void attach(const Cupti &cupti);
  // Samples, on devices that are known at once, on others from the next launch on.
  void begin();
  // Stops until `begin`, and reads all there is.
  void pause();
  // Also gives back what devices hold for it.
  void end();
  // Calls nothing more: the library hangs.
  void abandon();

  // -- in callbacks
  void see(void *context) {
    if (sampling_.load(std::memory_order_relaxed) &&
        context != seen_.load(std::memory_order_relaxed))
      see_closely(context);
  }

  // -- reading
  struct Part {
    uint32_t device;
    PmRows rows;
  };
  std::vector<Part> rows();
  PmStatus status();

private:
  enum Order : int { kRead, kStart, kStop, kDisable };

  std::mutex mutex_;  // of all below it up to the line; held during calls of CUPTI
  Cupti cupti_;
  PmOptions options_;
  std::list<PmDevice> devices_;
  PmStatus status_;
  // --
  Gate &gate_;
  std::atomic<bool> wanted_{false}, sampling_{false};
  std::atomic<void *> seen_{nullptr};  // the context of the last launch
  Worker worker_;

  using Lock = std::unique_lock<std::mutex>;
  Lock locked();
  void tell(Order order);
  void obey(int order);
  void for_all(int order);
  void read_all();
  void see_closely(void *context);
  void note_problems();
  void note_busy();
};

} // namespace tileprof
