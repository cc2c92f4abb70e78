// Hardware counters over time, of all devices that kernels are launched on while a recording is on.
//
// In: what Python wants, and the first launch on each device, on the thread that launches. Out:
// rows by device. Kernels run as they do without it. Samples are read by a thread of its own, which
// also stops and disables; a launch that finds the lock taken leaves its device to the next one.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "cupti/collector.h"
#include "pm/pm_device.h"

namespace tileprof {

struct PmStatus {
  CuptiResult code = 0;  // of the first device that is not sampled, or no more
  std::string text;
  uint32_t sampled = 0;  // devices
  PmTotals totals;
  bool hung = false;  // a call did not return in time
};

class PmSampling : public Collector {
public:
  explicit PmSampling(Gate &gate) : Collector(gate) {}

  // Sets what is wanted from the next `begin` on; ends the current series and forgets all rows.
  void configure(PmOptions options);
  void attach(const Cupti &cupti);
  // Samples, on devices that are known at once, on others from the next launch on.
  void begin();
  // Stops until `begin`, and reads all there is.
  void pause() { tell(kStop); }
  // Also gives back what devices hold for it.
  void end() { tell(kDisable, true); }

  // -- reading
  struct Part {
    uint32_t device;
    PmRows rows;
  };
  std::vector<Part> rows();
  PmStatus status();

private:
  enum Order : int { kRead, kStart, kStop, kDisable };

  PmOptions options_;
  std::list<PmDevice> devices_;
  PmStatus status_;

  void obey(int order) override;
  void for_all(int order);
  void read_all();
  void see_closely(void *context) override;
  void note_problems();
  void note_busy();
};

} // namespace tileprof
