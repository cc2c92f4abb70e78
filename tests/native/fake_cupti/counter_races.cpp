// Counters of launches without Python, under a sanitizer: threads launch in contexts that come and
// go, batches are taken, recording is interrupted and flushed, all at once.
//
// Usage: all_races counter_races PATH_OF_FAKE_CUPTI SECONDS LEAST. Prints launches, those of batches, those of
// batches with another number of ranges, ranges whose function is not their launch's in all others, what was
// lost, the code of a call that failed, calls in a wrong order.
//
// A launch that begins while callbacks are off may become a range when they are on again: such
// batches have a range too many.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <thread>
#include <vector>

#include "bare_host.h"

using namespace tileprof;

int counter_races(char **arguments) {
  void *fake = dlopen(arguments[0], RTLD_NOW);
  auto function = [fake](const char *name) { return dlsym(fake, name); };
  auto current = reinterpret_cast<void (*)(uint64_t)>(function("fake_current"));
  auto symbol = reinterpret_cast<void (*)(const char *)>(function("fake_symbol"));
  auto call = reinterpret_cast<uint32_t (*)(uint32_t)>(function("fake_call"));
  auto ends = reinterpret_cast<void (*)(uint64_t)>(function("fake_context_ends"));
  auto misuses = reinterpret_cast<uint64_t (*)()>(function("fake_counter_misuses"));
  reinterpret_cast<void (*)()>(function("fake_reset"))();
  gpu().counters.configure({"FAKE100", {"a.sum"}, "plan 1", 8, 1 << 20, 60});
  if (gpu().start(arguments[0], {0, 0, 64 << 10}).code) return 1;

  std::atomic<bool> ended{false};
  std::atomic<uint64_t> launched{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const std::string name = "function_" + std::to_string(t);
      symbol(name.c_str());
      for (uint64_t i = 0; !ended; ++i) {
        current(1 + (t + i / 50) % 3);
        call(307);
        ++launched;
        if (t == 0 && i % 1000 == 999) ends(1 + i % 3);
      }
    });
  uint64_t taken = 0, unfit = 0, wrong = 0;
  auto take = [&] {
    for (const CounterBatch &batch : gpu().counters.take()) {
      taken += batch.launches.size();
      uint64_t ranges = 0;
      memcpy(&ranges, batch.image.data() + 16, sizeof(ranges));
      if (ranges + batch.dropped != batch.launches.size()) {
        unfit += batch.launches.size();
        continue;
      }
      for (size_t i = 0; i < batch.launches.size(); ++i) {
        const char *ran = reinterpret_cast<const char *>(batch.image.data()) + 24 + 64 * i;
        wrong += host::names().at(batch.launches[i].function) != ran;
      }
    }
  };
  const Enough enough(arguments[1], arguments[2]);
  for (int i = 0; !enough.is(taken); ++i) {
    take();
    gpu().counters.status();
    gpu().flush(i % 3 == 0, 10);
    if (i % 5 == 0) {
      gpu().pause();
      gpu().resume();
    }
    ++the_epoch;
  }
  ended = true;
  for (std::thread &thread : threads) thread.join();
  gpu().stop(10);
  take();
  const CounterStatus status = gpu().counters.status();
  printf("%lu %lu %lu %lu %lu %d %lu\n", launched.load(), taken, unfit, wrong, status.lost,
         status.code, misuses());
  return 0;
}
