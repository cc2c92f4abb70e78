// Records of what devices did, read as they come and added to totals.
//
// In: buffers of records, on threads of CUPTI's. Out: totals, kernels' variants, idle time, memory
// in use, and a timeline where one is wanted. One buffer is read at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "records/correlations.h"
#include "cupti/cupti_api.h"
#include "records/graphs.h"
#include "records/idle.h"
#include "records/memory.h"
#include "records/timeline.h"
#include "records/totals.h"
#include "records/variants.h"

namespace tileprof {

// All since the recording began.
struct ActivityCounts {
  uint64_t records = 0;       // all that were delivered
  uint64_t kernels = 0;
  uint64_t dropped = 0;       // records that CUPTI had no room for
  uint64_t untimed = 0;       // kernels, copies and fills without times; counted, not timed
  uint64_t unattributed = 0;  // whose launch is not known; under the root
  uint64_t outside = 0;       // launched while nobody recorded; not counted in totals
  uint64_t foreign = 0;       // of kinds that were not asked for: somebody else's
  uint64_t unreadable = 0;    // ends of buffers that could not be read
  uint64_t uncaptured = 0;    // of graph nodes that were captured before the recording began
};

// All results, handed over together.
struct Drained {
  TakenTotals totals;
  std::vector<TimelineEvent> timeline;
  uint64_t overwritten = 0;  // events that gave way to these
  PageVector<Gap> gaps;
};

class Activities {
public:
  Activities(Correlations &correlations, Graphs &graphs)
      : correlations_(correlations), graphs_(graphs) {}

  // Before the first buffer.
  void begin(const Cupti &cupti, uint64_t wanted_kinds, size_t timeline);
  void parse(const uint8_t *buffer, size_t valid);
  void add_dropped(uint64_t records);
  // Until then, nothing was recorded for a while.
  void interrupt(uint64_t time_ns);
  // Events on the timeline at most; 0: none.
  void limit_timeline(size_t most);

  // With `settle`, idle time up to the last record; without, what may still be put in order waits.
  Drained drain(bool settle);
  // Memory of totals that were handed over, for the next ones.
  void give_back(TakenTotals &&taken);
  std::vector<Variant> variants(size_t first);
  // Memory that the program took from the driver itself, not through a framework's allocator.
  MemoryState memory_state();
  void begin_recording_memory();
  ActivityCounts counts();
  uint64_t late();
  size_t waiting_bytes();
  size_t totals_bytes();
  uint64_t overwritten();
  // Readable while a buffer is parsed.
  uint64_t records_seen() const { return records_seen_.load(std::memory_order_relaxed); }

private:
  // The place that a record belongs to.
  struct Place {
    Launch launch;
    ContextId context;  // of the node in a graph, else that of the launch
    bool known, counts;
  };
  struct Captured {
    uint64_t node = 0;
    ContextId launch = 0, context = 0;
  };
  static constexpr size_t kCaptured = 4096;

  Correlations &correlations_;
  Graphs &graphs_;
  std::mutex mutex_;
  Cupti cupti_;
  uint64_t wanted_ = 0;
  bool checked_ = false;
  Totals totals_;
  Variants variants_;
  Idle idle_;
  // The driver's allocations and releases. They wait until results are asked for, when a
  // framework's allocator has said which are its own.
  struct Allocation {
    Pool pool;
    ContextId context;
    uint32_t epoch;
    bool released;
    uint64_t address, bytes, time_ns;
  };
  static constexpr size_t kMostWaiting = 4096;
  std::vector<Allocation> allocations_;
  Memory memory_;
  Timeline timeline_;
  ActivityCounts counts_;
  std::atomic<uint64_t> records_seen_{0};
  uint64_t resumed_ns_ = 0;
  uint32_t last_correlation_ = 0;
  Place last_{};
  std::unique_ptr<Captured[]> captured_{new Captured[kCaptured]()};

  void check_sizes(const uint8_t *buffer, size_t valid);
  const uint8_t *after(const uint8_t *buffer, size_t valid, const uint8_t *record, uint32_t kind);
  void take(const uint8_t *record, uint32_t kind);
  Place place_of(uint32_t correlation, uint64_t node);
  Place place_of_work(uint32_t correlation, uint64_t node, uint64_t start_ns);
  ContextId captured(ContextId launch, uint64_t node);
  Total &total(const Place &place, What what, uint32_t detail);
  struct Times;
  void ran(const Place &place, const Times &times, Total &total);

  void kernel(const uint8_t *record);
  void memcpy_(const uint8_t *record, bool peer);
  void memset_(const uint8_t *record);
  void overhead(const uint8_t *record, size_t size);
  void memory(const uint8_t *record);
  void settle_memory();
};

} // namespace tileprof
