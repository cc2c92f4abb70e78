#include "host/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include <algorithm>
#endif

namespace tileprof {
namespace {

constinit std::atomic<uint64_t> fixed_time{0};

uint64_t kernel_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

} // namespace

#if defined(__x86_64__)
namespace {

using clock_line::kShift, clock_line::Place, clock_line::published;

constexpr int64_t kMs = 1'000'000;      // ns
constexpr int64_t kSpan = 50 * kMs;     // after which a line is renewed
constexpr int64_t kOld = 200 * kMs;     // after which it gives no time
constexpr int64_t kApart = 10 * kMs;    // at least, the readings that a first line is drawn through
constexpr int64_t kLag = kMs;           // behind CLOCK_MONOTONIC by more, time jumps
constexpr int64_t kPromptly = kMs / 100;  // a line is drawn, or not at all
constexpr uint64_t kAhead = 2;          // ns

// -- whether the counter tells the time

bool kernel_uses_counter() {
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (!file) return false;
  char name[32] = {};
  const bool read = fgets(name, sizeof name, file);
  fclose(file);
  return read && !strcmp(name, "tsc\n");
}

// It counts at one rate, whatever the processor does. A virtual machine may not be told; what its
// kernel found out is enough then.
bool counts_evenly() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1) return true;
  return __get_cpuid(1, &a, &b, &c, &d) && c >> 31;
}

bool may_read_counter() {
  int allowed = PR_TSC_SIGSEGV;
  return !prctl(PR_GET_TSC, &allowed) && allowed == PR_TSC_ENABLE;
}

const bool trusted = kernel_uses_counter() && counts_evenly() && may_read_counter();

// -- lines

uint64_t counter() {
  _mm_lfence();
  return __rdtsc();
}

struct Line {
  uint64_t start = 0, ns = 0;
  uint32_t slope = 0, ticks = 0;

  int64_t age_ns(uint64_t at) const {
    return int64_t(static_cast<__int128>(int64_t(at - start)) * slope >> kShift);
  }
  bool tells(uint64_t at) const {
    const int64_t age = age_ns(at);
    return ticks && -kOld < age && age < kOld;
  }
};

// A line, and the counter while it was the newest.
struct Look {
  Line line;
  uint64_t counter;
};

Look look() {
  for (;;) {
    const uint64_t number = published.number.load(std::memory_order_acquire);
    const Place &place = published.places[number & 1];
    const uint64_t start = place.start.load(std::memory_order_acquire);
    const uint64_t ns = place.ns.load(std::memory_order_acquire);
    const uint64_t rate = place.rate.load(std::memory_order_acquire);
    const uint64_t at = counter();
    if (published.number.load(std::memory_order_relaxed) == number)
      return {{start, ns, uint32_t(rate >> 32), uint32_t(rate)}, at};
  }
}

// -- what only the thread does whose turn it is

// One moment on both clocks. The counter is read first: a line through it is ahead of
// CLOCK_MONOTONIC by some ns, and who comes from there does not go back.
struct Reading {
  uint64_t counter = 0, ns = 0;
};

std::atomic<bool> taken{false};
std::atomic<uint64_t> first_ns{0};  // when `last` was read, if no line was drawn since
Reading last;                       // what the line was drawn by
double ns_per_tick = 0;             // between the last two readings

struct Turn {
  const bool mine = !taken.exchange(true, std::memory_order_acquire);
  Turn() = default;
  Turn(const Turn &) = delete;
  ~Turn() {
    if (mine) taken.store(false, std::memory_order_release);
  }
};

// The closest of three: one may be interrupted.
Reading read_both() {
  Reading closest;
  for (uint64_t at = 0, width = UINT64_MAX; at < 3; ++at) {
    const uint64_t before = counter(), ns = kernel_ns(), took = counter() - before;
    if (took < width) closest = {before, ns}, width = took;
  }
  return closest;
}

