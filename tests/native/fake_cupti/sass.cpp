// Counts by instruction: contexts that are patched, and what a test says was executed in them.
//
// What is executed while a context is not patched is not counted, as in CUPTI; what is not flushed
// before patching ends is dropped. Beside records of concurrent kernels all counts are 0; records of
// serialized kernels are needed. Calls in a wrong order, and structures of other sizes, are
// counted.
#include <stdlib.h>

#include <chrono>
#include <thread>
#include <tuple>

#include "fake.h"

namespace sass {
namespace {

constexpr int32_t kInvalidOperation = 7;
constexpr const char *kMetrics[] = {"smsp__sass_inst_executed", "smsp__sass_thread_inst_executed",
                                    "smsp__sass_sectors_mem_global"};
constexpr size_t kCount = 3;
// The device's own numbers are not those of the list.
uint64_t number_of(size_t metric) { return 0x1000 + 7 * metric; }

using Place = std::tuple<uint32_t, std::string, uint32_t>;  // module, function, offset
struct Patched {
  bool enabled = false;
  std::map<Place, std::map<uint64_t, uint64_t>> counts;  // by number of the metric
};
struct Executed {
  size_t size;
  void *own;
  uint32_t module, index;
  char *name;
  uint32_t offset;
  uint64_t (*values)[2];
};

std::mutex mutex;
std::map<void *, Patched> patched;
std::map<uint32_t, std::vector<uint64_t>> configured;  // numbers of metrics by device
uint64_t misuses = 0, flushes = 0;

int32_t wrong() {
  ++misuses;
  return kInvalidOperation;
}
bool is(const void *p, size_t size) { return get<size_t>(p, 0) == size && !get<void *>(p, 8); }
template <typename T> void give(void *p, size_t place, T value) {
  put(static_cast<uint8_t *>(p), place, value);
}

} // namespace

void reset() {
  std::lock_guard lock(mutex);
  patched.clear();
  configured.clear();
  misuses = flushes = 0;
  for (const char *name : {"sass_properties_result", "sass_configure_result", "sass_enable_result",
                           "sass_extent_result", "sass_flush_result", "sass_flush_ms", "sass_returns"})
    fake().options[name] = 0;
}

// -- for tests

// An instruction was executed: adds to one metric of it, by its place in the list.
API void fake_execute(uint64_t context, uint32_t module, const char *function, uint32_t offset,
                      uint32_t metric, uint64_t count) {
  std::lock_guard lock(mutex);
  Patched &one = patched[reinterpret_cast<void *>(context)];
  if (!one.enabled) return;
  const bool serialized = (fake().kinds.load() >> 3 & 1) && !(fake().kinds.load() >> 10 & 1);
  if (!serialized) count = 0;
  auto &counts = one.counts[{module, function, offset}];
  for (uint64_t number : configured[uint32_t(option("device"))])
    counts[number] += number == number_of(metric) ? count : 0;
}
API uint64_t fake_sass_misuses() { return misuses; }
API uint64_t fake_sass_flushes() { return flushes; }
API uint64_t fake_sass_configured() { return configured.size(); }
API uint64_t fake_sass_enabled(uint64_t context) {
  std::lock_guard lock(mutex);
  return patched[reinterpret_cast<void *>(context)].enabled;
}

// -- what the recorder calls

API int32_t cuptiSassMetricsGetNumOfMetrics(void *p) {
  if (!is(p, 32)) return wrong();
  give<size_t>(p, 24, kCount);
  return 0;
}
API int32_t cuptiSassMetricsGetMetrics(void *p) {
  if (!is(p, 40) || get<size_t>(p, 24) != kCount) return wrong();
  struct Details {
    uint64_t number;
    const char *name, *text;
  };
  for (size_t i = 0; i < kCount; ++i)
    get<Details *>(p, 32)[i] = {number_of(i), kMetrics[i], "of an instruction"};
  return 0;
}
API int32_t cuptiSassMetricsGetProperties(void *p) {
  if (!is(p, 56)) return wrong();
  if (const uint64_t result = option("sass_properties_result")) return int32_t(result);
  for (size_t i = 0; i < kCount; ++i)
    if (std::string(kMetrics[i]) == get<const char *>(p, 24)) {
      give<uint64_t>(p, 32, number_of(i));
      return 0;
    }
  return kInvalidParameter;
}
API int32_t cuptiSassMetricsSetConfig(void *p) {
  if (!is(p, 36)) return wrong();
  if (const uint64_t result = option("sass_configure_result")) return int32_t(result);
  std::lock_guard lock(mutex);
  const uint32_t device = get<uint32_t>(p, 32);
  if (configured.count(device)) return wrong();
  for (size_t i = 0; i < get<size_t>(p, 16); ++i) {
    const uint8_t *config = get<const uint8_t *>(p, 24) + 16 * i;
    if (get<uint8_t>(config, 8)) return wrong();
    configured[device].push_back(get<uint64_t>(config, 0));
  }
  return 0;
}
API int32_t cuptiSassMetricsUnsetConfig(void *p) {
  std::lock_guard lock(mutex);
  for (const auto &[context, one] : patched)
    if (one.enabled) return wrong();
  return is(p, 20) && configured.erase(get<uint32_t>(p, 16)) ? 0 : wrong();
}
API int32_t cuptiSassMetricsEnable(void *p) {
  if (const uint64_t result = option("sass_enable_result")) return int32_t(result);
  {
    std::lock_guard lock(mutex);
    Patched &one = patched[get<void *>(p, 16)];
    if (!is(p, 25) || one.enabled || configured.empty() || get<uint8_t>(p, 24) != 1) return wrong();
    one.enabled = true;
  }
  // CUPTI's own work in the context.
  fake_call(307);
  return 0;
}
API int32_t cuptiSassMetricsGetDataProperties(void *p) {
  if (const uint64_t result = option("sass_extent_result")) return int32_t(result);
  std::lock_guard lock(mutex);
  const Patched &one = patched[get<void *>(p, 16)];
  if (!is(p, 40) || !one.enabled) return wrong();
  give<size_t>(p, 24, one.counts.size() * configured.begin()->second.size());
  give<size_t>(p, 32, size_t(1));
  return 0;
}
API int32_t cuptiSassMetricsFlushData(void *p) {
  if (const uint64_t result = option("sass_flush_result")) return int32_t(result);
  sleep_while("sass_flush_ms");
  ++fake().options["sass_returns"];
  fake_call(307);
  std::lock_guard lock(mutex);
  ++flushes;
  Patched &one = patched[get<void *>(p, 16)];
  const size_t records = one.counts.size() * configured.begin()->second.size();
  if (!is(p, 40) || !one.enabled || get<size_t>(p, 24) != records) return wrong();
  Executed *record = get<Executed *>(p, 40);
  for (uint64_t number : configured.begin()->second)
    for (const auto &[place, counts] : one.counts) {
      if (record->size != sizeof(Executed) || record->own) return wrong();
      const auto &[module, function, offset] = place;
      record->module = module;
      record->index = 3;
      record->name = strdup(function.c_str());
      record->offset = offset;
      record->values[0][0] = number;
      record->values[0][1] = counts.at(number);
      ++record;
    }
  one.counts.clear();
  return 0;
}
API int32_t cuptiSassMetricsDisable(void *p) {
  std::lock_guard lock(mutex);
  Patched &one = patched[get<void *>(p, 16)];
  if (!is(p, 32) || !one.enabled) return wrong();
  give<size_t>(p, 24, one.counts.size() * configured.begin()->second.size());
  one = {};
  return 0;
}

} // namespace sass

void reset_sass() { sass::reset(); }
