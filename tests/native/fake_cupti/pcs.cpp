// Sampling of program counters: contexts that are sampled, and samples that a test takes in them.
//
// Calls in an order that CUPTI does not allow are counted. Names are malloc'ed: one for each
// record ("pc_copies"), or one for each function of a context, which is handed over again and again.
#include <stdlib.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fake.h"
#include "pc_layout.h"
#include "replay.h"

namespace {

constexpr int32_t kInvalidOperation = 7;
constexpr size_t kReasons = 6;
const char *const kStallNames[kReasons] = {
    "smsp__pcsamp_warps_issue_stalled_selected",
    "smsp__pcsamp_warps_issue_stalled_wait",
    "smsp__pcsamp_warps_issue_stalled_wait_not_issued",
    "smsp__pcsamp_warps_issue_stalled_warpgroup_arrive",
    "smsp__pcsamp_warps_issue_stalled_warpgroup_arrive_not_issued",
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
};
// The device's own numbers are not those of the list.
uint32_t index_of(size_t reason) { return uint32_t(3 * reason + 2); }

// Those of the list, or those that were kept with reads.
std::vector<KeptStall> reasons() {
  if (!kept_stalls().empty()) return kept_stalls();
  std::vector<KeptStall> all;
  for (size_t i = 0; i < kReasons; ++i) all.push_back({index_of(i), kStallNames[i]});
  return all;
}

struct Sample {
  uint64_t module, offset;
  uint32_t function, correlation;
  std::string name;
  std::map<uint32_t, uint32_t> stalls;  // by place in the list
};
struct Sampled {
  bool enabled = false, configured = false, started = false, full = false;
  std::map<uint32_t, uint64_t> attributes;
  Data *buffer = nullptr;
  std::vector<Sample> samples, late;  // late: handed over by Disable alone
  uint64_t total = 0, dropped = 0, non_user = 0;
  std::map<std::string, char *> names;
};
struct Pcs {
  std::mutex mutex;
  std::map<void *, Sampled> contexts;
  void (*crc)(const void *, size_t, uint64_t *) = nullptr;
  std::map<std::string, uint64_t> calls;
  uint64_t misuses = 0, names = 0;
};
Pcs &pcs() {
  static Pcs *one = new Pcs;
  return *one;
}

int32_t misused() {
  ++pcs().misuses;
  return kInvalidOperation;
}

char *name_of(Sampled &sampled, const std::string &name) {
  if (!option("pc_copies") && sampled.names.count(name)) return sampled.names[name];
  ++pcs().names;
  return sampled.names[name] = strdup(name.c_str());
}

// Whether a record has found room.
bool hand_over(Sampled &sampled, const Sample &sample, Data &data) {
  if (data.records == data.room) return false;
  Pc &pc = data.pc[data.records++];
  if (pc.size != sizeof(Pc) || pc.stalls < sample.stalls.size()) ++pcs().misuses;
  pc.module = sample.module;
  pc.offset = sample.offset;
  pc.function = sample.function;
  pc.correlation = sample.correlation;
  pc.name = name_of(sampled, sample.name);
  pc.stalls = 0;
  for (auto [reason, samples] : sample.stalls)
    pc.stall[pc.stalls++] = {index_of(reason), samples};
  return true;
}

size_t hand_over(Sampled &sampled, std::vector<Sample> &samples, Data &data) {
  size_t given = 0;
  while (given < samples.size() && hand_over(sampled, samples[given], data)) ++given;
  samples.erase(samples.begin(), samples.begin() + long(given));
  return given;
}

// A device samples one context at a time.
bool busy_beside(const Sampled &sampled) {
  uint32_t device = 0, another = 0;
  for (const auto &[context, each] : pcs().contexts)
    if (&each == &sampled) cuptiGetDeviceId(context, &device);
  for (const auto &[context, each] : pcs().contexts) {
    cuptiGetDeviceId(context, &another);
    if (&each != &sampled && each.started && another == device) return true;
  }
  return false;
}

template <typename Call> int32_t locked(const char *name, void *parameters, size_t size, Call call) {
  std::lock_guard lock(pcs().mutex);
  ++pcs().calls[name];
  Params &p = *static_cast<Params *>(parameters);
  if (p.size != size || p.own) return misused();
  return call(p, pcs().contexts[p.context]);
}

} // namespace

