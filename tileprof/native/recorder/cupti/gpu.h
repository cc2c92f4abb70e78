// Recording what GPUs do, through CUPTI: starting, interrupting, flushing, handing over.
//
// In: a path of the library and options, from Python. Out: codes with texts, and what `activities`
// has collected. Codes from 0 on are CUPTI's own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "records/activities.h"
#include "records/buffers.h"
#include "counters/counters.h"
#include "pcs/pc_sampling.h"
#include "pm/pm_sampling.h"
#include "counters/sass_metrics.h"
#include "cupti/subscriber.h"

namespace tileprof {

struct GpuStatus {
  int code = 0;
  std::string text;
};

// The numbers are part of the module's interface (`_recorder.GPU_CODES`).
inline constexpr int kNotLoaded = -1, kStarted = -2, kNotStarted = -3, kTimedOut = -4,
                     kUnknownRecords = -5, kSubscriptionLost = -6, kRecordsElsewhere = -7;

struct GpuOptions {
  uint64_t kinds = 0;  // a bit for each kind of record
  size_t timeline = 0;  // events at most; 0: none
  size_t buffer_bytes = Buffers::kSize;
};

class Gpu {
public:
  Correlations correlations;
  Graphs graphs;
  Waits waits;
  Activities activities{correlations, graphs};
  Gate gate;  // samples are read while no launch is under way
  Gate flush_gate;  // records are handed over while none is
  PcSampling pcs{correlations, gate};
  Counters counters;
  PmSampling pms{gate};
  SassMetrics sass{pcs.modules, gate};
  Subscriber subscriber{correlations, graphs, waits, gate, flush_gate, pcs, pms, sass, counters};
  Buffers buffers;

  GpuStatus start(const std::string &path, const GpuOptions &options);
  // Ends the recording; what is under way is flushed within the time given.
  GpuStatus stop(double timeout_s);
  // Whether program counters are sampled from the next recording on.
  void want_pcs(bool on);
  // Sets what is sampled over time from the next recording on; nothing without metrics.
  void configure_pms(PmOptions options);
  GpuStatus pause();
  GpuStatus resume();
  // Takes buffers and kinds of records back that another tool took over and has let go of.
  GpuStatus reclaim();
  // Asks for the records of what has ended. With `force` of what was launched until now: it is
  // waited for while records come, and what is under way then still is handed over without times.
  GpuStatus flush(bool force, double timeout_s);
  // Waits for what was launched until now, as a forced flush does, and lets the recording go on.
  GpuStatus settle(double timeout_s);
  // Whether calls and records still come to us.
  GpuStatus health();
  bool started() const { return started_; }
  // The kinds of records that are collected: what was asked for, less what is not to be had.
  uint64_t kinds() const { return collected_; }
  const Cupti &cupti() const { return cupti_; }

private:
  std::mutex mutex_;
  Cupti cupti_;
  GpuOptions options_;
  std::atomic<bool> started_{false};
  uint64_t collected_ = 0;
  // Launches and records at the last forced flush, and whether records failed to come.
  uint64_t launches_then_ = 0, records_then_ = 0;
  bool elsewhere_ = false;
  struct Flush;
  std::shared_ptr<Flush> flushing_;  // the last one, while it has not returned

  GpuStatus status(CuptiResult result, const char *what) const;
  GpuStatus begin();
  GpuStatus resume_locked();
  void be_silent();
  CuptiResult collect(bool on);
  GpuStatus flush_locked(bool force, double timeout_s);
  GpuStatus settle_locked(double timeout_s);
  GpuStatus flush_once(bool force, double timeout_s);
  GpuStatus flush_at_once(bool force, double timeout_s);
  void see_where_records_go();
};

Gpu &gpu();  // never destroyed: CUPTI's threads may call until the very end
// Called in a forked child: the records are the parent's, and its locks may be held for ever.
void forget_gpu();

} // namespace tileprof
