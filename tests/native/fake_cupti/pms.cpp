// Hardware counters over time: devices whose samples a test makes, and images that hold them.
//
// A device's buffer has room for one sample in 1024 bytes; when more come, it is full until
// sampling is disabled. Calls in a wrong order are counted.
#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "fake.h"

namespace pms {
namespace {

constexpr int32_t kInvalidOperation = 7, kOutOfMemory = 8;
constexpr size_t kMost = 8, kSampleBytes = 1024;

struct Sample {
  uint64_t start, end;
  double values[kMost];
};
struct Sampled {
  size_t device;
  bool configured = false, started = false, fresh = false, overflow = false;
  uint64_t interval = 0;
  size_t buffer_bytes = 0, image_samples = 0;
  std::deque<Sample> samples;
};
// An image: how many samples it has room for, how many it holds, and these.
struct Image {
  uint64_t mark, room, count;
};

std::mutex mutex;
std::map<size_t, Sampled *> sampled;
std::vector<std::string> metrics;
uint64_t misuses = 0;

int32_t wrong() {
  ++misuses;
  return kInvalidOperation;
}
int32_t planned(const char *name) { return int32_t(option(name)); }
// The device of a call's sampler; null where it is not enabled.
Sampled *of(void *parameters) {
  auto *one = get<Sampled *>(parameters, 16);
  for (const auto &[device, known] : sampled)
    if (known == one) return one;
  return nullptr;
}
void push(Sampled &one, const Sample &sample) {
  if (one.samples.size() >= one.buffer_bytes / kSampleBytes) one.overflow = true;
  if (!one.overflow) one.samples.push_back(sample);
}
const Sample &sample_at(const void *image, size_t index) {
  const uint8_t *first = static_cast<const uint8_t *>(image) + sizeof(Image);
  return reinterpret_cast<const Sample *>(first)[index];
}

} // namespace

// -- for tests

API void fake_pms_reset() {
  std::lock_guard lock(mutex);
  sampled.clear();
  misuses = 0;
}
API uint64_t fake_pm_misuses() { return misuses; }
API uint64_t fake_pm_devices() { return sampled.size(); }
API uint64_t fake_pm_interval(size_t device) {
  std::lock_guard lock(mutex);
  return sampled.count(device) ? sampled[device]->interval : 0;
}
API uint64_t fake_pm_started(size_t device) {
  std::lock_guard lock(mutex);
  return sampled.count(device) && sampled[device]->started;
}
// Samples one after the other, of values that grow by a step; how many a device took.
API uint64_t fake_pm_samples(size_t device, uint64_t start, uint64_t length, uint64_t count,
                             double first, double step) {
  std::lock_guard lock(mutex);
  auto found = sampled.find(device);
  if (found == sampled.end() || !found->second->started) return 0;
  // The first one goes back to any time.
  if (std::exchange(found->second->fresh, false)) push(*found->second, {1, start, {1e9, 1e9}});
  for (uint64_t i = 0; i < count; ++i) {
    Sample sample{start + i * length, start + (i + 1) * length, {}};
    const double value = first + double(i) * step;
    for (size_t m = 0; m < kMost; ++m) sample.values[m] = value * double(m + 1);
    push(*found->second, sample);
  }
  return found->second->overflow ? 0 : count;
}

bool is_image(const void *image) { return get<uint64_t>(image, 0) == kPmMark; }
double value(const void *image, size_t index, const std::string &metric) {
  const auto at = std::find(metrics.begin(), metrics.end(), metric) - metrics.begin();
  return size_t(at) < metrics.size() ? sample_at(image, index).values[at] : -1;
}

// -- the device's side

API int32_t cuptiPmSamplingEnable(void *p) {
  if (const int32_t result = planned("pm_enable_result")) return result;
  const size_t device = get<size_t>(p, 16);
  std::lock_guard lock(mutex);
  if (sampled.count(device)) return wrong();
  sampled[device] = new Sampled{};
  sampled[device]->device = device;
  put(static_cast<uint8_t *>(p), 24, sampled[device]);
  return 0;
}
API int32_t cuptiPmSamplingDisable(void *p) {
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  if (!one || one->started) return wrong();
  sampled.erase(one->device);
  return 0;
}
API int32_t cuptiPmSamplingSetConfig(void *p) {
  if (const int32_t result = planned("pm_config_result")) return result;
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  const std::string plan(get<const char *>(p, 32), get<size_t>(p, 24));
  // At fixed times; a buffer that is full keeps what it has.
  const bool fits =
      get<uint32_t>(p, 56) == 1 && get<uint32_t>(p, 60) == 0 && get<size_t>(p, 0) == 64;
  if (!one || one->started || plan.substr(0, 5) != "plan " || !fits) return wrong();
  one->buffer_bytes = get<size_t>(p, 40);
  one->interval = get<uint64_t>(p, 48);
  one->configured = true;
  return 0;
}
API int32_t cuptiPmSamplingStart(void *p) {
  if (const int32_t result = planned("pm_start_result")) return result;
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  if (!one || one->started || !one->configured) return wrong();
  one->started = one->fresh = true;
  return 0;
}
API int32_t cuptiPmSamplingStop(void *p) {
  sleep_while("pm_stop_ms");
  ++fake().options["pm_stops"];
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  if (!one || !one->started) return wrong();
  one->started = false;
  return 0;
}
API int32_t cuptiPmSamplingDecodeData(void *p) {
  if (const int32_t result = planned("pm_decode_result")) return result;
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  uint8_t *image = get<uint8_t *>(p, 24);
  if (!one || get<size_t>(p, 0) != 45 || !pm_image(image)) return wrong();
  if (get<Image>(image, 0).count) return wrong();
  if (one->overflow) {
    put<uint8_t>(static_cast<uint8_t *>(p), 44, 1);
    return kOutOfMemory;
  }
  Image held = get<Image>(image, 0);
  const auto add = [&](const Sample &sample) {
    memcpy(image + sizeof(Image) + held.count++ * sizeof(Sample), &sample, sizeof(Sample));
  };
  for (; held.count < held.room && !one->samples.empty(); one->samples.pop_front())
    add(one->samples.front());
  // Stopped, it hands over one that covers no time.
  if (!one->started && held.count < held.room) add({7, 7, {}});
  put(image, 0, held);
  put<uint32_t>(static_cast<uint8_t *>(p), 40, one->samples.empty() ? 2 : 1);
  return 0;
}
API int32_t cuptiPmSamplingGetCounterDataSize(void *p) {
  std::lock_guard lock(mutex);
  Sampled *one = of(p);
  if (!one) return wrong();
  one->image_samples = get<uint32_t>(p, 40);
  const char **names = get<const char **>(p, 24);
  metrics.assign(names, names + std::min(get<size_t>(p, 32), kMost));
  put<size_t>(static_cast<uint8_t *>(p), 48, sizeof(Image) + one->image_samples * sizeof(Sample));
  return planned("pm_size_result");
}
API int32_t cuptiPmSamplingCounterDataImageInitialize(void *p) {
  const Image empty{kPmMark, (get<size_t>(p, 24) - sizeof(Image)) / sizeof(Sample), 0};
  memcpy(get<uint8_t *>(p, 32), &empty, sizeof(empty));
  return 0;
}
API int32_t cuptiPmSamplingGetCounterDataInfo(void *p) {
  const Image image = get<Image>(get<void *>(p, 16), 0);
  if (image.mark != kPmMark) return wrong();
  put<size_t>(static_cast<uint8_t *>(p), 32, image.room);
  put<size_t>(static_cast<uint8_t *>(p), 40, image.count);
  put<size_t>(static_cast<uint8_t *>(p), 48, image.count);
  return 0;
}
API int32_t cuptiPmSamplingCounterDataGetSampleInfo(void *p) {
  const Sample &sample = sample_at(get<void *>(p, 24), get<size_t>(p, 40));
  put(static_cast<uint8_t *>(p), 48, sample.start);
  put(static_cast<uint8_t *>(p), 56, sample.end);
  return 0;
}

} // namespace pms

bool pm_image(const void *image) { return pms::is_image(image); }
double pm_value(const void *image, size_t index, const std::string &metric) {
  return pms::value(image, index, metric);
}
