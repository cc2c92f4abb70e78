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

using clock_line::kNumberShift, clock_line::kShift, clock_line::Place, clock_line::published;

constexpr int64_t kMs = 1'000'000;      // ns
constexpr int64_t kSpan = 50 * kMs;     // after which a line is renewed
constexpr int64_t kOld = 200 * kMs;     // after which it is left
constexpr int64_t kApart = 10 * kMs;    // at least, the readings that a first line is drawn through
constexpr int64_t kLag = kMs;           // behind CLOCK_MONOTONIC by more, time jumps
constexpr int kExtension = 16;          // a line is extended by 2^16 ticks, 16 to 66 us
constexpr uint64_t kAhead = 20;         // ns, of CLOCK_MONOTONIC, where a first line begins

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

  bool is_kernel_time() const { return !slope; }
  int64_t age_ns(uint64_t at) const {
    return int64_t(static_cast<__int128>(int64_t(at - start)) * slope >> kShift);
  }
  uint64_t told(uint64_t at) const { return ns + age_ns(at); }
};

// The two newest lines, and the counter after they were read.
struct Look {
  uint64_t state = 0;
  Line line, before;
  uint64_t counter = 0;

  // Nobody tells a time by the line from here on, unless it is extended.
  uint64_t end() const {
    const uint64_t extensions = state & ((uint64_t(1) << kNumberShift) - 1);
    return line.start + line.ticks + ((extensions + 1) << kExtension);
  }
  int64_t since() const { return int64_t(counter - line.start); }
  bool is_early() const { return since() < 0; }
  // Not yet begun by more than a line begins late, or begun so long ago that the number would be
  // counted up: the counter of a machine that was suspended may begin anew.
  bool is_far() const {
    return since() < -(int64_t(2) << kExtension) ||
           since() >> (kExtension + kNumberShift - 1) > 0;
  }
  bool has_ended() const { return int64_t(counter - end()) >= 0; }
};

Line line_at(const Place &place) {
  const uint64_t start = place.start.load(std::memory_order_acquire);
  const uint64_t ns = place.ns.load(std::memory_order_acquire);
  const uint64_t rate = place.rate.load(std::memory_order_acquire);
  return {start, ns, uint32_t(rate >> 32), uint32_t(rate)};
}

// The line before is whole if the newest has not begun: only then the next one is written there.
Look look() {
  for (;;) {
    const uint64_t state = published.state.load(std::memory_order_acquire);
    const uint64_t newest = state >> kNumberShift & 1;
    const Line line = line_at(published.places[newest]);
    const Line before = line_at(published.places[!newest]);
    const uint64_t at = counter();
    if (published.state.load(std::memory_order_relaxed) == state) return {state, line, before, at};
  }
}

