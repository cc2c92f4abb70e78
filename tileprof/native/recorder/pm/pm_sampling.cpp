#include "pm/pm_sampling.h"

#include "cupti/own_calls.h"

namespace tileprof {
namespace {

// Time to wait for the lock of a thread that is in a call of CUPTI.
constexpr double kPmPatience_s = 10;
// Time to wait for launches to return, if it can be tried again.
constexpr double kPmPatienceBetween_s = 0.5;

} // namespace

// -- what is wanted

void PmSampling::configure(PmOptions options) {
  end();
  Lock lock = locked(kPmPatience_s);
  if (!lock) return;
  devices_.clear();
  options_ = std::move(options);
  options_.counted.resize(options_.metrics.size());
  status_ = {};
  seen_ = nullptr;
  wanted_ = !options_.metrics.empty();
  worker_.pace(options_.read_ms, options_.patience_s);
}

void PmSampling::attach(const Cupti &cupti) {
  if (Lock lock = locked(kPmPatience_s)) cupti_ = cupti;
}

void PmSampling::begin() {
  if (!wanted()) return;
  worker_.begin();
  tell(kStart);
}

// -- the thread

void PmSampling::obey(int order) {
  std::lock_guard lock(mutex_);
  OwnCall ours;
  try {
    if (order == kRead)
      read_all();
    else if (!devices_.empty() && !gate_.closed_while(kPmPatience_s, [&] { for_all(order); }))
      note_busy();
  } catch (...) {
    // No memory for more rows: those that there are stay.
  }
  note_problems();
  if (order == kDisable) seen_ = nullptr;
  if (order != kStart) return;
  const char *missing = cupti_.lacking(CuptiFeature::Pms);
  active_ = !missing && !worker_.hung();
  if (!missing || status_.code) return;
  status_.code = kNoPmSampling;
  status_.text = cupti_.without(missing);
}

void PmSampling::for_all(int order) {
  for (PmDevice &each : devices_) {
    if (order == kStart && each.enable()) each.start();
    if (order != kStart) each.stop();
    if (order == kDisable) each.disable();
  }
}

void PmSampling::read_all() {
  for (PmDevice &each : devices_)
    // A buffer that was full stays so.
    if (!each.read()) gate_.closed_while(kPmPatienceBetween_s, [&] { each.reopen(); });
}

void PmSampling::note_busy() {
  if (status_.code) return;
  status_.code = kNeverIdle;
  status_.text = "sampling was not started or stopped: a launch did not return";
}

void PmSampling::note_problems() {
  for (const PmDevice &each : devices_)
    if (each.problem() && !status_.code) {
      status_.code = each.problem();
      status_.text = each.tried();
    }
}

// -- callbacks

void PmSampling::see_closely(void *context) {
  if (!context) return;
  Lock lock(mutex_, std::try_to_lock);
  if (!lock || !active_) return;
  OwnCall ours;
  uint32_t device = 0;
  if (cupti_.device_of(context, &device) != cupti::kSuccess) return;
  seen_ = context;
  for (const PmDevice &each : devices_)
    if (each.number() == device) return;
  PmDevice &fresh = devices_.emplace_back(cupti_, device, options_);
  if (fresh.enable() && fresh.start()) ++status_.sampled;
  note_problems();
}

// -- reading

std::vector<PmSampling::Part> PmSampling::rows() {
  std::vector<Part> all;
  if (Lock lock = locked(kPmPatience_s))
    for (const PmDevice &each : devices_) all.push_back({each.number(), each.rows()});
  return all;
}

PmStatus PmSampling::status() {
  PmStatus status;
  if (Lock lock = locked(kPmPatience_s)) {
    status = status_;
    for (const PmDevice &each : devices_) {
      status.totals.samples += each.totals().samples;
      status.totals.missed += each.totals().missed;
      status.totals.overflows += each.totals().overflows;
    }
  }
  status.hung = worker_.hung();
  return status;
}

} // namespace tileprof
