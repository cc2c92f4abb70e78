#include "pc_sampling.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "own_calls.h"

namespace tileprof {
namespace {

// Reads in a row without samples after which sampling is stopped for a moment, in case samples are
// handed over only then; twice as many each time that there were none.
constexpr uint32_t kQuiet = 10, kMostQuiet = 1280;
// How often a device's full buffer is emptied before sampling is given up: each takes 0.2 s.
constexpr uint32_t kMostOverflows = 20;
// How long the end of a context waits for calls that are under way.
constexpr double kPatienceAtEnd_s = 2;
// How long a stop that can be made up for waits for launches to return.
constexpr double kPatienceBetween_s = 0.5;
// The same of one that cannot; less than who asks for it waits.
constexpr double kPatienceForAll_s = 5;

// All signals are the program's own threads' affair.
class WithoutSignals {
public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_;
};

} // namespace

PcSampling::PcSampling(Correlations &correlations) : counts_(modules, correlations) {}

// -- what is wanted

void PcSampling::configure(const PcOptions &options) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!taken_within(lock, kPatience_s)) return;
  options_ = options;
  counts_.clear();
  counts_.by_launch = options.exact;
  contexts_.remove_if([](const PcContext &each) { return !each.enabled(); });
  status_ = {};
  reopened_ = 0;
  wanted_ = options.log2_period != 0;
  std::lock_guard orders(orders_.mutex);
  orders_.period_ms = options.drain_ms;
  orders_.patience_s = options.patience_s;
}

void PcSampling::want(bool on) {
  if (!on) end();
  wanted_ = on;
}

void PcSampling::attach(const Cupti &cupti, cupti::ComputeCrc compute_crc) {
  if (!wanted() || attached_.exchange(true)) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!taken_within(lock, kPatience_s)) return;
  cupti_ = cupti;
  if (cupti_.register_crc) cupti_.register_crc(compute_crc);
}

void PcSampling::begin() {
  if (!wanted() || hung_) return;
  {
    std::lock_guard lock(orders_.mutex);
    if (!orders_.running) {
      WithoutSignals none;
      std::thread([this] { run(); }).detach();
      orders_.running = true;
    }
  }
  ask(Order::start);
}

void PcSampling::pause() { ask(Order::stop); }

void PcSampling::end() { ask(Order::disable); }

void PcSampling::abandon() {
  std::lock_guard lock(orders_.mutex);
  hung_ = true;
  sampling_ = false;
  orders_.order = Order::leave;
  orders_.asked.notify_one();
}

PcStatus PcSampling::status() {
  std::unique_lock lock(mutex_, std::defer_lock);
  PcStatus status;
  if (taken_within(lock, hung_ ? 0 : kPatience_s)) status = status_;
  status.hung = hung_;
  return status;
}

// -- the thread

bool PcSampling::ask(Order order) {
  sampling_ = false;  // no callback begins something meanwhile
  std::unique_lock lock(orders_.mutex);
  if (!orders_.running || hung_) return !hung_;
  orders_.order = order;
  orders_.asked.notify_one();
  const auto timeout = std::chrono::duration<double>(orders_.patience_s);
  if (!orders_.done.wait_for(lock, timeout, [this] { return orders_.order == Order::none; })) {
    hung_ = true;
    gate.open();
  }
  return !hung_;
}

void PcSampling::run() {
  std::unique_lock lock(orders_.mutex);
  for (;;) {
    const auto period = std::chrono::milliseconds(orders_.period_ms);
    orders_.asked.wait_for(lock, period, [this] { return orders_.order != Order::none; });
    const Order order = orders_.order;
    if (order != Order::leave) {
      lock.unlock();
      obey(order);
      lock.lock();
    }
    if (orders_.order != order) continue;
    orders_.order = Order::none;
    orders_.done.notify_all();
    if (order != Order::disable && order != Order::leave) continue;
    orders_.running = false;
    return;
  }
}

void PcSampling::obey(Order order) {
  std::lock_guard lock(mutex_);
  OwnCall ours;
  try {
    switch (order) {
    case Order::leave:
      break;
    case Order::none:
      for (PcContext &each : contexts_) drain(each);
      break;
    case Order::start:
    case Order::stop:
    case Order::disable:
      if (!contexts_.empty() && !apart(kPatienceForAll_s, [&] { for_all(order); })) {
        hung_ = true;
        status_.code = kNeverIdle;
        status_.text = "a launch did not return";
      }
      if (order == Order::start) go_on();
      break;
    }
  } catch (...) {
    // No memory for more counts: what is counted stays.
  }
  note_problems();
}

void PcSampling::for_all(Order order) {
  for (PcContext &each : contexts_)
    if (order == Order::stop)
      each.stop();
    else if (order == Order::disable)
      each.disable();
    else if (each.full())
      reopen(each);
    else
      each.start();
  if (order == Order::disable)
    contexts_.remove_if([](const PcContext &each) { return !each.problem(); });
}

void PcSampling::go_on() {
  seen_ = nullptr;
  sampling_ = !hung_ && cupti_.samples_pcs();
  if (!cupti_.samples_pcs() && !status_.code)
    status_.code = kCannotSample;
}

void PcSampling::drain(PcContext &context) {
  if (!context.started()) return;
  const size_t seen = context.read();
  if (context.full()) {
    apart(kPatienceBetween_s, [&] { reopen(context); });
  } else if (seen) {
    context.quiet = 0;
    context.look_at = kQuiet;
  } else if (++context.quiet >= context.look_at) {
    context.quiet = 0;
    apart(kPatienceBetween_s, [&] {
      const bool late = context.stop();
      context.start();
      context.look_at = late ? kQuiet : std::min(2 * context.look_at, kMostQuiet);
    });
  }
}

// A buffer that was full stays so until sampling is enabled anew.
void PcSampling::reopen(PcContext &context) {
  context.disable();
  if (++reopened_ > kMostOverflows)
    context.give_up(kOverflows);
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
  if (!lock || !sampling_) return;
  OwnCall ours;
  seen_ = context;
  for (const PcContext &each : contexts_)
    if (each.handle() == context) return;
  PcContext &fresh = contexts_.emplace_back(cupti_, context, options_, counts_);
  fresh.look_at = kQuiet;
  const bool sampled = fresh.enable() && fresh.start();
  ++(sampled ? status_.sampled : status_.refused);
  note_problems();
}

void PcSampling::gone(void *context) {
  if (OwnCall::under_way() || !context || !wanted() || hung_) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!taken_within(lock, kPatienceAtEnd_s)) return;
  OwnCall ours;
  if (seen_ == context) seen_ = nullptr;
  for (PcContext &each : contexts_)
    if (each.handle() == context) each.disable();
  note_problems();
  contexts_.remove_if([context](const PcContext &each) { return each.handle() == context; });
}

} // namespace tileprof