void reset_pcs() {
  std::lock_guard lock(pcs().mutex);
  pcs().contexts.clear();
  pcs().calls.clear();
  pcs().misuses = pcs().names = 0;
  pcs().crc = nullptr;
  reset_replay();
}

// CUPTI's own checksum.
static uint64_t own_sum(const uint8_t *cubin, size_t size) {
  uint64_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < size; ++i) crc = (crc * 31 + cubin[i]) & 0xFFFFFFFF;
  return crc;
}

// -- what a test does

// Loads a module; what its samples will name it by.
API uint64_t fake_load(const uint8_t *cubin, size_t size) {
  uint64_t crc = own_sum(cubin, size);
  if (pcs().crc) pcs().crc(cubin, size, &crc);
  return crc;
}
// Takes samples of one instruction in a context, if it is sampled now. Bit i of `reasons`: stall
// reason i, `samples` of each.
API void fake_sample(uint64_t context, uint64_t module, uint32_t function, const char *name,
                     uint64_t offset, uint32_t reasons, uint32_t samples, uint32_t correlation,
                     uint32_t late) {
  std::lock_guard lock(pcs().mutex);
  Sampled &sampled = pcs().contexts[reinterpret_cast<void *>(context)];
  if (!sampled.started) return;
  Sample sample{module, offset, function, correlation, name, {}};
  for (uint32_t i = 0; i < kReasons; ++i)
    if (reasons >> i & 1) {
      sample.stalls[i] = samples;
      if (!strstr(kStallNames[i], "_not_issued")) sampled.total += samples;
    }
  (late ? sampled.late : sampled.samples).push_back(sample);
}
// Samples of kernels that are not told, or that were dropped.
API void fake_lose(uint64_t context, uint64_t non_user, uint64_t dropped) {
  std::lock_guard lock(pcs().mutex);
  Sampled &sampled = pcs().contexts[reinterpret_cast<void *>(context)];
  sampled.non_user += non_user;
  sampled.dropped += dropped;
  sampled.total += non_user + dropped;
}
API void fake_overflow(uint64_t context) {
  std::lock_guard lock(pcs().mutex);
  pcs().contexts[reinterpret_cast<void *>(context)].full = true;
}
API void fake_context_ends(uint64_t context) {
  uint8_t data[24] = {};
  put(data, 0, context);
  if (on(kResource, 2)) fake().callback(fake().user, kResource, 2, data);
}
API uint64_t fake_calls_of(const char *name) {
  std::lock_guard lock(pcs().mutex);
  return pcs().calls[name];
}
API uint64_t fake_misuses() { return pcs().misuses; }
API uint64_t fake_names() { return pcs().names; }
API uint64_t fake_attribute(uint64_t context, uint32_t type) {
  std::lock_guard lock(pcs().mutex);
  return pcs().contexts[reinterpret_cast<void *>(context)].attributes[type];
}
// 1: enabled, 2: started.
API uint32_t fake_sampled(uint64_t context) {
  std::lock_guard lock(pcs().mutex);
  const Sampled &sampled = pcs().contexts[reinterpret_cast<void *>(context)];
  return sampled.enabled + 2 * sampled.started;
}

// -- what the recorder calls

