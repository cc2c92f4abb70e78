// The recorder of GPUs without Python, under a sanitizer: threads launch, records are read, totals
// are handed over, recording is interrupted, graphs are captured, program counters are sampled,
// contexts come and go, threads end and others begin, all at once.
//
// Usage: all_races races PATH_OF_FAKE_CUPTI SECONDS LAUNCHES. Goes on until both are over. Prints the launches and the kernels that were counted,
// what was lost, and the samples that were taken and counted.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <thread>
#include <vector>

#include "bare_host.h"

using namespace tileprof;

int launch_races(char **arguments) {
  void *fake = dlopen(arguments[0], RTLD_NOW);
  auto many = reinterpret_cast<void (*)(uint64_t, uint32_t, const char *, uint64_t, uint64_t,
                                        uint64_t, uint64_t)>(dlsym(fake, "fake_many"));
  auto node = reinterpret_cast<void (*)(uint32_t, uint64_t, uint64_t)>(dlsym(fake, "fake_node"));
  reinterpret_cast<void (*)()>(dlsym(fake, "fake_reset"))();
  auto current = reinterpret_cast<void (*)(uint64_t)>(dlsym(fake, "fake_current"));
  auto sample = reinterpret_cast<void (*)(uint64_t, uint64_t, uint32_t, const char *, uint64_t,
                                          uint32_t, uint32_t, uint32_t, uint32_t)>(
      dlsym(fake, "fake_sample"));
  auto load = reinterpret_cast<uint64_t (*)(const char *, size_t)>(dlsym(fake, "fake_load"));
  auto context_ends = reinterpret_cast<void (*)(uint64_t)>(dlsym(fake, "fake_context_ends"));
  PcOptions sampling;
  sampling.log2_period = 12;
  sampling.drain_ms = 1;
  sampling.records = 64;
  gpu().pcs.configure(sampling);
  GpuOptions options{~uint64_t(0) >> 1 & (1u << 10 | 1u << 1), 1000, 64 << 10};
  if (gpu().start(arguments[0], options).code) return 1;

  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      current(1 + t % 4);
      for (uint64_t i = 0; !ended; ++i) {
        const uint64_t module = load("cubin number 0123456789", 13 + i % 10);
        for (uint64_t s = 0; s < 20; ++s)
          sample(1 + t % 4, module, 7, "sampled", 16 * s, 1, 1, 3, 0);
        if (t < 4 && i % 100 == 99) context_ends(1 + t);
        many(100, 307, t % 2 ? "odd" : "even", 1000, 10, 20, 50);
        node(13, 1000 * t + i % 1000, 0);
        node(20, 1000 * t + i % 1000 + 500'000, 1000 * t + i % 1000);
      }
    });
  // Threads that end while their records are read.
  threads.emplace_back([&] {
    while (!ended)
      std::thread([&] {
        current(1);
        many(20, 307, "brief", 1000, 10, 20, 0);
      }).join();
  });
  uint64_t kernels = 0;
  auto count = [&kernels](const Drained &drained) {
    for (const Total &total : drained.totals)
      if (total.key.what == What::kernel) kernels += total.count;
  };
  const Enough enough(arguments[1], arguments[2]);
  uint64_t counted = 0;
  while (!enough.is(std::min(gpu().subscriber.launches(), 10 * counted))) {
    count(gpu().activities.drain(false));
    gpu().activities.variants(0);
    gpu().activities.counts();
    gpu().flush(false, 10);
    gpu().pcs.with_counts([&](const PcCounts &counts) {
      (void)counts.rows().size();
      counted = counts.totals.counted;
    });
    gpu().pcs.status();
    gpu().pcs.pause();
    gpu().pcs.begin();
    gpu().health();
    ++the_epoch;
  }
  ended = true;
  for (auto &thread : threads) thread.join();
  const GpuStatus stopped = gpu().stop(10);
  count(gpu().activities.drain(true));
  const ActivityCounts counts = gpu().activities.counts();
  PcTotals sampled;
  gpu().pcs.with_counts([&](const PcCounts &counts) { sampled = counts.totals; });
  printf("%llu %llu %llu %d %llu %llu\n", (unsigned long long)gpu().subscriber.launches(),
         (unsigned long long)kernels,
         (unsigned long long)(counts.unattributed + counts.outside + counts.dropped), stopped.code,
         (unsigned long long)sampled.total, (unsigned long long)sampled.counted);
  return 0;
}
