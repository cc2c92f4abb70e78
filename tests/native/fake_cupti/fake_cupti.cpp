// A stand-in for libcupti: the functions that the recorder loads, driven by functions of its own.
//
// A test makes driver calls (`fake_call`, `fake_many`, `fake_threads`), which call the subscriber
// back on the calling thread as CUPTI does, and queues records for them, which `fake_deliver` or a
// flush writes into buffers that the recorder gives, shuffled, on a thread of its own. Options
// make it misbehave: records dropped, buffers refused, another subscriber, longer records. What was
// delivered is counted here too, as the witness that the recorder's totals are compared with.
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using Callback = void (*)(void *, uint32_t, uint32_t, const void *);
using Requested = void (*)(uint8_t **, size_t *, size_t *);
using Completed = void (*)(void *, uint32_t, uint8_t *, size_t, size_t);

constexpr uint32_t kDriver = 1, kResource = 3, kKinds = 64, kCalls = 1024;
constexpr int32_t kMaxLimit = 12, kInvalidKind = 21, kInvalidParameter = 1, kOther = 39;

const std::map<uint32_t, const char *> kNames = {
    {1, "cuInit"},
    {17, "cuCtxSynchronize"},
    {126, "cuStreamSynchronize"},
    {211, "cuEventQuery"},
    {216, "cuMemsetD8Async"},
    {243, "cuMemAlloc_v2"},
    {245, "cuMemFree_v2"},
    {276, "cuMemcpyHtoD_v2"},
    {277, "cuMemcpyHtoDAsync_v2"},
    {278, "cuMemcpyDtoH_v2"},
    {279, "cuMemcpyDtoHAsync_v2"},
    {307, "cuLaunchKernel"},
    {319, "cuMemcpyPeerAsync"},
    {442, "cuLaunchKernel_ptsz"},
    {477, "cuLaunchCooperativeKernel"},
    {514, "cuGraphLaunch"},
    {527, "cuLaunchHostFunc"},
    {652, "cuLaunchKernelEx"},
};

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
  std::vector<Record> queue;
  std::set<std::string> names;
  std::map<uint32_t, Witness> witness;
  std::mt19937 random{7};
  uint64_t dropped = 0;
  uint32_t sizes[kKinds] = {};
  std::map<std::string, std::atomic<uint64_t>> options;
};

Fake &fake() {
  static Fake *one = new Fake;
  return *one;
}

uint64_t option(const char *name) {
  // All exist from fake_reset on, so that reading needs no lock.
  auto found = fake().options.find(name);
  return found == fake().options.end() ? 0 : found->second.load();
}

template <typename T> void put(uint8_t *at, size_t place, T value) {
  memcpy(at + place, &value, sizeof(T));
}
template <typename T> T get(const void *at, size_t place) {
  T value;
  memcpy(&value, static_cast<const uint8_t *>(at) + place, sizeof(T));
  return value;
}

void set_sizes() {
  uint32_t *sizes = fake().sizes;
  const std::map<uint32_t, uint32_t> all = {{1, 96}, {2, 88},  {3, 216}, {4, 40},  {5, 40},
                                            {10, 216}, {17, 56}, {22, 96}, {38, 56}, {49, 128}};
  for (auto [kind, size] : all) sizes[kind] = size;
}

bool on(uint32_t domain, uint32_t number) {
  return fake().callback && number < kCalls && fake().listened[domain][number].load();
}

// Queues a record unless its kind is off, or it is one that gets lost.
void queue(Record record) {
  Fake &f = fake();
  const uint32_t kind = get<uint32_t>(record.bytes, 0);
  if (!(f.kinds.load() >> kind & 1)) return;
  record.size = f.sizes[kind];
  std::lock_guard lock(f.mutex);
  auto drop = f.options.find("drop");
  if (drop != f.options.end() && drop->second.load() && kind == 10) {
    drop->second -= 1;
    ++f.dropped;
    return;
  }
  f.queue.push_back(record);
}