API int32_t cuptiRegisterComputeCrcCallback(void (*crc)(const void *, size_t, uint64_t *)) {
  pcs().crc = crc;
  return 0;
}
API int32_t cuptiGetCubinCrc(void *parameters) {
  size_t size;
  const uint8_t *cubin;
  memcpy(&size, static_cast<char *>(parameters) + 8, 8);
  memcpy(&cubin, static_cast<char *>(parameters) + 16, 8);
  const uint64_t crc = own_sum(cubin, size);
  memcpy(static_cast<char *>(parameters) + 24, &crc, 8);
  return 0;
}
API int32_t cuptiPCSamplingEnable(void *parameters) {
  return locked("enable", parameters, 24, [](Params &, Sampled &sampled) -> int32_t {
    if (sampled.enabled) return misused();
    if (const uint64_t result = option("pc_enable_result")) return int32_t(result);
    sampled.enabled = true;
    sampled.full = false;
    // CUPTI's own work in the context.
    fake_call(307);
    return 0;
  });
}
API int32_t cuptiPCSamplingDisable(void *parameters) {
  return locked("disable", parameters, 24, [](Params &, Sampled &sampled) -> int32_t {
    if (!sampled.enabled) return misused();
    if (Data *data = sampled.buffer) {
      data->records = 0;
      replay_last(*data);
      for (auto *samples : {&sampled.samples, &sampled.late}) hand_over(sampled, *samples, *data);
      data->remaining = sampled.samples.size() + sampled.late.size();
      data->total += std::exchange(sampled.total, 0);
    }
    auto names = std::move(sampled.names);
    sampled = {};
    sampled.names = std::move(names);
    return 0;
  });
}
API int32_t cuptiPCSamplingStart(void *parameters) {
  return locked("start", parameters, 24, [](Params &, Sampled &sampled) -> int32_t {
    if (!sampled.configured || sampled.started || !sampled.attributes[6]) return misused();
    const int32_t result = busy_beside(sampled) ? kHardwareBusy : int32_t(option("pc_start_result"));
    sampled.started = !result;
    if (result == kHardwareBusy) fake().mute = true;
    return result;
  });
}
API int32_t cuptiPCSamplingStop(void *parameters) {
  sleep_while("pc_stop_ms");
  ++fake().options["pc_stops"];
  return locked("stop", parameters, 24, [](Params &, Sampled &sampled) -> int32_t {
    if (!sampled.started) return misused();
    sampled.started = false;
    return int32_t(option("pc_stop_result"));
  });
}
API int32_t cuptiPCSamplingGetData(void *parameters) {
  return locked("data", parameters, 32, [](Params &p, Sampled &sampled) -> int32_t {
    Data &data = *static_cast<Data *>(p.first);
    if (!sampled.configured || data.size != sizeof(Data) || data.records) return misused();
    if (const uint64_t result = option("pc_data_result")) return int32_t(result);
    data.full = sampled.full;
    if (sampled.full) return kMoreThanFits;
    if (sampled.started && option("pc_only_stopped")) return 0;
    // What was moved to the buffer of the configuration comes with the next call, which empties it.
    if (option("pc_moved") && !sampled.buffer->records && sampled.samples.size() > 1) {
      fake().options["pc_moved"] -= 1;
      sampled.buffer->records = sampled.samples.size();
      return 0;
    }
    sampled.buffer->records = 0;
    if (int32_t result = 0; replay_read(data, result)) return result;
    data.total = std::exchange(sampled.total, 0);
    data.dropped = std::exchange(sampled.dropped, 0);
    data.non_user = std::exchange(sampled.non_user, 0);
    hand_over(sampled, sampled.samples, data);
    data.remaining = sampled.samples.size();
    return data.remaining ? kMoreThanFits : 0;
  });
}
API int32_t cuptiPCSamplingSetConfigurationAttribute(void *parameters) {
  return locked("configure", parameters, 40, [](Params &p, Sampled &sampled) -> int32_t {
    if (!sampled.enabled) return misused();
    Attribute *all = static_cast<Attribute *>(p.second);
    for (size_t i = 0; i < size_t(p.first); ++i) {
      if (option("pc_attribute") == all[i].type) {
        all[i].status = kInvalidOperation;
        return kInvalidOperation;
      }
      // A number has 32 bits; sizes and places 64.
      const bool number = all[i].type == 1 || all[i].type == 5 || all[i].type == 6;
      sampled.attributes[all[i].type] = number ? uint32_t(all[i].value) : all[i].value;
    }
    sampled.buffer = reinterpret_cast<Data *>(sampled.attributes[kBufferAttribute]);
    sampled.configured = sampled.buffer && sampled.buffer->size == sizeof(Data);
    return 0;
  });
}
API int32_t cuptiPCSamplingGetNumStallReasons(void *parameters) {
  return locked("count", parameters, 32, [](Params &p, Sampled &) -> int32_t {
    *static_cast<size_t *>(p.first) = option("pc_no_stalls") ? 0 : reasons().size();
    return 0;
  });
}
API int32_t cuptiPCSamplingGetStallReasons(void *parameters) {
  return locked("names", parameters, 48, [](Params &p, Sampled &) -> int32_t {
    for (size_t i = 0; i < size_t(p.first); ++i) {
      static_cast<uint32_t *>(p.second)[i] = reasons()[i].number;
      strncpy(static_cast<char **>(p.third)[i], reasons()[i].name.c_str(), kStallName);
    }
    return 0;
  });
}
