// Sampling of program counters in all contexts that launch kernels while a recording is on.
//
// In: what Python wants, and the first launch of each context, on the thread that launches. Out:
// counts by instruction. Samples are read by a thread of its own, which also stops and disables:
// these calls may take long, or never return, and then nobody waits for them for ever. Callbacks
// never wait: a launch that finds the lock taken leaves its context to the next one.
#pragma once

#include <list>
#include <string>

#include "cupti/collector.h"
#include "pcs/pc_context.h"
#include "pcs/pc_counts.h"
#include "pcs/pc_modules.h"

namespace tileprof {

struct PcStatus {
  CuptiResult code = 0;  // of the first context that is not sampled, or no more
  std::string text;
  uint32_t sampled = 0, refused = 0;  // contexts, some of which may be gone
  bool hung = false;  // a call did not return in time
};

class PcSampling : public Collector {
public:
  PcSampling(Correlations &correlations, Gate &gate);

  PcModules modules;

  // Sets what is wanted from now on, and forgets all counts. Not while sampling goes on.
  void configure(const PcOptions &options);
  // Whether samples are wanted; what was counted stays. Not while a recording is on.
  void want(bool on);
  void attach(const Cupti &cupti, cupti::ComputeCrc compute_crc) {
    attach_once(cupti, compute_crc, kPatience_s);
  }
  // Samples, in contexts that are known at once, in others from their next launch on.
  void begin();
  // Stops until `begin`, and reads all there is.
  void pause() { tell(kStop); }
  // Also gives back what devices hold for it; `begin` has to find contexts again.
  void end() { tell(kDisable, true); }

  // -- in callbacks
  void gone(void *context);

  // -- reading
  PcStatus status();
  // Calls with the counts as they stand, unless sampling hangs; whether it did.
  template <typename Use> bool with_counts(Use use) {
    Lock lock = locked_anyway(kPatience_s);
    if (!lock) return false;
    use(static_cast<const PcCounts &>(counts_));
    return true;
  }

private:
  enum Order { kRead, kStart, kStop, kDisable };
  static constexpr double kPatience_s = 10;

  PcOptions options_;
  PcCounts counts_;
  std::list<PcContext> contexts_;
  PcStatus status_;
  uint32_t reopened_ = 0;

  void obey(int order) override;
  bool sampled() const;
  void for_all(int order);
  void go_on();
  void drain(PcContext &context);
  void reopen(PcContext &context);
  void see_closely(void *context) override;
  void note_problems();
};

} // namespace tileprof
