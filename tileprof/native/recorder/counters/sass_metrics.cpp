#include "counters/sass_metrics.h"

#include <algorithm>
#include <cstdlib>

#include "counters/cupti_range.h"
#include "counters/cupti_sass.h"
#include "cupti/current_context.h"
#include "cupti/own_calls.h"

namespace tileprof {
namespace {

// The worker works only on orders.
constexpr uint32_t kSeldom_ms = 60'000;

} // namespace

SassMetrics::SassMetrics(PcModules &modules, Gate &gate) : Collector(gate), modules_(modules) {}

// -- what is wanted

void SassMetrics::configure(SassOptions options) {
  Lock lock = locked(kPatience_s);
  if (!lock) return;
  options_ = std::move(options);
  // First it waits for launches to return, then for CUPTI.
  worker_.pace(kSeldom_ms, 2 * options_.patience_s);
  wanted_ = !options_.metrics.empty();
  counts_ = {};
  functions_.clear();
  status_ = {};
  targets_.remove_if([](const Target &each) { return !each.enabled; });
}

void SassMetrics::begin() {
  if (!wanted()) return;
  // Two first launches at once of a function, which each patch it, end never (CUPTI 13.0).
  gate_.one_at_a_time(true);
  worker_.begin();
  worker_.tell(kForget);
  Lock lock = locked(kPatience_s);
  if (!lock) return;
  seen_ = nullptr;
  const char *missing = cupti_.lacking(CuptiFeature::Instructions);
  active_ = !missing;
  if (active_ || status_.code) return;
  status_.code = kCannotCount;
  status_.text = cupti_.without(missing);
}

void SassMetrics::end() {
  attached_ = false;
  tell(kEnd, true);
  gate_.one_at_a_time(false);
}

// -- the thread

void SassMetrics::obey(int order) {
  if (!order) return;
  OwnCall ours;
  {
    std::lock_guard lock(mutex_);
    if (targets_.empty()) return;
  }
  // The lock comes second: a launch that is under way may have it.
  const bool idle = gate_.closed_while(options_.patience_s, [&] {
    std::lock_guard lock(mutex_);
    read_all(order);
  });
  std::lock_guard lock(mutex_);
  if (idle || status_.code) return;
  status_.code = kNeverIdle;
  status_.text = "counts of instructions were not read: a launch did not return";
}

void SassMetrics::read_all(int order) {
  for (Target &each : targets_) {
    CurrentContext current(each.context);
    read(each, order != kForget);
    if (order == kEnd) disable(each);
  }
  if (order == kEnd) seen_ = nullptr;
  if (order == kEnd) targets_.clear();
}

// -- contexts

bool SassMetrics::failed(CuptiResult result, const std::string &what) {
  if (result == cupti::kSuccess) return false;
  if (!status_.code) {
    status_.code = result;
    status_.text = what + ": " + cupti_.text_of(result);
  }
  return true;
}

void SassMetrics::see_closely(void *context) {
  if (OwnCall::under_way() || !context) return;
  // It waits where another thread's first launch is enabling: what is not patched is not counted.
  Lock lock = locked(kPatience_s);
  if (!lock || !active_) return;
  OwnCall ours;
  auto found = std::find_if(targets_.begin(), targets_.end(),
                            [context](const Target &each) { return each.context == context; });
  const bool fresh = found == targets_.end();
  if (fresh) found = targets_.insert(targets_.end(), Target{context});
  if (!found->enabled && !found->refused) found->refused = !enable(*found);
  if (fresh) ++(found->refused ? status_.refused : status_.counted);
  seen_ = context;
}

bool SassMetrics::enable(Target &target) {
  if (!initialized_) {
    cupti::ProfilerStart parameters{sizeof(parameters), nullptr};
    if (failed(cupti_.profiler_initialize, parameters)) return false;
    initialized_ = true;
  }
  if (failed(cupti_.device_of(target.context, &target.device), "cuptiGetDeviceId")) return false;
  if (!configure_device(target.device)) return false;
  cupti::SassEnable parameters{cupti::kSassEnableBytes, nullptr, target.context, 1};
  if (failed(cupti_.sass_enable, parameters)) return false;
  target.enabled = true;
  return true;
}

// Once for all contexts of a device, and in a process: CUPTI 13.0 sets a device no second time.
bool SassMetrics::configure_device(uint32_t device) {
  auto set = configured_.find(device);
  if (set != configured_.end() && set->second.metrics == options_.metrics) return true;
  if (set != configured_.end()) {
    cupti::SassForget former{cupti::kSassForgetBytes, nullptr, device};
    configured_.erase(set);
    if (failed(cupti_.sass_forget, former)) return false;
  }
  cupti::ChipName chip{sizeof(chip), nullptr, device, nullptr};
  if (failed(cupti_.chip_name, chip)) return false;
  std::vector<cupti::SassConfig> configs;
  std::vector<uint64_t> numbers;
  for (const std::string &metric : options_.metrics) {
    cupti::SassProperties properties{sizeof(properties), nullptr, chip.name, metric.c_str(), {}};
    if (failed(cupti_.sass_properties(&properties), "cuptiSassMetricsGetProperties of " + metric))
      return false;
    numbers.push_back(properties.metric.number);
    configs.push_back({properties.metric.number, cupti::kWholeDevice});
  }
  cupti::SassConfigure parameters{cupti::kSassConfigureBytes, nullptr, configs.size(),
                                  configs.data(), device};
  if (failed(cupti_.sass_configure, parameters)) return false;
  configured_[device] = {options_.metrics, std::move(numbers)};
  return true;
}

void SassMetrics::gone(void *context) {
  if (OwnCall::under_way() || !context) return;
  Lock lock = locked(kPatience_s);
  if (!lock) return;
  OwnCall ours;
  if (seen_ == context) seen_ = nullptr;
  for (Target &each : targets_) {
    if (each.context != context) continue;
    read(each, true);
    disable(each);
  }
  targets_.remove_if([context](const Target &each) { return each.context == context; });
}

// -- reading

void SassMetrics::read(Target &target, bool counts) {
  try {
    flush(target, counts);
  } catch (...) {
    // No memory for more counts: what is counted stays.
  }
}

void SassMetrics::flush(Target &target, bool counts) {
  if (!target.enabled) return;
  cupti::SassExtent extent{sizeof(extent), nullptr, target.context, 0, 0};
  if (failed(cupti_.sass_extent, extent)) return;
  if (!extent.records || !extent.values) return;
  // A record has one metric of one instruction.
  const size_t width = extent.values;
  std::vector<cupti::SassValue> values(extent.records * width);
  std::vector<cupti::SassRecord> records(extent.records);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i] = {};
    records[i].size = sizeof(cupti::SassRecord);
    records[i].values = values.data() + i * width;
  }
  cupti::SassFlush flush{cupti::kSassFlushBytes, nullptr, target.context, extent.records,
                         extent.values, records.data()};
  if (failed(cupti_.sass_flush, flush)) return;
  status_.records += records.size();
  if (counts) add(target, records.data(), records.size(), width);
  for (cupti::SassRecord &record : records) std::free(record.name);
}

