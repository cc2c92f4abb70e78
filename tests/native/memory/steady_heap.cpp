// What reading records takes from the heap once all has been met: threads of CUPTI's read, and their
// heaps are the program's too.
//
// Usage: steady_heap BATCHES. Reads so many batches of records of kernels, copies and fills whose
// times are drawn, and hands totals over after every tenth, first to warm up and then counted.
// Prints the records and idle times that were counted, how often memory was taken from the heap
// while records were read and while totals were handed over, how often they were, and the bytes
// that stay taken.
#include <malloc.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "bare_host.h"
#include "records/activities.h"

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);
}

namespace {

bool counting = false;
uint64_t taken = 0;
int64_t held = 0;

void *note(void *made) {
  if (counting) ++taken, held += int64_t(malloc_usable_size(made));
  return made;
}
void forget(void *freed) {
  if (counting && freed) held -= int64_t(malloc_usable_size(freed));
}

} // namespace

extern "C" {
void *malloc(size_t size) { return note(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return note(__libc_calloc(count, size)); }
void *realloc(void *former, size_t size) {
  forget(former);
  return note(__libc_realloc(former, size));
}
void free(void *freed) {
  forget(freed);
  __libc_free(freed);
}
}

using namespace tileprof;

namespace {

constexpr uint32_t kBatch = 5000, kContexts = 60, kBytes[] = {216, 96, 88};
constexpr uint32_t kKinds[] = {cupti::kKernel, cupti::kMemcpy, cupti::kMemset};

CuptiResult no_more(uint8_t *, size_t, void **) { return cupti::kNoMore; }

struct Device {
  std::mt19937_64 drawn{1};
  uint64_t now = 1'000'000'000;
  uint32_t correlation = 0;

  uint64_t about(double ns) {
    return uint64_t(ns * std::exp(std::normal_distribution<double>(0, 0.4)(drawn)));
  }
  // Fills a buffer; returns how much of it is valid. Some of the work is launched late.
  size_t fill(std::vector<uint8_t> &buffer, Correlations &correlations) {
    size_t at = 0;
    std::fill(buffer.begin(), buffer.end(), uint8_t(0));
    for (uint32_t i = 0; i < kBatch; ++i) {
      const uint32_t which = drawn() % 8 < 6 ? 0 : 1 + drawn() % 2;
      const bool late = drawn() % 5 == 0;
      const uint64_t entered = late ? now + about(700) : now - 900;
      const uint64_t start = std::max(now, entered) + (late ? 300 : about(40));
      now = start + about(which == 1 ? 2500 : 1200);
      Launch launch;
      launch.context = ContextId(1 + drawn() % kContexts);
      launch.epoch = 1;
      launch.entered_ns = entered;
      launch.kind = CallKind::launch;
      correlations.put(++correlation, launch);
      uint8_t *record = buffer.data() + at;
      const auto put = [record](size_t place, auto value) {
        std::memcpy(record + place, &value, sizeof(value));
      };
      put(0, kKinds[which]);
      put(16, start);
      put(24, now);
      const uint32_t stream = 7 + uint32_t(drawn() % 3);
      put(which == 0 ? 48 : 40, stream);
      put(which == 0 ? 92 : 44, correlation);
      if (which == 0) put(104, "kernel");
      at += kBytes[which];
    }
    return at;
  }
};

} // namespace

int main(int, char **arguments) {
  const int batches = std::atoi(arguments[1]);
  Correlations correlations;
  Graphs graphs;
  Activities activities(correlations, graphs);
  Cupti cupti;
  cupti.next_record = no_more;
  for (uint32_t i = 0; i < 3; ++i) cupti.record_sizes[kKinds[i]] = kBytes[i];
  uint64_t wanted = 0;
  for (uint32_t kind : kKinds) wanted |= uint64_t(1) << kind;
  activities.begin(cupti, wanted, 0);
  Device device;
  std::vector<uint8_t> buffer(size_t(kBatch) * 216);
  uint64_t records = 0, idle = 0, reading = 0, handing = 0, drains = 0;
  for (int batch = 0; batch < 2 * batches; ++batch) {
    const bool warm = batch >= batches;
    const size_t valid = device.fill(buffer, correlations);
    counting = warm;
    const uint64_t before = taken;
    activities.parse(buffer.data(), valid);
    reading += taken - before;
    if (batch % 10 == 9) {
      const uint64_t so_far = taken;
      Drained drained = activities.drain(false);
      handing += taken - so_far;
      drains += warm;
      for (const Total &total : drained.totals)
        (total.key.what == What::idle ? idle : records) += warm ? total.count : 0;
      activities.give_back(std::move(drained.totals));
    }
    counting = false;
  }
  std::printf("%llu %llu %llu %llu %llu %lld\n", (unsigned long long)records,
              (unsigned long long)idle, (unsigned long long)reading, (unsigned long long)handing,
              (unsigned long long)drains, (long long)held);
  return 0;
}
