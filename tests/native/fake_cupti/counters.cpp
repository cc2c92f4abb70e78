// Hardware counters: contexts that are profiled by ranges, and what CUPTI's host side makes of them.
//
// Every launch in a context that is profiled is a range. What a metric is for a function is told by
// a test (`fake_counter`); images hold these numbers. Calls in a wrong order are counted.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

#include "fake.h"

namespace counters {
namespace {

constexpr int32_t kInvalidOperation = 7, kInvalidMetric = 17, kInvalidChip = 46;
constexpr const char *kChip = "FAKE100";

struct Profiled {
  void *context;
  bool configured = false, started = false;
  uint64_t most = 0;
  uint8_t *image = nullptr;
  size_t image_bytes = 0;
  std::vector<std::string> functions;  // of launches since the start
};
struct Host {
  std::vector<std::string> metrics;
};

std::mutex mutex;
std::map<void *, Profiled *> profiled;
std::map<std::pair<std::string, std::string>, double> values;  // by metric and function
std::map<std::string, int> known;  // metrics, and in which pass they are
uint64_t misuses = 0, launches = 0;

int32_t wrong() {
  ++misuses;
  return kInvalidOperation;
}
// The result that a test wants of a function.
int32_t planned(const char *name) { return int32_t(option(name)); }

Profiled *of(void *object) { return static_cast<Profiled *>(object); }

// An image: its mark, how many ranges it has room for, how many it holds, and for each of them a
// function's name in 64 bytes.
constexpr uint64_t kMark = 0x1234567890abcdef;
struct Image {
  uint64_t mark, room, count;
};
constexpr size_t kName = 64;

} // namespace

// -- for tests

API void fake_counters_reset() {
  std::lock_guard lock(mutex);
  profiled.clear();
  values.clear();
  known.clear();
  misuses = launches = 0;
  fake().options["graph_ranges"] = 0;
}
API void fake_metric(const char *metric, int32_t pass) { known[metric] = pass; }
API void fake_counter(const char *metric, const char *function, double value) {
  known.emplace(metric, 1);
  values[{metric, function}] = value;
}
API uint64_t fake_counter_misuses() { return misuses; }
API uint64_t fake_profiled() { return profiled.size(); }
// A launch that has run.
void count(const void *context, const char *symbol) {
  std::lock_guard lock(mutex);
  auto found = profiled.find(const_cast<void *>(context));
  if (found == profiled.end() || !found->second->started) return;
  ++launches;
  const std::string name = symbol ? symbol : "";
  const size_t ranges = name.empty() && option("graph_ranges") ? option("graph_ranges") : 1;
  found->second->functions.insert(found->second->functions.end(), ranges, name);
}

// -- the device's side

API int32_t cuptiGetDeviceId(void *context, uint32_t *device) {
  const uint64_t devices = option("devices");
  *device = uint32_t(devices ? reinterpret_cast<uint64_t>(context) % devices : option("device"));
  return 0;
}
API int32_t cuptiDeviceGetChipName(void *parameters) {
  put<const char *>(static_cast<uint8_t *>(parameters), 24, option("chip") ? "OTHER1" : kChip);
  return planned("chip_result");
}
API int32_t cuptiProfilerInitialize(void *) { return planned("initialize_result"); }
API int32_t cuptiRangeProfilerEnable(void *p) {
  if (const int32_t result = planned("range_enable_result")) return result;
  void *context = get<void *>(p, 16);
  std::lock_guard lock(mutex);
  if (!context || profiled.count(context)) return wrong();
  profiled[context] = new Profiled{context, false, false, 0, nullptr, 0, {}};
  put<void *>(static_cast<uint8_t *>(p), 24, profiled[context]);
  return 0;
}
API int32_t cuptiRangeProfilerGetCounterDataSize(void *p) {
  put<size_t>(static_cast<uint8_t *>(p), 56, sizeof(Image) + get<size_t>(p, 40) * kName);
  return planned("range_size_result");
}
API int32_t cuptiRangeProfilerCounterDataImageInitialize(void *p) {
  const size_t size = get<size_t>(p, 24);
  const Image empty{kMark, (size - sizeof(Image)) / kName, 0};
  memcpy(get<uint8_t *>(p, 32), &empty, sizeof(empty));
  return planned("range_image_result");
}
API int32_t cuptiRangeProfilerSetConfig(void *p) {
  if (const int32_t result = planned("range_config_result")) return result;
  std::lock_guard lock(mutex);
  Profiled *one = of(get<void *>(p, 16));
  const std::string plan(get<const char *>(p, 32), get<size_t>(p, 24));
  // For each launch, repeated by CUPTI itself; of one level.
  const bool fits = get<uint32_t>(p, 56) == 1 && get<uint32_t>(p, 60) == 2 &&
                    get<uint16_t>(p, 72) == 1 && get<uint16_t>(p, 74) == 1 &&
                    get<uint16_t>(p, 88) == 1 && get<size_t>(p, 0) == 90;
  if (one->started || plan.substr(0, 5) != "plan " || !fits) return wrong();
  one->image_bytes = get<size_t>(p, 40);
  one->image = get<uint8_t *>(p, 48);
  one->most = get<size_t>(p, 64);
  one->configured = get<Image>(one->image, 0).mark == kMark;
  return one->configured ? 0 : wrong();
}
API int32_t cuptiRangeProfilerStart(void *p) {
  if (const int32_t result = planned("range_start_result")) return result;
  std::lock_guard lock(mutex);
  Profiled *one = of(get<void *>(p, 16));
  if (one->started || !one->configured) return wrong();
  one->started = true;
  one->functions.clear();
  return 0;
}
API int32_t cuptiRangeProfilerStop(void *p) {
  if (const int32_t result = planned("range_stop_result")) return result;
  std::lock_guard lock(mutex);
  Profiled *one = of(get<void *>(p, 16));
  if (!one->started || get<size_t>(p, 0) != 41) return wrong();
  one->started = false;
  put<uint8_t>(static_cast<uint8_t *>(p), 40, 1);
  return 0;
}
API int32_t cuptiRangeProfilerDecodeData(void *p) {
  if (const int32_t result = planned("range_decode_result")) return result;
  std::lock_guard lock(mutex);
  Profiled *one = of(get<void *>(p, 16));
  if (one->started || !one->configured) return wrong();
  std::vector<std::string> all = one->functions;
  if (option("range_missing") && !all.empty()) all.pop_back();
  const size_t room = std::min<size_t>(one->most, get<Image>(one->image, 0).room);
  const size_t held = std::min(all.size(), room);
  put<size_t>(static_cast<uint8_t *>(p), 24, all.size() - held);
  put<uint64_t>(one->image, 16, held);
  for (size_t i = 0; i < held; ++i)
    strncpy(reinterpret_cast<char *>(one->image) + sizeof(Image) + i * kName, all[i].c_str(),
            kName - 1);
  one->configured = false;
  return 0;
}
API int32_t cuptiRangeProfilerDisable(void *p) {
  std::lock_guard lock(mutex);
  Profiled *one = of(get<void *>(p, 16));
  if (one->started) return wrong();
  profiled.erase(one->context);
  return 0;
}
API int32_t cuptiRangeProfilerGetCounterDataInfo(void *p) {
  const Image image = get<Image>(get<void *>(p, 16), 0);
  if (image.mark != kMark) return wrong();
  put<size_t>(static_cast<uint8_t *>(p), 32, image.count);
  return 0;
}
API int32_t cuptiRangeProfilerCounterDataGetRangeInfo(void *p) {
  // As CUPTI: the number of the launch.
  char *text = static_cast<char *>(malloc(24));
  snprintf(text, 24, "%zu", get<size_t>(p, 32));
  put<const char *>(static_cast<uint8_t *>(p), 48, text);
  return 0;
}

// -- the host's side, which needs no device

API int32_t cuptiProfilerHostInitialize(void *p) {
  const char *chip = get<const char *>(p, 24);
  if (std::string(chip ? chip : "") != kChip) return kInvalidChip;
  put<void *>(static_cast<uint8_t *>(p), 40, new Host);
  return 0;
}
API int32_t cuptiProfilerHostDeinitialize(void *p) {
  delete get<Host *>(p, 16);
  return 0;
}
API int32_t cuptiProfilerHostConfigAddMetrics(void *p) {
  for (size_t i = 0; i < get<size_t>(p, 32); ++i) {
    const std::string name = get<const char **>(p, 24)[i];
    if (!known.count(name)) return kInvalidMetric;
    get<Host *>(p, 16)->metrics.push_back(name);
  }
  return 0;
}
static std::string plan_of(const Host &host) {
  int passes = 1;
  for (const std::string &each : host.metrics) passes = std::max(passes, known[each]);
  return "plan " + std::to_string(passes);
}
API int32_t cuptiProfilerHostGetConfigImageSize(void *p) {
  put<size_t>(static_cast<uint8_t *>(p), 24, plan_of(*get<Host *>(p, 16)).size());
  return 0;
}
API int32_t cuptiProfilerHostGetConfigImage(void *p) {
  const std::string plan = plan_of(*get<Host *>(p, 16));
  memcpy(get<char *>(p, 32), plan.data(), std::min(plan.size(), get<size_t>(p, 24)));
  return 0;
}
API int32_t cuptiProfilerHostGetNumOfPasses(void *p) {
  const std::string plan(get<const char *>(p, 24), get<size_t>(p, 16));
  put<size_t>(static_cast<uint8_t *>(p), 32, size_t(std::stoi(plan.substr(5))));
  return 0;
}
API int32_t cuptiProfilerHostEvaluateToGpuValues(void *p) {
  if (const int32_t result = planned("evaluate_result")) return result;
  if (pm_image(get<const void *>(p, 24))) {
    for (size_t i = 0; i < get<size_t>(p, 56); ++i)
      get<double *>(p, 64)[i] =
          pm_value(get<const void *>(p, 24), get<size_t>(p, 40), get<const char **>(p, 48)[i]);
    return 0;
  }
  const char *function = get<const char *>(p, 24) + sizeof(Image) + get<size_t>(p, 40) * kName;
  for (size_t i = 0; i < get<size_t>(p, 56); ++i)
    get<double *>(p, 64)[i] = values[{get<const char **>(p, 48)[i], function}];
  return 0;
}
API int32_t cuptiProfilerHostGetBaseMetrics(void *p) {
  static std::vector<const char *> names;
  names.clear();
  // All are counters; base metrics are without what follows the first point.
  static std::set<std::string> bases;
  for (const auto &[name, pass] : known) bases.insert(name.substr(0, name.find('.')));
  if (get<uint32_t>(p, 24) == 0)
    for (const std::string &each : bases) names.push_back(each.c_str());
  put<const char **>(static_cast<uint8_t *>(p), 32, names.data());
  put<size_t>(static_cast<uint8_t *>(p), 40, names.size());
  return 0;
}

} // namespace counters

void count_launch(const void *context, const char *symbol) { counters::count(context, symbol); }