// Shuffled within windows, as records of several threads and streams come.
void shuffle(std::vector<Record> &records) {
  const size_t window = option("shuffle");
  if (window < 2) return;
  for (size_t first = 0; first < records.size(); first += window)
    std::shuffle(records.begin() + long(first),
                 records.begin() + long(std::min(first + window, records.size())), fake().random);
}

void hand_over(uint8_t *buffer, size_t size, size_t valid) {
  if (option("stolen")) return;  // another client's callback gets it
  fake().completed(nullptr, 0, buffer, size, valid);
}

void deliver(std::vector<Record> records) {
  Fake &f = fake();
  size_t next = 0;
  while (next < records.size()) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 0;
    if (!option("stolen") && f.requested) f.requested(&buffer, &size, &most);
    if (!buffer) {
      std::lock_guard lock(f.mutex);
      if (!option("stolen")) f.dropped += records.size() - next;
      return;
    }
    size_t valid = 0;
    std::map<uint32_t, Witness> seen;
    for (; next < records.size() && valid + records[next].size <= size; ++next) {
      memcpy(buffer + valid, records[next].bytes, records[next].size);
      valid += records[next].size;
      Witness &witness = seen[get<uint32_t>(records[next].bytes, 0)];
      ++witness.records;
      witness.ns += records[next].ns;
    }
    {
      std::lock_guard lock(f.mutex);
      for (auto &[kind, witness] : seen) {
        f.witness[kind].records += witness.records;
        f.witness[kind].ns += witness.ns;
      }
    }
    hand_over(buffer, size, valid);
  }
}

void deliver_all() {
  std::vector<Record> records;
  {
    std::lock_guard lock(fake().mutex);
    records.swap(fake().queue);
    shuffle(records);
  }
  // On a thread of its own, as CUPTI's worker.
  std::thread(deliver, std::move(records)).join();
}

const char *kept(const char *name) {
  std::lock_guard lock(fake().mutex);
  return fake().names.insert(name).first->c_str();
}

struct CallbackData {
  uint8_t bytes[72] = {};
};

// What this thread has computed: other programs on the machine do not count.
uint64_t cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

} // namespace

extern "C" {

// -- what the recorder loads

#define API __attribute__((visibility("default")))

API int32_t cuptiGetVersion(uint32_t *version) {
  *version = 130001;
  return 0;
}
API int32_t cuptiGetResultString(int32_t result, const char **text) {
  *text = result == kOther ? "FAKE_MULTIPLE_SUBSCRIBERS" : "FAKE_ERROR";
  return 0;
}
API int32_t cuptiSubscribe(void **handle, Callback callback, void *user) {
  if (const uint64_t result = option("subscribe_result")) return int32_t(result);
  if (fake().callback) return kOther;
  fake().user = user;
  fake().callback = callback;
  *handle = &fake();
  return 0;
}
API int32_t cuptiSubscribe_v2(void **, Callback, void *, void *parameters) {
  const size_t size = get<size_t>(parameters, 24);
  char *name = get<char *>(parameters, 16);
  strncpy(name, "CUPTI for Somebody", size);
  return kOther;
}
API int32_t cuptiUnsubscribe(void *) {
  fake().callback = nullptr;
  for (auto &domain : fake().listened)
    for (auto &one : domain) one = 0;
  return 0;
}
API int32_t cuptiEnableCallback(uint32_t enable, void *, uint32_t domain, uint32_t number) {
  if (domain >= 4 || number >= kCalls) return kInvalidParameter;
  fake().listened[domain][number] = uint8_t(enable);
  return 0;
}
API int32_t cuptiGetCallbackState(uint32_t *enabled, void *, uint32_t domain, uint32_t number) {
  if (!fake().callback || option("lost")) return kInvalidParameter;
  *enabled = on(domain, number);
  return 0;
}
API int32_t cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  auto found = kNames.find(number);
  if (domain != kDriver || found == kNames.end()) return kInvalidParameter;
  *name = found->second;
  return 0;
}
API int32_t cuptiGetGraphNodeId(void *node, uint64_t *number) {
  *number = uint64_t(node);
  return node ? 0 : kInvalidParameter;
}
API int32_t cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  fake().requested = requested;
  fake().completed = completed;
  return 0;
}
API int32_t cuptiActivityEnable(uint32_t kind) {
  if (option("refused_kind") == kind) return 27;
  fake().kinds |= uint64_t(1) << kind;
  return 0;
}
API int32_t cuptiActivityDisable(uint32_t kind) {
  fake().kinds &= ~(uint64_t(1) << kind);
  return 0;
}
API int32_t cuptiActivityFlushAll(uint32_t flag) {
  if (const uint64_t ms = option("flush_ms"))
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  if (option("unfinished")) {
    // Buffers with records of work that is under way stay, or are handed over without its times.
    if (!flag) {
      fake().options["unfinished"] -= 1;
      return 0;
    }
    std::lock_guard lock(fake().mutex);
    for (Record &record : fake().queue) memset(record.bytes + 16, 0, 16);
  }
  deliver_all();
  return 0;
}
API int32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
  uint8_t *next = buffer;
  if (*record) {
    uint8_t *at = static_cast<uint8_t *>(*record);
    next = at + fake().sizes[get<uint32_t>(at, 0) % kKinds];
  }
  if (next + 8 > buffer + valid) return kMaxLimit;
  const uint32_t kind = get<uint32_t>(next, 0);
  if (kind >= kKinds || !fake().sizes[kind]) return kInvalidKind;
  *record = next;
  return 0;
}
API int32_t cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *dropped) {
  std::lock_guard lock(fake().mutex);
  *dropped = fake().dropped;
  fake().dropped = 0;
  return 0;
}
API int32_t cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  fake().clock = clock;
  return 0;
}