void publish(const Line &line) {
  const uint64_t next = published.number.load(std::memory_order_relaxed) + 1;
  Place &place = published.places[next & 1];
  // Released: who reads one of them also sees the number that made this place the other one.
  place.start.store(line.start, std::memory_order_release);
  place.ns.store(line.ns, std::memory_order_release);
  place.rate.store(uint64_t(line.slope) << 32 | line.ticks, std::memory_order_release);
  published.number.store(next, std::memory_order_release);
}

void forget(const Reading &reading = {}) {
  last = reading;
  first_ns.store(reading.ns, std::memory_order_relaxed);
  publish({});
}

// A line that begins at a reading with some time, `slope` in ns a tick. Those who are still on the
// old line must not get ahead of it, so it begins late or not at all.
bool draw(const Reading &reading, uint64_t ns, double slope, int64_t span) {
  if (double(counter() - reading.counter) * slope > kPromptly) return false;
  const double scaled = slope * double(uint64_t(1) << kShift), ticks = double(span) / slope;
  if (!(scaled >= 1 && scaled < UINT32_MAX && ticks < UINT32_MAX)) return false;
  publish({reading.counter, ns, uint32_t(scaled + 0.5), uint32_t(ticks)});
  last = reading;
  first_ns.store(0, std::memory_order_relaxed);
  return true;
}

double slope_since_last(const Reading &now) {
  return double(now.ns - last.ns) / double(now.counter - last.counter);
}

// From where the line has come to, towards where CLOCK_MONOTONIC will be a span later.
void renew(const Line &line) {
  const Reading now = read_both();
  const uint64_t shown = line.ns + line.age_ns(now.counter);
  const int64_t lag = int64_t(now.ns - shown);
  if (lag > kLag) return forget(now);
  // Far ahead: the counter went on while time stood still, as it does for a machine that sleeps.
  const double slope = lag < -kLag ? ns_per_tick : slope_since_last(now);
  const double towards = std::max(1 + double(lag) / double(kSpan), 0.5);
  if (draw(now, shown + kAhead, slope * towards, kSpan)) ns_per_tick = slope;
}

// Begins the first line once two readings are far enough apart.
void begin_line() {
  const Reading now = read_both();
  const int64_t apart = int64_t(now.ns - last.ns);
  const bool begun = first_ns.load(std::memory_order_relaxed);
  if (!begun || now.counter <= last.counter || apart > kOld) {
    forget(now);
  } else if (apart >= kApart) {
    const double slope = slope_since_last(now);
    if (draw(now, now.ns, slope, std::min(2 * apart, kSpan))) ns_per_tick = slope;
  }
}

uint64_t without_line() {
  const uint64_t now = kernel_ns(), first = first_ns.load(std::memory_order_relaxed);
  if (first && now - first < uint64_t(kApart)) return now;
  if (const Turn turn; turn.mine)
    if (const Look seen = look(); !seen.line.tells(seen.counter)) begin_line();
  return now;
}

uint64_t by_counter() {
  if (const Look seen = look(); !seen.line.tells(seen.counter)) return without_line();
  if (const Turn turn; turn.mine) {
    const Look seen = look();
    if (seen.line.tells(seen.counter) && seen.line.age_ns(seen.counter) > 0 &&
        seen.counter - seen.line.start >= seen.line.ticks)
      renew(seen.line);
  }
  const Look seen = look();
  return seen.line.tells(seen.counter) ? seen.line.ns + seen.line.age_ns(seen.counter)
                                       : kernel_ns();
}

// A child has the thread that made it alone: a turn of another one does not end.
void after_fork() {
  if (!taken.load(std::memory_order_relaxed)) return;
  forget();
  taken.store(false, std::memory_order_release);
}
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, after_fork);

} // namespace
#endif

void set_time(uint64_t ns) {
  fixed_time.store(ns, std::memory_order_relaxed);
#if defined(__x86_64__)
  for (bool done = false; !done; sched_yield())
    if (const Turn turn; (done = turn.mine)) forget();
#endif
}

uint64_t clock_line::read_slowly() {
  if (const uint64_t fixed = fixed_time.load(std::memory_order_relaxed)) return fixed;
#if defined(__x86_64__)
  if (trusted) return by_counter();
#endif
  return kernel_ns();
}

} // namespace tileprof
