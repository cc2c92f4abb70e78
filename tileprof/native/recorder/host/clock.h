// The time of all that is recorded: CLOCK_MONOTONIC in ns, as time.perf_counter_ns.
//
// In: CLOCK_MONOTONIC, and the processor's time-stamp counter where the kernel itself tells the time
// by it. Out: `now_ns` on any thread, without a lock. The counter is turned into ns by a line that
// is drawn again every 50 ms by one of its readers, so that it keeps to CLOCK_MONOTONIC within
// a microsecond, and goes on where the line before it has come to: time never goes back.
//
// The counter is read as the processor comes to it, not in order with loads (which would take as
// long again): a time may be from before the end of a load that stands ahead of it, and so behind a
// time of another thread that was loaded. Times of one thread are in order.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tileprof {

void set_time(uint64_t ns);  // of tests: what now_ns returns from here on; 0: the real time

namespace clock_line {

constexpr int kShift = 31;

// Time is `ns + ((counter - start) * slope >> kShift)` for the first `ticks` of it; `rate` is the
// slope in the upper half and the ticks in the lower. Without ticks there is no line.
struct Place {
  std::atomic<uint64_t> start{0}, ns{0}, rate{0};
};

// The newest line is at the place of its number's parity. The other is where the next is written:
// who has read from a place that was written meanwhile finds the number changed.
struct alignas(64) Published {
  std::atomic<uint64_t> number{0};
  Place places[2];
};
inline constinit Published published;

// The clock where the line gives no time: it is being drawn or renewed, or there is none.
uint64_t read_slowly();

} // namespace clock_line

inline uint64_t now_ns() {
#if defined(__x86_64__)
  using clock_line::published;
  const uint64_t number = published.number.load(std::memory_order_acquire);
  const clock_line::Place &place = published.places[number & 1];
  const uint64_t start = place.start.load(std::memory_order_acquire);
  const uint64_t ns = place.ns.load(std::memory_order_acquire);
  const uint64_t rate = place.rate.load(std::memory_order_acquire);
  const uint64_t since = __rdtsc() - start;
  if (since < uint32_t(rate) && published.number.load(std::memory_order_relaxed) == number)
      [[likely]]
    return ns + (since * (rate >> 32) >> clock_line::kShift);
#endif
  return clock_line::read_slowly();
}

} // namespace tileprof