// Times after the end of a line are those of its extension from here on, not of a next line. Nothing
// if there is a next line or another end by now.
void extend(const Look &seen) {
  const uint64_t past = (seen.counter - seen.end()) >> kExtension;
  uint64_t state = seen.state;
  published.state.compare_exchange_strong(state, state + past + 2, std::memory_order_acq_rel);
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

struct Renewal {
  const bool mine = !taken.exchange(true, std::memory_order_acquire);
  Renewal() = default;
  Renewal(const Renewal &) = delete;
  ~Renewal() {
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

// A next line, unless the one that was seen has been extended or there is another one.
bool publish(const Look &seen, const Line &line) {
  const uint64_t next = (seen.state >> kNumberShift) + 1;
  Place &place = published.places[next & 1];
  // Released: who reads one of them also sees the number that made this place the other one.
  place.start.store(line.start, std::memory_order_release);
  place.ns.store(line.ns, std::memory_order_release);
  place.rate.store(uint64_t(line.slope) << 32 | line.ticks, std::memory_order_release);
  uint64_t state = seen.state;
  return published.state.compare_exchange_strong(state, next << kNumberShift,
                                                 std::memory_order_acq_rel);
}

void begin_anew(const Reading &reading) {
  last = reading;
  first_ns.store(reading.ns, std::memory_order_relaxed);
}

// CLOCK_MONOTONIC after the end of the line, but not before what the line has come to.
void leave_line(const Look &seen, const Reading &reading) {
  const Line &line = seen.line;
  const uint64_t ns = line.is_kernel_time() ? line.ns : line.told(seen.end());
  if (publish(seen, {seen.end(), ns, 0, 0})) begin_anew(reading);
}

// CLOCK_MONOTONIC at once, but not before some time.
void forget(uint64_t ns = 0) {
  for (bool done = false; !done;) {
    const Look seen = look();
    done = publish(seen, {seen.counter, ns, 0, 0});
  }
  begin_anew({});
}

// A line that begins with some time where the one that was seen ends; `slope` in ns a tick.
bool draw(const Look &seen, uint64_t ns, double slope, int64_t span, const Reading &reading) {
  const double scaled = slope * double(uint64_t(1) << kShift), ticks = double(span) / slope;
  if (!(scaled >= 1 && scaled < UINT32_MAX && ticks < UINT32_MAX)) return false;
  if (!publish(seen, {seen.end(), ns, uint32_t(scaled + 0.5), uint32_t(ticks)})) return false;
  last = reading;
  first_ns.store(0, std::memory_order_relaxed);
  return true;
}

double slope_since_last(const Reading &now) {
  return double(now.ns - last.ns) / double(now.counter - last.counter);
}

// From where the line comes to, towards where CLOCK_MONOTONIC will be a span later.
void renew(const Look &seen) {
  const Reading now = read_both();
  const int64_t lag = int64_t(now.ns - seen.line.told(now.counter));
  if (lag > kLag) return leave_line(seen, now);
  // Far ahead: the counter went on while time stood still, as it does for a machine that sleeps.
  const double slope = lag < -kLag ? ns_per_tick : slope_since_last(now);
  const double towards = std::max(1 + double(lag) / double(kSpan), 0.5);
  if (draw(seen, seen.line.told(seen.end()), slope * towards, kSpan, now)) ns_per_tick = slope;
}

// Begins the first line once two readings are far enough apart.
void begin_line(const Look &seen) {
  const Reading now = read_both();
  const int64_t apart = int64_t(now.ns - last.ns);
  const bool begun = first_ns.load(std::memory_order_relaxed);
  if (!begun || now.counter <= last.counter || apart > kOld) return begin_anew(now);
  if (apart < kApart) return;
  const double slope = slope_since_last(now);
  const uint64_t then = now.ns + int64_t(double(int64_t(seen.end() - now.counter)) * slope);
  if (draw(seen, std::max(then + kAhead, seen.line.ns), slope, std::min(2 * apart, kSpan), now))
    ns_per_tick = slope;
}

// What is due to be done for the line by one of its readers.
void take_turn() {
  const Renewal turn;
  if (!turn.mine) return;
  const Look seen = look();
  const Line &line = seen.line;
  if (seen.is_far()) {
    forget();
  } else if (seen.is_early()) {
    return;
  } else if (line.is_kernel_time()) {
    begin_line(seen);
  } else if (line.age_ns(seen.counter) >= kOld) {
    leave_line(seen, read_both());
  } else if (seen.since() >= int64_t(line.ticks)) {
    renew(seen);
  }
}

// Without a line. A time is one of this line if the counter is before its end also afterwards.
bool kernel_time(const Look &seen, uint64_t &told) {
  const uint64_t now = kernel_ns();
  if (int64_t(counter() - (seen.is_early() ? seen.line.start : seen.end())) >= 0) return false;
  told = std::max(now, (seen.is_early() ? seen.before : seen.line).ns);
  const uint64_t first = first_ns.load(std::memory_order_relaxed);
  if (!seen.is_early() && !(first && now - first < uint64_t(kApart))) take_turn();
  return true;
}

uint64_t by_counter() {
  for (;;) {
    const Look seen = look();
    const Line &line = seen.is_early() ? seen.before : seen.line;
    if (seen.is_far()) {
      take_turn();
      if (look().state == seen.state) return kernel_ns();
    } else if (!seen.is_early() && seen.has_ended()) {
      if (!line.is_kernel_time() && line.age_ns(seen.counter) >= kOld) take_turn();
      // Fails if that was done. Whose turn it is may be stopped for long: the line goes on then.
      extend(seen);
    } else if (line.is_kernel_time()) {
      if (uint64_t told; kernel_time(seen, told)) return told;
    } else {
      if (!seen.is_early() && seen.since() >= int64_t(line.ticks)) take_turn();
      return line.told(seen.counter);
    }
  }
}

// A child has the thread that made it alone: a turn of another one does not end.
void after_fork() {
  if (!taken.load(std::memory_order_relaxed)) return;
  const Look seen = look();
  const Line &line = seen.is_early() ? seen.before : seen.line;
  forget(line.told(seen.counter));
  taken.store(false, std::memory_order_release);
}
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, after_fork);

} // namespace
#endif

void set_time(uint64_t ns) {
  fixed_time.store(ns, std::memory_order_relaxed);
#if defined(__x86_64__)
  for (bool done = false; !done; sched_yield())
    if (const Renewal turn; (done = turn.mine)) forget();
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
