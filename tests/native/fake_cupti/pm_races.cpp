// Counters over time without Python, under a sanitizer: threads launch kernels and graphs and have
// streams wait for events, a device makes samples, they are read and handed over, recording is
// interrupted, all at once.
//
// Usage: all_races pm_races PATH_OF_FAKE_CUPTI SECONDS LEAST. Prints how many samples the device made, how many
// were read, how many were missed, the code of the first failure, and calls in a wrong order.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "bare_host.h"

using namespace tileprof;

int pm_races(char **arguments) {
  void *fake = dlopen(arguments[0], RTLD_NOW);
  reinterpret_cast<void (*)()>(dlsym(fake, "fake_reset"))();
  auto current = reinterpret_cast<void (*)(uint64_t)>(dlsym(fake, "fake_current"));
  auto many = reinterpret_cast<void (*)(uint64_t, uint32_t, const char *, uint64_t, uint64_t,
                                        uint64_t, uint64_t)>(dlsym(fake, "fake_many"));
  auto call = reinterpret_cast<uint32_t (*)(uint32_t)>(dlsym(fake, "fake_call"));
  auto samples = reinterpret_cast<uint64_t (*)(size_t, uint64_t, uint64_t, uint64_t, double,
                                               double)>(dlsym(fake, "fake_pm_samples"));
  auto misuses = reinterpret_cast<uint64_t (*)()>(dlsym(fake, "fake_pm_misuses"));
  PmOptions asked;
  asked.chip = "FAKE100";
  asked.metrics = {"a.sum", "b.avg"};
  asked.counted = {true, false};
  asked.plan = "plan 1";
  asked.interval_ns = 1000;
  asked.rows = 1000;
  asked.read_ms = 1;
  gpu().configure_pms(asked);
  if (gpu().start(arguments[0], GpuOptions{}).code) return 1;

  std::atomic<bool> ended{false};
  std::atomic<uint64_t> made{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      current(1 + t % 2);
      while (!ended) {
        many(100, 307, "kernel", 1000, 10, 20, 50);
        call(514);
        call(295);
      }
    });
  threads.emplace_back([&] {
    for (uint64_t time = 1000; !ended; time += 20'000) {
      made += samples(0, time, 1000, 20, 1, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Enough enough(arguments[1], arguments[2]);
  while (!enough.is(made)) {
    gpu().pms.rows();
    gpu().pms.status();
    gpu().pause();
    gpu().resume();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++the_epoch;
  }
  ended = true;
  for (auto &thread : threads) thread.join();
  gpu().stop(10);
  const PmStatus status = gpu().pms.status();
  printf("%llu %llu %llu %d %llu\n", (unsigned long long)made.load(),
         (unsigned long long)status.totals.samples, (unsigned long long)status.totals.missed,
         int(status.code), (unsigned long long)misuses());
  return 0;
}
