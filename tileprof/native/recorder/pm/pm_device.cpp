#include "pm/pm_device.h"

#include <utility>

#include "counters/chips.h"

namespace tileprof {
namespace {

// Number of times that a device's full buffer is set up again before sampling is given up.
constexpr uint64_t kMostPmOverflows = 20;

} // namespace

bool PmDevice::failed(CuptiResult result, const char *what) {
  if (result == cupti::kSuccess) return false;
  if (!problem_) tried_ = std::string(what) + ": " + cupti_.text_of(result);
  if (!problem_) problem_ = result;
  return true;
}

// -- enabling

bool PmDevice::enable() {
  if (problem_ || enabled()) return enabled();
  cupti::ProfilerStart begin{sizeof(begin), nullptr};
  if (failed(cupti_.profiler_initialize, begin)) return false;
  problem_ = chip_problem(cupti_, number_, options_.chip, tried_);
  if (problem_) return false;
  cupti::HostStart host{sizeof(host), nullptr, cupti::kForPmSampling, options_.chip.c_str(),
                        nullptr, nullptr};
  if (failed(cupti_.host_initialize, host)) return false;
  host_ = host.host;
  cupti::PmEnable enable{sizeof(enable), nullptr, number_, nullptr};
  const bool refused = failed(cupti_.pm_enable, enable);
  if (!refused) sampler_ = enable.sampler;
  if (!refused && configure()) return true;
  disable();
  return false;
}

bool PmDevice::configure() {
  cupti::PmConfig config{};
  config.size = sizeof(config);
  config.sampler = sampler_;
  config.config_bytes = options_.plan.size();
  config.config = reinterpret_cast<const uint8_t *>(options_.plan.data());
  config.buffer_bytes = options_.buffer_bytes;
  config.interval = options_.interval_ns;
  config.trigger = cupti::kEachInterval;
  config.append = cupti::kKeepOldest;
  if (failed(cupti_.pm_configure, config)) return false;
  names_.clear();
  for (const std::string &metric : options_.metrics) names_.push_back(metric.c_str());
  values_.assign(names_.size(), 0);
  cupti::PmImageSize size{};
  size.size = sizeof(size);
  size.sampler = sampler_;
  size.metrics = names_.data();
  size.count = names_.size();
  size.most_samples = uint32_t(options_.image_samples);
  if (failed(cupti_.pm_image_size, size)) return false;
  image_.assign(size.bytes, 0);
  return clear_image();
}

bool PmDevice::clear_image() {
  cupti::PmImage image{sizeof(image), nullptr, sampler_, image_.size(), image_.data()};
  return !failed(cupti_.pm_image, image);
}

// -- sampling

bool PmDevice::start() {
  if (problem_ || started_ || !enabled()) return started_;
  cupti::PmSampler parameters{sizeof(parameters), nullptr, sampler_};
  started_ = !failed(cupti_.pm_start, parameters);
  last_end_ = 0;
  return started_;
}

bool PmDevice::read() { return !started_ || decode(); }

void PmDevice::reopen() {
  disable();
  if (++totals_.overflows > kMostPmOverflows)
    failed(cupti::kOutOfMemory, "the buffer for samples was full again and again");
  else if (enable())
    start();
}

void PmDevice::stop() {
  if (!started_) return;
  started_ = false;
  cupti::PmSampler parameters{sizeof(parameters), nullptr, sampler_};
  failed(cupti_.pm_stop, parameters);
  if (!decode()) ++totals_.overflows;
}

void PmDevice::disable() {
  if (sampler_) {
    cupti::PmSampler parameters{sizeof(parameters), nullptr, sampler_};
    if (started_) failed(cupti_.pm_stop, parameters);
    started_ = false;
    failed(cupti_.pm_disable, parameters);
    sampler_ = nullptr;
  }
  if (host_) {
    cupti::HostEnd parameters{sizeof(parameters), nullptr, host_};
    failed(cupti_.host_deinitialize, parameters);
    host_ = nullptr;
  }
  image_.clear();
}

// -- reading

// Adds what the device has written; false where its buffer was full.
bool PmDevice::decode() {
  for (;;) {
    cupti::PmDecode parameters{};
    parameters.size = cupti::kPmDecodeBytes;
    parameters.sampler = sampler_;
    parameters.image = image_.data();
    parameters.bytes = image_.size();
    const CuptiResult result = cupti_.pm_decode(&parameters);
    const bool full = result == cupti::kOutOfMemory || parameters.overflow;
    if (!full && failed(result, "cuptiPmSamplingDecodeData")) return true;
    cupti::PmImageInfo info{};
    info.size = sizeof(info);
    info.image = image_.data();
    info.bytes = image_.size();
    if (failed(cupti_.pm_image_info, info)) return true;
    for (size_t i = 0; i < info.completed && !problem_; ++i) take(i);
    if (info.completed && !clear_image()) return true;
    if (full) return false;
    if (problem_ || !info.completed || parameters.reason != cupti::kImageFull) return true;
  }
}

void PmDevice::take(size_t index) {
  cupti::PmSampleInfo sample{};
  sample.size = sizeof(sample);
  sample.sampler = sampler_;
  sample.image = image_.data();
  sample.bytes = image_.size();
  sample.index = index;
  if (failed(cupti_.pm_sample_info, sample)) return;
  // CUPTI hands over samples without a time after a full image, and without a length at the end.
  if (!sample.start || sample.end <= sample.start || sample.start < last_end_) return;
  const bool first = !last_end_;
  const uint64_t before = std::exchange(last_end_, sample.end);
  // The first one goes back to when sampling was stopped, or anywhere.
  if (first) return;
  cupti::HostValues values{sizeof(values), nullptr, host_, image_.data(), image_.size(), index,
                           names_.data(), names_.size(), values_.data()};
  if (failed(cupti_.host_values, values)) return;
  for (size_t i = 0; i < values_.size(); ++i)
    if (options_.counted[i]) values_[i] *= 1e9 / double(sample.end - sample.start);
  totals_.missed += (sample.start - before + options_.interval_ns / 2) / options_.interval_ns;
  ++totals_.samples;
  series_.add(sample.start, sample.end, values_.data());
}

} // namespace tileprof