void SassMetrics::add(const Target &target, const void *all, size_t count, size_t width) {
  const auto *records = static_cast<const cupti::SassRecord *>(all);
  const std::vector<uint64_t> &numbers = configured_[target.device].numbers;
  for (size_t i = 0; i < count; ++i) {
    const cupti::SassRecord &record = records[i];
    const uint32_t module = modules_.number_of_part(record.module);
    const auto [found, fresh] = functions_.try_emplace(
        {module, record.name ? record.name : ""}, uint32_t(counts_.functions.size()));
    if (fresh) counts_.functions.push_back({module, found->first.second});
    for (size_t v = 0; v < width; ++v) {
      const auto at = std::find(numbers.begin(), numbers.end(), record.values[v].metric);
      if (at == numbers.end() || !record.values[v].value) continue;
      counts_.rows[{found->second, record.offset, uint32_t(at - numbers.begin())}] +=
          record.values[v].value;
    }
  }
}

void SassMetrics::disable(Target &target) {
  if (!target.enabled) return;
  target.enabled = false;
  cupti::SassDisable parameters{sizeof(parameters), nullptr, target.context, 0};
  failed(cupti_.sass_disable, parameters);
  status_.dropped += parameters.dropped;
}

SassStatus SassMetrics::status() {
  Lock lock = locked(kPatience_s);
  SassStatus status;
  if (lock) status = status_;
  status.hung = worker_.hung();
  return status;
}

SassCounts SassMetrics::counts() {
  Lock lock = locked(kPatience_s);
  return lock ? counts_ : SassCounts{};
}

} // namespace tileprof
