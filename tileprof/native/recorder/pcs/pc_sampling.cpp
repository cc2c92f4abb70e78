#include "pcs/pc_sampling.h"

#include <algorithm>

#include "cupti/own_calls.h"

namespace tileprof {
namespace {

// Reads in a row without samples after which sampling is stopped for a moment, in case samples are
// handed over only then; twice as many each time that there were none.
constexpr uint32_t kQuiet = 10, kMostQuiet = 1280;
// Number of times that a device's full buffer is emptied before sampling is given up; 0.2 s each.
constexpr uint32_t kMostOverflows = 20;
// Time that the end of a context waits for calls that are under way.
constexpr double kPatienceAtEnd_s = 2;
// Time that a stop that can be repeated waits for launches to return.
constexpr double kPatienceBetween_s = 0.5;
// The same of one that cannot; less than who asks for it waits.
constexpr double kPatienceForAll_s = 5;

} // namespace

PcSampling::PcSampling(Correlations &correlations, Gate &gate)
    : Collector(gate), counts_(modules, correlations) {}

// -- what is wanted

void PcSampling::configure(const PcOptions &options) {
  Lock lock = locked_anyway(kPatience_s);
  if (!lock) return;
  options_ = options;
  counts_.clear();
  counts_.by_launch = options.exact;
  contexts_.remove_if([](const PcContext &each) { return !each.enabled(); });
  status_ = {};
  reopened_ = 0;
  wanted_ = options.log2_period != 0;
  worker_.pace(options.drain_ms, options.patience_s);
}

void PcSampling::want(bool on) {
  if (!on) end();
  wanted_ = on;
}

void PcSampling::begin() {
  if (!wanted()) return;
  worker_.begin();
  tell(kStart);
}

PcStatus PcSampling::status() {
  Lock lock = locked_anyway(kPatience_s);
  PcStatus status;
  if (lock) status = status_;
  status.hung = worker_.hung();
  return status;
}

// -- the thread

void PcSampling::obey(int order) {
  std::lock_guard lock(mutex_);
  OwnCall ours;
  try {
    if (order == kRead) {
      for (PcContext &each : contexts_) drain(each);
    } else if (sampled() && !gate_.closed_while(kPatienceForAll_s, [&] { for_all(order); })) {
      status_.code = kNeverIdle;
      status_.text = "a launch did not return";
    }
  } catch (...) {
    // No memory for more counts: what is counted stays.
  }
  note_problems();
  if (order == kStart) go_on();
}

bool PcSampling::sampled() const {
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [](const PcContext &each) { return each.enabled(); });
}

void PcSampling::for_all(int order) {
  for (PcContext &each : contexts_)
    if (order == kStop)
      each.stop();
    else if (order == kDisable)
      each.disable();
    else if (each.full())
      reopen(each);
    else
      each.start();
  if (order == kDisable)
    contexts_.remove_if([](const PcContext &each) { return !each.problem(); });
}

void PcSampling::go_on() {
  seen_ = nullptr;
  const char *missing = cupti_.lacking(CuptiFeature::Pcs);
  active_ = !missing && !worker_.hung();
  if (!missing || status_.code) return;
  status_.code = kCannotSample;
  status_.text = cupti_.without(missing);
}

void PcSampling::drain(PcContext &context) {
  if (!context.started()) return;
  const size_t seen = context.read();
  if (context.full()) {
    gate_.closed_while(kPatienceBetween_s, [&] { reopen(context); });
  } else if (seen) {
    context.quiet = 0;
    context.look_at = kQuiet;
  } else if (++context.quiet >= context.look_at) {
    context.quiet = 0;
    gate_.closed_while(kPatienceBetween_s, [&] {
      const bool late = context.stop();
      context.start();
      context.look_at = late ? kQuiet : std::min(2 * context.look_at, kMostQuiet);
    });
  }
}

// A buffer that was full stays so until sampling is enabled again.
void PcSampling::reopen(PcContext &context) {
  context.disable();
  if (++reopened_ > kMostOverflows)
    context.give_up(kOverflows, "sampling");
  else if (context.enable())
    context.start();
}

void PcSampling::note_problems() {
  for (const PcContext &each : contexts_)
    if (each.problem() && !status_.code) {
      status_.code = each.problem();
      status_.text = each.tried() + ": " + cupti_.text_of(each.problem());
    }
}

// -- callbacks

void PcSampling::see_closely(void *context) {
  if (OwnCall::under_way() || !context) return;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !active_) return;
  OwnCall ours;
  seen_ = context;
  bool alone = true;
  uint32_t device = 0;
  const bool known = cupti_.device_of && cupti_.device_of(context, &device) == cupti::kSuccess;
  for (const PcContext &each : contexts_) {
    if (each.handle() == context) return;
    if (known && each.enabled() && each.device == device) alone = false;
  }
  PcContext &fresh = contexts_.emplace_back(cupti_, context, options_, counts_);
  fresh.device = device;
  fresh.look_at = kQuiet;
  // The device would refuse it, and with that CUPTI 13.0 ends the subscription, for all contexts.
  if (!alone) fresh.give_up(cupti::kHardwareBusy, "a second context of its device");
  const bool sampled = alone && fresh.enable() && fresh.start();
  ++(sampled ? status_.sampled : status_.refused);
  note_problems();
}

void PcSampling::gone(void *context) {
  if (OwnCall::under_way() || !context || !wanted() || worker_.hung()) return;
  Lock lock = locked_anyway(kPatienceAtEnd_s);
  if (!lock) return;
  OwnCall ours;
  if (seen_ == context) seen_ = nullptr;
  for (PcContext &each : contexts_)
    if (each.handle() == context) each.disable();
  note_problems();
  contexts_.remove_if([context](const PcContext &each) { return each.handle() == context; });
}

} // namespace tileprof