// -- what tests use

API void fake_reset() {
  Fake &f = fake();
  std::lock_guard lock(f.mutex);
  f.callback = nullptr;
  for (auto &domain : f.listened)
    for (auto &one : domain) one = 0;
  f.kinds = 0;
  f.queue.clear();
  f.witness.clear();
  f.dropped = 0;
  for (const char *name : {"subscribe_result", "drop", "shuffle", "stolen", "lost", "refused_kind",
                           "flush_ms", "unfinished"})
    f.options[name] = 0;
  set_sizes();
}
API void fake_option(const char *name, uint64_t value) { fake().options[name] = value; }
// Makes records of a kind as long as another version of CUPTI has them.
API void fake_size(uint32_t kind, uint32_t bytes) { fake().sizes[kind] = bytes; }
API uint64_t fake_clock() { return fake().clock ? fake().clock() : 0; }
API uint64_t fake_kinds() { return fake().kinds.load(); }
API uint32_t fake_listened(uint32_t domain, uint32_t number) { return on(domain, number); }

API uint32_t fake_enter(uint32_t number) {
  const uint32_t correlation = ++fake().correlation;
  CallbackData data;
  put<uint32_t>(data.bytes, 64, correlation);
  if (on(kDriver, number)) fake().callback(fake().user, kDriver, number, &data);
  return correlation;
}
API void fake_exit(uint32_t number, uint32_t correlation, int32_t returned) {
  CallbackData data;
  put<uint32_t>(data.bytes, 0, 1);
  put<const int32_t *>(data.bytes, 24, &returned);
  put<uint32_t>(data.bytes, 64, correlation);
  if (on(kDriver, number)) fake().callback(fake().user, kDriver, number, &data);
}
// A driver call; its correlation number.
API uint32_t fake_call(uint32_t number) {
  const uint32_t correlation = fake_enter(number);
  fake_exit(number, correlation, 0);
  return correlation;
}
// A callback about a graph's node: 13 created, 20 cloned.
API void fake_node(uint32_t number, uint64_t node, uint64_t original) {
  uint8_t graph[56] = {}, data[24] = {};
  put<uint64_t>(graph, 16, node);
  put<uint64_t>(graph, 24, original);
  put<const void *>(data, 16, graph);
  if (on(kResource, number)) fake().callback(fake().user, kResource, number, data);
}

