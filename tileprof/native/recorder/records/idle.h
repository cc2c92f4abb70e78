// When devices had nothing to do, and why: gaps between what ran on each, by the launch that ended
// them; and which work a late launch made worth less.
//
// In: intervals of kernels, fills and copies, in nearly any order. Out: totals of What::idle. Time
// in which nothing ran goes to the launch that ended it, for one of the reasons; time in which only
// copies ran goes to the kernel that followed, as `waiting_copy`. So the idle time of a device is
// the sum over the other reasons, and the time without a kernel the sum over all.
//
// The time of what ran before a late launch is slack, unless the host had waited for it: had it
// been shorter, the device would have waited for that launch the longer. It is added to the totals
// of what ran.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "records/correlations.h"
#include "records/pages.h"
#include "records/totals.h"

namespace tileprof {

// The numbers are part of the module's interface (`_recorder.IDLE_REASONS`).
enum class Reason : uint8_t {
  unknown = 0,       // the launch that ended it is not known
  launch = 1,        // it was launched after the gap had begun: the host was late
  sync = 2,          // as launch, and in the gap a wait of that thread for the device ended
  copy = 3,          // as sync, of a copy; or what ended it is a copy of the host's data
  queue = 4,         // launched before the gap began: a dependency, or the device's own delay
  waiting_copy = 5,  // only copies ran
};

struct Interval {
  uint64_t start, end;
  uint64_t entered_ns, blocked_until_ns;  // of its launch
  TotalKey key;                           // of its total
  ContextId context;                      // of its launch
  Blocked blocked;                        // of its launch
  bool known;                             // whether that is
  bool computes;                          // a kernel or a fill, not a copy
  bool from_host;                         // a copy of the host's data
};
static_assert(sizeof(Interval) == 56, "a quarter of a million wait");

// A gap so long that a sampler may have seen what the host did in it: reported alone, not added up.
struct Gap {
  uint64_t from, to;
  TotalKey key;  // of the launch that ended it, and why it is
};

class Idle {
public:
  static constexpr uint64_t kLong = 1'000'000;  // ns

  void add(uint32_t device, const Interval &interval, Totals &totals);
  // From here on recording goes on after an interruption: what lies across is no gap.
  void interrupt(uint64_t time_ns);
  // Counts all that was added; what is added later must be later.
  void settle(Totals &totals);
  // Long gaps since the last time, for which the host was the reason.
  PageVector<Gap> take_gaps() { return std::exchange(gaps_, {}); }
  // Intervals that came after later ones had been counted: they may have been counted as idle.
  uint64_t late() const { return late_; }
  // Bytes of what waits.
  size_t bytes() const;

private:
  using Intervals = PageVector<Interval>;
  using Runs = ResidentVector<uint32_t>;
  struct Work {
    TotalKey key;
    uint64_t took, end;
  };
  struct Device {
    Intervals pending;
    // Begins of sorted runs in it: parts that came out of order.
    Runs runs;
    uint64_t busy_until = 0;     // of anything; 0: nothing ran yet
    uint64_t compute_until = 0;  // of kernels and fills
    uint64_t copy_until = 0;
    uint64_t copy_ns = 0;        // time from compute_until on that copies cover
    uint64_t counted = 0;        // start of the last interval counted
    ResidentVector<Work> since_late;  // what ran since the last late launch
    uint64_t waited_until = 0;     // when the host's last wait ended that a launch told of
    size_t merge_from = kMostWork;
  };
  // Number of intervals that wait for earlier ones: each thread's records come a buffer at a time.
  static constexpr size_t kLeastWindow = 1u << 16, kMostWindow = 1u << 18;
  // Distance that an interval is moved when it comes; one from further back begins a run.
  static constexpr size_t kNear = 64;
  // Runs that wait to be merged; with more, neighbours are merged at once.
  static constexpr size_t kMostRuns = 1u << 14;
  static constexpr size_t kMostWork = 1u << 12;
  static constexpr size_t kMostGaps = 1u << 14;

  std::map<uint32_t, Device> devices_;
  Intervals merged_;
  Runs ends_, merged_ends_;  // of runs, while they are merged
  std::vector<uint64_t> interruptions_;
  size_t window_ = kLeastWindow;
  uint64_t late_ = 0;
  PageVector<Gap> gaps_;
  bool too_small_ = false;  // the window, lately

  void append(Device &device, const Interval &interval);
  void put_in_order(Device &device, size_t most_runs);
  void count(uint32_t number, Device &device, size_t how_many, Totals &totals);
  void step(uint32_t number, Device &device, const Interval &interval, Totals &totals);
  void gap(uint32_t number, uint64_t from, const Interval &ended_by, Totals &totals);
  static void settle_slack(Device &device, Totals &totals);
  static void merge_work(Device &device);
  static void copy(Device &device, const Interval &interval);
  static void compute(uint32_t number, Device &device, const Interval &interval, Totals &totals);
  bool interrupted(uint64_t from, uint64_t to) const;
};

} // namespace tileprof
