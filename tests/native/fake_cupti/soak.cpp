// A device that works for as long as threads launch, with records as CUPTI delivers them.
//
// Each thread has a buffer of its own; one worker hands over full ones, and a flush all that hold
// something. Work of a stream runs in order, after its launch, at the times of the host's clock.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <thread>
#include <utility>

#include "fake.h"

namespace {

constexpr uint32_t kKernelKind = 10, kCopyKind = 1;

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return uint64_t(std::chrono::nanoseconds(now).count());
}

struct Full {
  uint8_t *buffer = nullptr;
  size_t size = 0, valid = 0;
};

// Lives as long as the process: a flush may look at it at any time.
struct Own {
  std::mutex mutex;
  Full held;
  std::map<uint32_t, uint64_t> busy_until;  // by stream
  std::mt19937_64 drawn{1};
};

struct Soak {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Own *> threads;
  std::vector<Full> full;
  size_t handing = 0;
};

void hand_over_full(Soak &soak) {
  std::unique_lock lock(soak.mutex);
  while (true) {
    soak.changed.wait(lock, [&] { return !soak.full.empty(); });
    const Full one = soak.full.front();
    soak.full.erase(soak.full.begin());
    ++soak.handing;
    lock.unlock();
    fake().completed(nullptr, 0, one.buffer, one.size, one.valid);
    lock.lock();
    --soak.handing;
    soak.changed.notify_all();
  }
}

std::atomic<bool> soaks{false};

Soak &soak() {
  static Soak *one = [] {
    Soak *made = new Soak;
    made->full.reserve(1024);
    std::thread(hand_over_full, std::ref(*made)).detach();
    soaks = true;
    return made;
  }();
  return *one;
}

Own &own() {
  static thread_local Own *mine = [] {
    Own *made = new Own;
    std::lock_guard lock(soak().mutex);
    made->drawn.seed(soak().threads.size());
    soak().threads.push_back(made);
    return made;
  }();
  return *mine;
}

void pass_on(Full full) {
  std::lock_guard lock(soak().mutex);
  soak().full.push_back(full);
  soak().changed.notify_all();
}

// Room for a record of so many bytes; nullptr where the recorder gives none. The mutex is held.
uint8_t *room(Own &mine, uint32_t size) {
  Full &held = mine.held;
  if (held.buffer && held.valid + size > held.size) pass_on(std::exchange(held, {}));
  size_t most = 0;
  if (!held.buffer && fake().requested) fake().requested(&held.buffer, &held.size, &most);
  if (!held.buffer) {
    std::lock_guard lock(fake().mutex);
    ++fake().dropped;
    return nullptr;
  }
  uint8_t *at = held.buffer + held.valid;
  held.valid += size;
  memset(at, 0, size);
  return at;
}

void record(Own &mine, uint32_t kind, uint32_t stream, uint32_t correlation, const char *name,
            uint64_t node) {
  if (!(fake().kinds.load() >> kind & 1)) return;
  const bool copies = kind == kCopyKind;
  uint64_t &busy = mine.busy_until[stream];
  const uint64_t start = std::max(now_ns(), busy) + 300;
  const double took = std::normal_distribution<double>(0, 0.4)(mine.drawn);
  busy = start + uint64_t((copies ? 2500 : 1500) * std::exp(took));
  uint8_t *at = room(mine, fake().sizes[kind]);
  if (!at) return;
  put(at, 0, kind);
  put(at, 16, start);
  put(at, 24, busy);
  if (copies) {
    const bool to_device = correlation % 2;
    put(at, 4, uint8_t(to_device ? 1 : 2));
    put(at, 5, uint8_t(to_device ? 2 : 3));
    put(at, 6, uint8_t(to_device ? 3 : 2));
    put(at, 7, uint8_t(1));
    put<uint64_t>(at, 8, 16384);
  } else {
    put<uint16_t>(at, 6, 32);
    put<uint32_t>(at, 52, 16), put<uint32_t>(at, 56, 1), put<uint32_t>(at, 60, 1);
    put<uint32_t>(at, 64, 128), put<uint32_t>(at, 68, 1), put<uint32_t>(at, 72, 1);
    put(at, 104, name);
    put(at, 144, node);
  }
  put(at, copies ? 40 : 48, stream);
  put(at, copies ? 44 : 92, correlation);
}

} // namespace

// Hands over what threads' buffers hold, and waits until that is read.
void deliver_soak() {
  if (!soaks) return;
  std::unique_lock lock(soak().mutex);
  const std::vector<Own *> threads = soak().threads;
  lock.unlock();
  for (Own *each : threads) {
    std::lock_guard held(each->mutex);
    if (each->held.valid) pass_on(std::exchange(each->held, {}));
  }
  lock.lock();
  soak().changed.wait(lock, [] { return soak().full.empty() && !soak().handing; });
}

// `count` launches of a kernel, or copies in turn in both directions.
API void fake_soak(const char *name, uint32_t number, uint32_t stream, uint32_t count) {
  Own &mine = own();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t correlation = fake_call(number);
    std::lock_guard lock(mine.mutex);
    record(mine, number == 277 || number == 279 ? kCopyKind : kKernelKind, stream, correlation,
           name, 0);
  }
}
// One launch of a graph of so many kernels, whose nodes are numbered from `node` on.
API void fake_soak_graph(const char *name, uint64_t node, uint32_t stream, uint32_t count) {
  Own &mine = own();
  const uint32_t correlation = fake_call(514);
  std::lock_guard lock(mine.mutex);
  for (uint32_t i = 0; i < count; ++i)
    record(mine, kKernelKind, stream, correlation, name, node + i);
}

// Takes so many buffers of the recorder's, or gives as many back, with nothing in them.
static std::vector<Full> &taken() {
  static auto *all = new std::vector<Full>;
  return *all;
}
API void fake_take_buffers(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    Full one;
    size_t most = 0;
    fake().requested(&one.buffer, &one.size, &most);
    if (one.buffer) taken().push_back(one);
  }
}
API void fake_give_buffers(uint32_t count) {
  for (uint32_t i = 0; i < count && !taken().empty(); ++i) {
    const Full one = taken().back();
    taken().pop_back();
    fake().completed(nullptr, 0, one.buffer, one.size, 0);
  }
}