struct FakeKernel {
  uint64_t start, end, node;
  uint32_t correlation, device, stream, registers;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t static_shared, dynamic_shared, local;
};
API void fake_kernel(const char *name, const FakeKernel *k) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 10);
  put<uint16_t>(r.bytes, 6, uint16_t(k->registers));
  put(r.bytes, 16, k->start);
  put(r.bytes, 24, k->end);
  put(r.bytes, 40, k->device);
  put(r.bytes, 48, k->stream);
  memcpy(r.bytes + 52, k->grid, 12);
  memcpy(r.bytes + 64, k->block, 12);
  put(r.bytes, 76, k->static_shared);
  put(r.bytes, 80, k->dynamic_shared);
  put(r.bytes, 84, k->local);
  put(r.bytes, 92, k->correlation);
  put(r.bytes, 104, name ? kept(name) : nullptr);
  put(r.bytes, 144, k->node);
  memcpy(r.bytes + 176, k->cluster, 12);
  r.ns = k->end - k->start;
  queue(r);
}
// A copy, between devices if `peer` is not 0 (the other device + 1).
API void fake_memcpy(uint32_t correlation, uint32_t kind, uint32_t source, uint32_t target,
                     uint32_t flags, uint64_t bytes, uint64_t start, uint64_t end, uint32_t device,
                     uint32_t peer, uint64_t node) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, peer ? 22 : 1);
  put(r.bytes, 4, uint8_t(kind));
  put(r.bytes, 5, uint8_t(source));
  put(r.bytes, 6, uint8_t(target));
  put(r.bytes, 7, uint8_t(flags));
  put(r.bytes, 8, bytes);
  put(r.bytes, 16, start);
  put(r.bytes, 24, end);
  put(r.bytes, 32, device);
  put<uint32_t>(r.bytes, 40, 7);
  put(r.bytes, peer ? 60 : 44, correlation);
  if (peer) put(r.bytes, 44, device), put(r.bytes, 52, peer - 1);
  put(r.bytes, peer ? 72 : 64, node);
  r.ns = end - start;
  queue(r);
}
API void fake_memset(uint32_t correlation, uint64_t bytes, uint64_t start, uint64_t end,
                     uint32_t device, uint32_t memory, uint32_t flags) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 2);
  put(r.bytes, 8, bytes);
  put(r.bytes, 16, start);
  put(r.bytes, 24, end);
  put(r.bytes, 32, device);
  put(r.bytes, 44, correlation);
  put(r.bytes, 48, uint16_t(flags));
  put(r.bytes, 50, uint16_t(memory));
  r.ns = end - start;
  queue(r);
}
API void fake_sync(uint32_t correlation, uint32_t type, uint64_t start, uint64_t end) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 38);
  put(r.bytes, 4, type);
  put(r.bytes, 8, start);
  put(r.bytes, 16, end);
  put(r.bytes, 24, correlation);
  r.ns = end - start;
  queue(r);
}
// An overhead; with data on the heap that its reader has to free, if asked.
API void fake_overhead(uint32_t correlation, uint32_t kind, uint64_t start, uint64_t end,
                       uint32_t with_data) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 17);
  put(r.bytes, 4, kind);
  put(r.bytes, 24, start);
  put(r.bytes, 32, end);
  put(r.bytes, 40, correlation);
  if (with_data) put(r.bytes, 48, malloc(64));
  r.ns = end - start;
  queue(r);
}
API void fake_memory(uint32_t correlation, uint32_t operation, uint32_t memory, uint64_t address,
                     uint64_t bytes, uint32_t device) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 49);
  put(r.bytes, 4, operation);
  put(r.bytes, 8, memory);
  put(r.bytes, 12, correlation);
  put(r.bytes, 16, address);
  put(r.bytes, 24, bytes);
  put(r.bytes, 52, device);
  queue(r);
}
// A record of a kind that the recorder does not know.
API void fake_foreign(uint32_t kind) {
  Record r = {};
  put(r.bytes, 0, kind);
  fake().kinds |= uint64_t(1) << kind;
  queue(r);
}

