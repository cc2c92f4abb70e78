// The time of all that is recorded: CLOCK_MONOTONIC in ns, as time.perf_counter_ns.
//
// In: CLOCK_MONOTONIC, and the processor's time-stamp counter where the kernel itself tells the time
// by it. Out: `now_ns` on any thread, without a lock. The counter is turned into ns by a line that
// is drawn again every 50 ms by one of its readers, so that it keeps to CLOCK_MONOTONIC within
// a microsecond. Each line begins where the one before it ends, at a value of the counter that no
// thread has come to. So the time depends on the counter alone and never goes back, however long
// the thread that draws a line is interrupted.
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

// Time is `ns + ((counter - start) * slope >> kShift)`; `rate` is the slope in the upper half, and in
// the lower the ticks for which that needs no second look. A line of slope 0 stands for
// CLOCK_MONOTONIC itself, or `ns` as long as that is later.
struct Place {
  std::atomic<uint64_t> start{0}, ns{0}, rate{0};
};

// The newest line is at the place of its number's parity. The other has the line before it, until the
// next one is written there: who has read from a place that was written meanwhile finds the number
// changed. Below the number is how often the line was extended.
constexpr int kNumberShift = 40;
struct alignas(64) Published {
  std::atomic<uint64_t> state{0};
  Place places[2];
};
inline constinit Published published;

// The clock where the line is near its end, has not begun, or there is none.
uint64_t read_slowly();

} // namespace clock_line

// Inline in whatever asks: a call would take a quarter as long again.
__attribute__((always_inline)) inline uint64_t now_ns() {
#if defined(__x86_64__)
  using clock_line::published;
  const uint64_t state = published.state.load(std::memory_order_acquire);
  const clock_line::Place &place = published.places[state >> clock_line::kNumberShift & 1];
  const uint64_t start = place.start.load(std::memory_order_acquire);
  const uint64_t ns = place.ns.load(std::memory_order_acquire);
  const uint64_t rate = place.rate.load(std::memory_order_acquire);
  const uint64_t since = __rdtsc() - start;
  if (since < uint32_t(rate) && published.state.load(std::memory_order_relaxed) == state)
      [[likely]]
    return ns + (since * (rate >> 32) >> clock_line::kShift);
#endif
  return clock_line::read_slowly();
}

} // namespace tileprof
