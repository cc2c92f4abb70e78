// A stand-in for libcupti: the functions that the recorder loads, driven by functions of its own.
//
// A test makes driver calls (`fake_call`, `fake_many`, `fake_threads`), which call the subscriber
// back on the calling thread as CUPTI does, and queues records for them, which `fake_deliver` or a
// flush writes into buffers that the recorder gives, shuffled, on a thread of its own. Options
// make it misbehave: records dropped, buffers refused, another subscriber, longer records. What was
// delivered is counted here too, as the witness that the recorder's totals are compared with.
#pragma once

#include <stdint.h>
#include <string.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

using Callback = void (*)(void *, uint32_t, uint32_t, const void *);
using Requested = void (*)(uint8_t **, size_t *, size_t *);
using Completed = void (*)(void *, uint32_t, uint8_t *, size_t, size_t);

constexpr uint32_t kDriver = 1, kResource = 3, kKinds = 64, kCalls = 1024;
constexpr int32_t kMaxLimit = 12, kInvalidKind = 21, kHardwareBusy = 26, kInvalidParameter = 1, kOther = 39;

struct Record {
  uint8_t bytes[256];
  uint32_t size;
  uint64_t ns;
};

struct Witness {
  uint64_t records = 0, ns = 0;
};

struct Fake {
  std::mutex mutex;
  Callback callback = nullptr;
  void *user = nullptr;
  std::atomic<uint8_t> listened[4][kCalls] = {};
  std::atomic<uint64_t> kinds{0};
  Requested requested = nullptr;
  Completed completed = nullptr;
  uint64_t (*clock)() = nullptr;
  std::atomic<uint32_t> correlation{0};
  std::atomic<int64_t> launching{0};  // launches under way
  std::atomic<int64_t> replaying{0}, waiting_for_events{0};  // what must not meet
  // Nobody is called back any more, as by CUPTI 13.0 once a device that is busy refused to sample.
  std::atomic<bool> mute{false};
  std::vector<Record> queue;
  std::set<std::string> names;
  std::map<uint32_t, Witness> witness;
  std::mt19937 random{7};
  uint64_t dropped = 0;
  uint32_t sizes[kKinds] = {};
  std::map<std::string, std::atomic<uint64_t>> options;
};

Fake &fake();
// How the library was told to misbehave; 0 if not.
uint64_t option(const char *name);
// Sleeps for as many milliseconds as an option says, or until it is set to 0.
void sleep_while(const char *name);
// Whether the subscriber wants a callback.
bool on(uint32_t domain, uint32_t number);
// The lengths of records that CUPTI 13.0 has.
void set_sizes();
// A name that stays where it is.
const char *kept(const char *name);
// Queues a record unless its kind is off, or it is one that gets lost.
void queue(Record record);
// Forgets all samples of program counters, and how they were set up.
void reset_pcs();
API int32_t cuptiGetDeviceId(void *context, uint32_t *device);
// Forgets which contexts were patched, and what was executed in them.
void reset_sass();
// A launch that has run; a range, where its context is profiled.
void count_launch(const void *context, const char *symbol);
// Hardware counters over time: whether an image holds samples of them, and a sample's value.
constexpr uint64_t kPmMark = 0x736d70656c706d61;
bool pm_image(const void *image);
double pm_value(const void *image, size_t index, const std::string &metric);
// Hands over all that is queued, on a thread of its own as CUPTI's worker, and waits for that.
void deliver_all();
// The same of threads that soak.
void deliver_soak();

template <typename T> void put(uint8_t *at, size_t place, T value) {
  memcpy(at + place, &value, sizeof(T));
}
template <typename T> T get(const void *at, size_t place) {
  T value;
  memcpy(&value, static_cast<const uint8_t *>(at) + place, sizeof(T));
  return value;
}

struct FakeKernel {
  uint64_t start, end, node;
  uint32_t correlation, device, stream, registers;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t static_shared, dynamic_shared, local;
};
API uint32_t fake_call(uint32_t number);
API void fake_kernel(const char *name, const FakeKernel *k);
API void fake_memory(uint32_t correlation, uint32_t operation, uint32_t memory, uint64_t address,
                     uint64_t bytes, uint32_t device, uint64_t time);
