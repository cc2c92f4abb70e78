#include "cupti/gpu.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <system_error>
#include <thread>

#include "host/host.h"

namespace tileprof {
namespace {

std::atomic<Gpu *> the_gpu{nullptr};
// The parent's in a forked child, whose copy of the library still has the parent's subscription.
Gpu *inherited = nullptr;

// Time that a flush waits for work whose records do not come.
constexpr double kPatience_s = 1.0;
// Time that a flush waits for launches to return, while others wait for the flush. A thread is in one
// for longer where the device's queue is full of long kernels.
constexpr double kPatienceForLaunches_s = 0.02;

constexpr const char *kNone = "there is no recording";

// CUPTI follows which modules are loaded while kernels, copies or fills leave records; of others it
// tells no instruction to the end of the process. Fills are the rarest. It forgets to when kernels'
// are turned off, so this kind is turned on after that.
constexpr uint32_t kInPauses = cupti::kMemset;
// While instructions are counted, these records alone: beside those of concurrent kernels all counts
// are 0, beside those of fills there are none, and without any only until they are read first.
constexpr uint64_t kBesideCounts = uint64_t(1) << cupti::kSerialKernel;

void buffer_requested(uint8_t **buffer, size_t *size, size_t *most_records) {
  *most_records = 0;
  *buffer = gpu().buffers.take(*size);
  if (!*buffer) *size = 0;
}

void buffer_completed(void *, uint32_t, uint8_t *buffer, size_t size, size_t valid) {
  Gpu &one = gpu();
  try {
    if (buffer && valid) one.activities.parse(buffer, valid);
    size_t dropped = 0;
    if (one.cupti().dropped(nullptr, 0, &dropped) == cupti::kSuccess && dropped)
      one.activities.add_dropped(dropped);
  } catch (...) {
    // No memory for a total: the rest of the buffer is lost, the program goes on.
  }
  if (buffer) one.buffers.give_back(buffer, size);
}

void compute_crc(const void *cubin, size_t size, uint64_t *crc) {
  *crc = 0;
  try {
    if (cubin) *crc = gpu().pcs.modules.answer(cubin, size);
  } catch (...) {
    // No memory for a copy: the module stays unknown.
  }
}

} // namespace

Gpu &gpu() {
  Gpu *one = the_gpu.load(std::memory_order_acquire);
  if (one) return *one;
  Gpu *fresh = new Gpu, *none = nullptr;
  if (the_gpu.compare_exchange_strong(none, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *none;
}

void forget_gpu() {
  Gpu *former = the_gpu.exchange(nullptr, std::memory_order_acq_rel);
  if (!former) return;
  former->subscriber.abandon();
  if (former->started()) inherited = former;
}

// -- starting and stopping

GpuStatus Gpu::status(CuptiResult result, const char *what) const {
  if (result == cupti::kSuccess) return {};
  return {result, std::string(what) + ": " + cupti_.text_of(result)};
}

GpuStatus Gpu::start(const std::string &path, const GpuOptions &options) {
  std::lock_guard lock(mutex_);
  if (started_) return {kStarted, "the recording has begun already"};
  const std::string problem = load_cupti(path, cupti_);
  if (!problem.empty()) return {kNotLoaded, problem};
  options_ = options;
  if (sass.wanted() && options_.kinds) options_.kinds = kBesideCounts;
  buffers.set_size(options.buffer_bytes);
  if (inherited) inherited->subscriber.unsubscribe();
  inherited = nullptr;
  // Modules that are loaded from here on are known by their cubins.
  pcs.attach(cupti_, &compute_crc);
  pms.attach(cupti_);
  sass.attach(cupti_, &compute_crc);
  counters.attach(cupti_);

  std::string other;
  const CuptiResult result = subscriber.subscribe(cupti_, other);
  if (result == cupti::kOtherSubscriber)
    return {result, other.empty() ? "another tool listens to CUPTI in this process"
                                  : "another tool listens to CUPTI in this process: " + other};
  if (result != cupti::kSuccess) return status(result, "cannot subscribe to CUPTI");
  GpuStatus begun = begin();
  if (begun.code) {
    collect(false);
    subscriber.unsubscribe();
    return begun;
  }
  started_ = true;
  pcs.begin();
  pms.begin();
  sass.begin();
  counters.begin();
  return {};
}

// After subscribing: buffers, clock, kinds of records, callbacks.
GpuStatus Gpu::begin() {
  const std::string problem = ask_record_sizes(cupti_);
  if (!problem.empty()) return {kUnknownRecords, problem};
  activities.begin(cupti_, options_.kinds, options_.timeline);
  // Before any kind of record is on, so that all have the same clock.
  if (cupti_.register_timestamp) cupti_.register_timestamp(&now_ns);
  CuptiResult result = cupti_.register_callbacks(&buffer_requested, &buffer_completed);
  if (result) return status(result, "CUPTI takes no buffers");
  if (GpuStatus collecting = status(collect(true), "CUPTI collects no records"); collecting.code)
    return collecting;
  launches_then_ = subscriber.launches();
  records_then_ = activities.records_seen();
  elsewhere_ = false;
  return status(subscriber.listen(true), "CUPTI tells of no calls");
}

// Turns the kinds of records on or off; a kind that this version or device lacks is left out, but
// kernels must be there.
CuptiResult Gpu::collect(bool on) {
  CuptiResult kernels = cupti::kSuccess;
  for (uint32_t kind = 0; kind < cupti::kKinds; ++kind) {
    const uint64_t bit = uint64_t(1) << kind;
    if (!((on ? options_.kinds : collected_) & bit)) continue;
    const CuptiResult result = on ? cupti_.enable(kind) : cupti_.disable(kind);
    if (result == cupti::kSuccess) collected_ = on ? collected_ | bit : collected_ & ~bit;
    if (kind == cupti::kKernel || kind == cupti::kSerialKernel) kernels = result;
  }
  return kernels;
}

GpuStatus Gpu::stop(double timeout_s) {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  started_ = false;
  counters.end();
  if (subscriber.listening()) subscriber.listen(false);
  GpuStatus flushed = flush_locked(true, timeout_s);
  // A library that hangs is not called again.
  if (flushed.code == kTimedOut) {
    pcs.abandon();
    pms.abandon();
    sass.abandon();
    return flushed;
  }
  pcs.end();
  pms.end();
  sass.end();
  collect(false);
  subscriber.unsubscribe();
  return flushed;
}

// -- interruptions

void Gpu::want_pcs(bool on) {
  std::lock_guard lock(mutex_);
  pcs.want(on);
  be_silent();
}

void Gpu::configure_pms(PmOptions options) {
  std::lock_guard lock(mutex_);
  pms.configure(std::move(options));
  be_silent();
}

// Callbacks of launches had to continue until sampling was off.
void Gpu::be_silent() {
  if (started_ && !subscriber.listening()) subscriber.listen(false);
}

GpuStatus Gpu::pause() {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  pcs.pause();
  pms.pause();
  sass.pause();
  counters.pause();
  const GpuStatus silent = status(subscriber.listen(false), "callbacks stay on");
  // Functions whose instructions are counted stay patched, and need their records.
  if (sass.wanted()) return silent;
  const GpuStatus dark = status(collect(false), "records stay on");
  if (options_.kinds >> kInPauses & 1 && cupti_.enable(kInPauses) == cupti::kSuccess)
    collected_ |= uint64_t(1) << kInPauses;
  return silent.code ? silent : dark;
}

GpuStatus Gpu::resume() {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  return resume_locked();
}

GpuStatus Gpu::resume_locked() {
  activities.interrupt(now_ns());
  if (GpuStatus collecting = status(collect(true), "CUPTI collects no records"); collecting.code)
    return collecting;
  if (GpuStatus told = status(subscriber.listen(true), "CUPTI tells of no calls"); told.code)
    return told;
  pcs.attach(cupti_, &compute_crc);
  sass.attach(cupti_, &compute_crc);
  pcs.begin();
  pms.begin();
  sass.begin();
  counters.begin();
  return {};
}

GpuStatus Gpu::reclaim() {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  const CuptiResult result = cupti_.register_callbacks(&buffer_requested, &buffer_completed);
  if (result) return status(result, "CUPTI takes no buffers");
  elsewhere_ = false;
  return resume_locked();
}

// -- flushing

GpuStatus Gpu::flush(bool force, double timeout_s) {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  if (!force) buffers.prepare();
  return flush_locked(force, timeout_s);
}

// A flush on a thread of its own, since it may never return.
struct Gpu::Flush {
  std::mutex mutex;
  std::condition_variable done;
  bool ended = false;
  CuptiResult result = 0;

  // Whether it has returned, within the time given.
  bool returned_within(double timeout_s) {
    std::unique_lock lock(mutex);
    return done.wait_for(lock, std::chrono::duration<double>(timeout_s), [this] { return ended; });
  }
};

// CUPTI 13.0 crashes now and then in a launch during which another thread has records handed over: in
// 7 of 28 runs of a minute in which eight threads launched and a ninth did so each millisecond
// (benchmarks/results/graph-flushes.json). So launches wait, unless one takes long to return.
GpuStatus Gpu::flush_once(bool force, double timeout_s) {
  GpuStatus flushed;
  const auto flush = [&] { flushed = flush_at_once(force, timeout_s); };
  if (!flush_gate.closed_while(std::min(kPatienceForLaunches_s, timeout_s), flush)) flush();
  return flushed;
}

GpuStatus Gpu::flush_at_once(bool force, double timeout_s) {
  const GpuStatus late{kTimedOut, "CUPTI did not hand over its records in time"};
  // While one hangs, another would only be a further thread that never ends.
  if (flushing_ && !flushing_->returned_within(timeout_s)) return late;
  flushing_ = std::make_shared<Flush>();
  const auto flush_all = cupti_.flush_all;
  const uint32_t flag = force ? cupti::kFlushForced : 0;
  try {
    std::thread([flush = flushing_, flush_all, flag] {
      const CuptiResult flushed = flush_all(flag);
      std::lock_guard lock(flush->mutex);
      flush->result = flushed;
      flush->ended = true;
      flush->done.notify_all();
    }).detach();
  } catch (const std::system_error &) {
    // The process has as many threads as it may: rather without a limit of time than not at all.
    flushing_.reset();
    return status(flush_all(flag), "CUPTI does not hand over its records");
  }
  if (!flushing_->returned_within(timeout_s)) return late;
  const CuptiResult result = flushing_->result;
  flushing_.reset();
  return status(result, "CUPTI does not hand over its records");
}

GpuStatus Gpu::settle(double timeout_s) {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  return settle_locked(timeout_s);
}

// Waits for work by its records: calls of CUDA could break what the program is about to capture.
GpuStatus Gpu::settle_locked(double timeout_s) {
  using Clock = std::chrono::steady_clock;
  if (counters.wanted()) return {};  // there are no records
  const auto patience = std::chrono::duration<double>(std::min(kPatience_s, timeout_s / 2));
  const auto began = Clock::now();
  auto progress = began;
  const uint64_t launched = subscriber.launches();
  for (uint64_t settled = correlations.settled();;) {
    if (GpuStatus flushed = flush_once(false, timeout_s); flushed.code) return flushed;
    const auto now = Clock::now();
    if (correlations.settled() != settled) progress = now;
    settled = correlations.settled();
    const bool late = now - began > std::chrono::duration<double>(timeout_s);
    // Another tool that has ended the subscription has the records too.
    const bool lost = subscriber.state() != cupti::kSuccess;
    if (settled >= launched || now - progress > patience || late || lost) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GpuStatus Gpu::flush_locked(bool force, double timeout_s) {
  if (!force) return flush_once(false, timeout_s);
  counters.cut();
  if (GpuStatus settled = settle_locked(timeout_s); settled.code) return settled;
  sass.cut();
  // Some drivers end the subscription when records are forced out while they sample.
  pcs.end();
  const GpuStatus flushed = flush_once(true, timeout_s);
  if (!flushed.code) see_where_records_go();
  if (subscriber.listening()) pcs.begin();
  return flushed;
}

void Gpu::see_where_records_go() {
  if (counters.wanted()) return;
  const uint64_t launches = subscriber.launches(), records = activities.records_seen();
  // Launches that failed or were captured leave no records, and are settled.
  const bool awaited = correlations.settled() < launches;
  if (launches != launches_then_) elsewhere_ = records == records_then_ && awaited;
  launches_then_ = launches;
  records_then_ = records;
}

GpuStatus Gpu::health() {
  std::lock_guard lock(mutex_);
  if (!started_) return {kNotStarted, kNone};
  if (subscriber.state() != cupti::kSuccess)
    return {kSubscriptionLost, "another tool has ended the subscription to CUPTI"};
  if (elsewhere_)
    return {kRecordsElsewhere,
            "another tool has taken CUPTI's records over: calls come, records do not"};
  return {};
}

} // namespace tileprof
