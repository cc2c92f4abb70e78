// Sampling of program counters in all contexts that launch kernels while a recording is on.
//
// In: what Python wants, and the first launch of each context, on the thread that launches. Out:
// counts by instruction. Samples are read by a thread of its own, which also stops and disables:
// these calls may take long, or never return, and then nobody waits for them for ever. Callbacks
// never wait: a launch that finds the lock taken leaves its context to the next one.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "cupti/gate.h"
#include "pcs/pc_context.h"
#include "pcs/pc_counts.h"
#include "pcs/pc_modules.h"
#include "cupti/worker.h"

namespace tileprof {

struct PcStatus {
  CuptiResult code = 0;  // of the first context that is not sampled, or no more
  std::string text;
  uint32_t sampled = 0, refused = 0;  // contexts, some of which may be gone
  bool hung = false;  // a call did not return in time
};

class PcSampling {
public:
  // CUPTI starts and stops while no launch is under way: launches go through the gate.
  PcSampling(Correlations &correlations, Gate &gate);

  PcModules modules;

  // Sets what is wanted from now on, and forgets all counts. Not while sampling goes on.
  void configure(const PcOptions &options);
  // Whether samples are wanted; what was counted stays. Not while a recording is on.
  void want(bool on);
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // Tells CUPTI whom to ask about cubins; best before CUDA begins.
  void attach(const Cupti &cupti, cupti::ComputeCrc compute_crc);
  // Samples, in contexts that are known at once, in others from their next launch on.
  void begin();
  // Stops until `begin`, and reads all there is.
  void pause();
  // Also gives back what devices hold for it; `begin` has to find contexts again.
  void end();
  // Calls nothing more: the library hangs.
  void abandon();

  // -- in callbacks
  void see(void *context) {
    if (sampling_.load(std::memory_order_relaxed) &&
        context != seen_.load(std::memory_order_relaxed))
      see_closely(context);
  }
  void gone(void *context);

  // -- reading
  PcStatus status();
  // Calls with the counts as they stand, unless sampling hangs; whether it did.
  template <typename Use> bool with_counts(Use use) {
    Lock lock = locked(kPatience_s);
    if (!lock) return false;
    use(static_cast<const PcCounts &>(counts_));
    return true;
  }

private:
  enum Order { kRead, kStart, kStop, kDisable };
  using Lock = std::unique_lock<std::mutex>;
  static constexpr double kPatience_s = 10;

  Gate &gate_;
  std::mutex mutex_;  // of all below it up to the line; held during calls of CUPTI
  Cupti cupti_;
  PcOptions options_;
  PcCounts counts_;
  std::list<PcContext> contexts_;
  PcStatus status_;
  uint32_t reopened_ = 0;
  // --
  std::atomic<bool> wanted_{false}, attached_{false}, sampling_{false};
  std::atomic<void *> seen_{nullptr};  // the context of the last launch
  Worker worker_{gate_, [this](int order) { obey(order); }};

  Lock locked(double patience_s);
  void tell(Order order);
  void obey(int order);
  bool sampled() const;
  void for_all(int order);
  void go_on();
  void drain(PcContext &context);
  void reopen(PcContext &context);
  void see_closely(void *context);
  void note_problems();
};

} // namespace tileprof
