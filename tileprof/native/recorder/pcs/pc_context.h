// Sampling of program counters in one context of CUDA's: enabling, starting, reading, disabling.
//
// In: a loaded CUPTI and a context. Out: counts in a `PcCounts`. For one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pcs/cupti_pc.h"
#include "pcs/pc_counts.h"

namespace tileprof {

// Codes besides CUPTI's: it lists no stall reasons; the loaded version cannot sample; the
// device's buffer was full again and again.
inline constexpr CuptiResult kNoStalls = -8, kCannotSample = -9, kOverflows = -10;

struct PcOptions {
  uint32_t log2_period = 0;  // cycles between two samples are 2 to this power; 0: no sampling
  bool exact = false;  // one kernel after the other, each with samples of its own
  size_t hardware_bytes = 256u << 20, scratch_bytes = 16u << 20;
  size_t records = 16384;  // of a read
  uint32_t drain_ms = 100, worker_ms = 0;  // between two reads; of CUPTI's own threads, 0: as it is
  double patience_s = 10;  // for a call that stops, reads and disables
};

class PcContext {
public:
  PcContext(const Cupti &cupti, void *context, const PcOptions &options, PcCounts &counts)
      : cupti_(cupti), context_(context), options_(options), counts_(counts) {}

  void *handle() const { return context_; }
  bool enabled() const { return enabled_; }
  bool started() const { return started_; }
  // Why there is no sampling, or no more: CUPTI's result with what was tried; 0 and nothing.
  CuptiResult problem() const { return problem_; }
  const std::string &tried() const { return tried_; }
  // The device's buffer was full when it was last read, and stays so.
  bool full() const { return full_; }

  bool enable();
  bool start();
  // Stops, and reads all there is; how many records.
  size_t stop();
  // Reads what there is; how many records. While samples are taken, some may come later.
  size_t read();
  // Stops, reads, and gives the device's memory back.
  void disable();
  // Samples no more, for a reason of ours.
  void give_up(CuptiResult reason, const char *tried) { failed(reason, tried); }

  // Reads without samples in a row, and at how many to stop for what there may be.
  uint32_t quiet = 0, look_at = 0;
  uint32_t device = 0;

private:
  const Cupti &cupti_;
  void *context_;
  PcOptions options_;
  PcCounts &counts_;
  bool enabled_ = false, started_ = false, full_ = false, unreadable_ = false;
  CuptiResult problem_ = 0;
  std::string tried_;
  std::vector<uint32_t> indices_;  // the device's numbers of stall reasons
  std::vector<uint16_t> stalls_;  // by those, ours
  // CUPTI fills the first by itself while sampling is enabled, the second when it is asked.
  std::unique_ptr<PcBuffer> configured_, asked_;

  bool call(const CuptiCall &function, const char *what);
  bool failed(CuptiResult result, const std::string &what);
  bool learn_stalls();
  bool configure();
};

} // namespace tileprof