API void fake_deliver() { deliver_all(); }
API uint64_t fake_delivered(uint32_t kind) { return fake().witness[kind].records; }
API uint64_t fake_delivered_ns(uint32_t kind) { return fake().witness[kind].ns; }
API uint64_t fake_undelivered() { return fake().queue.size(); }

// Launches on this thread, one after the other from `start` on, each of `ns` and `step` after the
// one before; delivered every `batch`.
API void fake_many(uint64_t count, uint32_t number, const char *name, uint64_t start, uint64_t ns,
                   uint64_t step, uint64_t batch) {
  FakeKernel k = {};
  k.grid[0] = 2, k.grid[1] = k.grid[2] = 1;
  k.block[0] = 128, k.block[1] = k.block[2] = 1;
  const char *own = kept(name);
  for (uint64_t i = 0; i < count; ++i) {
    k.correlation = fake_call(number);
    k.start = start + i * step;
    k.end = k.start + ns;
    fake_kernel(own, &k);
    if (batch && i % batch == batch - 1) deliver_all();
  }
}

// Threads that launch at once, each kernel of thread t taking t + 1 ns more; delivered meanwhile.
API void fake_threads(uint32_t threads, uint64_t count, uint64_t batch) {
  std::vector<std::thread> all;
  for (uint32_t t = 0; t < threads; ++t)
    all.emplace_back([=] {
      const std::string name = "kernel_" + std::to_string(t);
      fake_many(count, 307, name.c_str(), 1'000'000 + t, 100 + t + 1, 1000, batch);
    });
  for (auto &thread : all) thread.join();
}

// Nanoseconds that the callbacks of `count` launches take.
API uint64_t fake_time_calls(uint64_t count, uint32_t number) {
  const uint64_t began = cpu_ns();
  for (uint64_t i = 0; i < count; ++i) fake_call(number);
  return cpu_ns() - began;
}

// Nanoseconds that reading `count` records of kernels takes, of `names` kernels in turn on
// `streams` streams; the launches are made first, and are not in the time.
API uint64_t fake_time_reading(uint64_t count, uint32_t names, uint32_t streams) {
  Fake &f = fake();
  std::vector<const char *> own;
  for (uint32_t i = 0; i < names; ++i)
    own.push_back(kept(("kernel_with_a_rather_long_name_" + std::to_string(i)).c_str()));
  uint64_t took = 0;
  const uint64_t chunk = 100'000;
  for (uint64_t first = 0; first < count; first += chunk) {
    std::vector<std::pair<uint8_t *, size_t>> buffers;
    size_t size = 0, valid = 0, most = 0;
    uint8_t *buffer = nullptr;
    for (uint64_t i = first; i < std::min(first + chunk, count); ++i) {
      if (!buffer || valid + f.sizes[10] > size) {
        if (buffer) buffers.push_back({buffer, valid});
        f.requested(&buffer, &size, &most);
        memset(buffer, 0, size);
        valid = 0;
      }
      uint8_t *at = buffer + valid;
      put<uint32_t>(at, 0, 10);
      put<uint64_t>(at, 16, 1'000'000 + i * 2000 - (i % streams) * 2100);
      put<uint64_t>(at, 24, 1'000'000 + i * 2000 - (i % streams) * 2100 + 1500 + i % 97);
      put<uint32_t>(at, 48, uint32_t(i % streams));
      put<uint32_t>(at, 52, 8);
      put<uint32_t>(at, 56, 1);
      put<uint32_t>(at, 60, 1);
      put<uint32_t>(at, 92, fake_call(307));
      put(at, 104, own[i % names]);
      valid += f.sizes[10];
    }
    buffers.push_back({buffer, valid});
    const uint64_t began = cpu_ns();
    for (auto [full, bytes] : buffers) f.completed(nullptr, 0, full, size, bytes);
    took += cpu_ns() - began;
  }
  return took;
}

} // extern "C"
