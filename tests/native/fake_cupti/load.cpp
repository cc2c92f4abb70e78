// Very many launches, and what they cost.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "fake.h"

namespace {

// What this thread has computed: other programs on the machine do not count.
uint64_t cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

} // namespace

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

// Calls of the driver that take `ns` each, and as long between two.
API void fake_long_calls(uint64_t count, uint32_t number, uint64_t ns) {
  const auto wait = [ns] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t correlation = fake_enter(number);
    wait();
    fake_exit(number, correlation, 0);
    wait();
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

// Threads that launch `count` kernels each into a buffer of their own, as CUPTI has them; one worker
// hands full buffers over.
API void fake_own_buffers(uint32_t threads, uint64_t count) {
  struct Full {
    uint8_t *buffer;
    size_t size, valid;
  };
  Fake &f = fake();
  const char *name = kept("kernel");
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Full> full;
  full.reserve(4096);
  uint32_t running = threads;
  auto launch = [&](uint32_t stream) {
    Full own = {};
    size_t most = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (!own.buffer) f.requested(&own.buffer, &own.size, &most);
      if (!own.buffer) continue;
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      const uint64_t ns = uint64_t(std::chrono::nanoseconds(now).count());
      uint8_t *at = own.buffer + own.valid;
      memset(at, 0, f.sizes[10]);
      put<uint32_t>(at, 0, 10);
      put<uint64_t>(at, 16, ns);
      put<uint64_t>(at, 24, ns + 100);
      put<uint32_t>(at, 48, stream);
      put<uint32_t>(at, 92, fake_call(307));
      put(at, 104, name);
      own.valid += f.sizes[10];
      if (own.valid + f.sizes[10] <= own.size && i + 1 < count) continue;
      std::lock_guard lock(mutex);
      full.push_back(std::exchange(own, {}));
      changed.notify_one();
    }
    std::lock_guard lock(mutex);
    --running;
    changed.notify_one();
  };
  std::vector<std::thread> all;
  for (uint32_t t = 0; t < threads; ++t) all.emplace_back(launch, t);
  all.emplace_back([&] {
    std::unique_lock lock(mutex);
    while (running || !full.empty()) {
      changed.wait(lock, [&] { return !running || !full.empty(); });
      if (full.empty()) continue;
      const Full one = full.front();
      full.erase(full.begin());
      lock.unlock();
      f.completed(nullptr, 0, one.buffer, one.size, one.valid);
      lock.lock();
    }
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
