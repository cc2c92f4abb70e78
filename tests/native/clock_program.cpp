// The recorder's clock on its own, with a CLOCK_MONOTONIC that can be bent.
//
// Usage: clock COMMAND [SECONDS]; prints what test_native_clock.py says it does.
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "host/clock.h"

namespace {

std::atomic<uint64_t> reads{0};
// How CLOCK_MONOTONIC is bent: by so much, and so much faster and slower in turns of 80 ms.
std::atomic<int64_t> ahead{0}, parts_per_million{0};
// Until when the thread is stopped in reading it.
thread_local std::atomic<bool> *stopped_until = nullptr;

// Where threads are interrupted: so many instructions after every third of their readings of
// CLOCK_MONOTONIC, with which a line is renewed. Each time it is one instruction later.
constexpr int kLast = 400;
std::atomic<int> next_interruption{0};
thread_local bool interruptible = false;
thread_local int readings = 0, instructions_left = 0;

int64_t bent(int64_t ns) {
  const int64_t turn = 80'000'000, phase = ns % (2 * turn);
  return ns + ahead + std::min(phase, 2 * turn - phase) / 1000 * parts_per_million / 1000;
}

#if defined(__x86_64__)
constexpr uint64_t kTrapFlag = 0x100;

// After each instruction of a thread with the trap flag.
void after_instruction(int, siginfo_t *, void *context) {
  if (--instructions_left > 0) return;
  static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~greg_t(kTrapFlag);
  usleep(3000);
}

void interrupt_soon() {
  const int at = next_interruption.load();
  if (!interruptible || !at || at > kLast || ++readings % 3) return;
  instructions_left = next_interruption.fetch_add(1);
  // The compiler may keep data below the stack pointer.
  asm volatile("sub $128, %%rsp; pushfq; orq %0, (%%rsp); popfq; add $128, %%rsp" ::"i"(kTrapFlag)
               : "memory", "cc");
}
#else
void interrupt_soon() {}
#endif

} // namespace

// In place of the C library's.
extern "C" int clock_gettime(clockid_t id, timespec *into) noexcept {
  using Function = int (*)(clockid_t, timespec *);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  reads.fetch_add(1, std::memory_order_relaxed);
  if (stopped_until)
    while (!*stopped_until) sched_yield();
  const int status = real(id, into);
  const int64_t ns = bent(into->tv_sec * 1'000'000'000 + into->tv_nsec);
  into->tv_sec = ns / 1'000'000'000, into->tv_nsec = ns % 1'000'000'000;
  interrupt_soon();
  return status;
}

namespace {

using tileprof::now_ns;

uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

// Time for which a processor ran this thread. It is asked of the kernel, as reading a clock of the C
// library would count as a reading.
uint64_t worked_ns() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

void order() {
#if defined(__x86_64__)
  _mm_lfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

uint64_t ordered_ns() {
  order();
  const uint64_t now = now_ns();
  order();
  return now;
}

// How far the clock is outside of two readings of CLOCK_MONOTONIC around it; 0 if those are too far
// apart to tell.
int64_t error_ns() {
  const int64_t before = int64_t(monotonic_ns()), now = int64_t(ordered_ns()),
                after = int64_t(monotonic_ns());
  return after - before > 1000 ? 0 : std::max({before - now, now - after, int64_t(0)});
}

void pass(uint64_t ns) {
  for (const uint64_t until = monotonic_ns() + ns; monotonic_ns() < until;) now_ns();
}

// The worst of all readings over some time, now and then idle for up to half a second.
int64_t worst_error(uint64_t seconds) {
  int64_t worst = 0;
  const uint64_t end = monotonic_ns() + seconds * 1'000'000'000;
  for (uint64_t round = 1; monotonic_ns() < end; ++round) {
    for (int i = 0; i < 50'000; ++i) worst = std::max(worst, error_ns());
    if (round % 8 == 0) usleep(useconds_t(round / 8 * 37'000 % 500'000));
  }
  return worst;
}

// How far a thread's time is behind one that it has been told by another, at most, and of how many.
template <class Done>
void hand_over(Done done) {
  std::atomic<uint64_t> latest{0}, told{0};
  std::atomic<int64_t> worst{0};
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      interruptible = true;
      while (!ended) {
        uint64_t before = latest.load();
        const uint64_t now = ordered_ns();
        told += before != 0;
        if (int64_t(before - now) > worst) worst = int64_t(before - now);
        while (before < now && !latest.compare_exchange_weak(before, now)) {
        }
      }
    });
  const uint64_t begun = monotonic_ns();
  do usleep(10'000);
  while (!done() && monotonic_ns() < begun + 20'000'000'000);
  ended = true;
  for (auto &thread : threads) thread.join();
  printf("%ld %lu\n", long(worst), (unsigned long)told);
}

void hand_over_for(uint64_t seconds) {
  const uint64_t end = monotonic_ns() + seconds * 1'000'000'000;
  hand_over([end] { return monotonic_ns() > end; });
}

// The same while threads are interrupted for 3 ms at all places of renewing the line.
void hand_over_interrupted() {
#if defined(__x86_64__)
  struct sigaction action = {};
  action.sa_sigaction = after_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
#endif
  parts_per_million = 1000;
  // Once there is a line, only who renews it reads CLOCK_MONOTONIC.
  std::thread begin([] { usleep(100'000), next_interruption = 1; });
  hand_over([] { return next_interruption > kLast; });
  begin.join();
}

// CLOCK_MONOTONIC jumps, or stands still while the counter goes on: what the clock shows of it, its
// longest step back, and what it is off by at the end, after readings for so much processor time: a
// busy machine keeps the thread from readings, and the clock follows a step with them.
void jump(int64_t by, uint64_t then_ms) {
  pass(100'000'000);
  int64_t back = 0;
  uint64_t last = now_ns();
  const uint64_t begun = last;
  const int64_t from = int64_t(monotonic_ns());
  if (by < 0) {
    for (int64_t stood = 0; stood < -by;) {
      stood = int64_t(monotonic_ns()) - ahead - from;
      ahead = -stood;
      const uint64_t now = now_ns();
      back = std::max(back, int64_t(last - now)), last = now;
    }
  } else {
    ahead = by;
  }
  for (const uint64_t end = worked_ns() + then_ms * 1'000'000; worked_ns() < end;) {
    const uint64_t now = now_ns();
    back = std::max(back, int64_t(last - now)), last = now;
  }
  // The thread may have been stopped after its last reading, and the time it waits for be over.
  const uint64_t now = now_ns();
  back = std::max(back, int64_t(last - now)), last = now;
  int64_t off = 0;
  for (int i = 0; i < 1000; ++i) off = std::max(off, error_ns());
  printf("%ld %ld %ld\n", long(last - begun), long(back), long(off));
}

// While one thread is stopped at renewing the line, and a child is made: whether the others go on,
// what they are off by, and what the child is off by.
void stop_renewal() {
  pass(100'000'000);
  std::atomic<bool> go_on{false};
  std::thread renewing([&] {
    usleep(60'000);
    stopped_until = &go_on;
    now_ns();
    stopped_until = nullptr;
  });
  usleep(80'000);
  int64_t worst = 0;
  for (int i = 0; i < 100'000; ++i) worst = std::max(worst, error_ns());
  int ends[2];
  if (pipe(ends)) exit(1);
  if (!fork()) {
    int64_t off = 0;
    for (int round = 0; round < 10; ++round) {
      pass(30'000'000);
      for (int i = 0; i < 1000; ++i) off = std::max(off, error_ns());
    }
    const uint64_t before = reads;
    for (int i = 0; i < 10'000; ++i) now_ns();
    const int64_t found[2] = {off, int64_t(reads - before)};
    _exit(write(ends[1], found, sizeof found) != sizeof found);
  }
  int64_t found[2] = {-1, -1};
  if (read(ends[0], found, sizeof found) != sizeof found) exit(1);
  wait(nullptr);
  go_on = true;
  renewing.join();
  printf("%ld %ld %ld\n", long(worst), long(found[0]), long(found[1]));
}

// How often CLOCK_MONOTONIC is read in a million readings, and what one takes.
void speed() {
  pass(100'000'000);
  double best = 1e9, kernel = 1e9;
  const uint64_t before = reads;
  uint64_t sum = 0, read = 0;
  for (int round = 0; round < 20; ++round) {
    const uint64_t began = now_ns();
    for (int i = 0; i < 50'000; ++i) sum += now_ns();
    best = std::min(best, double(now_ns() - began) / 50'000);
    read = reads - before;
  }
  for (int round = 0; round < 20; ++round) {
    timespec t;
    const uint64_t began = now_ns();
    for (int i = 0; i < 50'000; ++i) clock_gettime(CLOCK_MONOTONIC, &t), sum += uint64_t(t.tv_nsec);
    kernel = std::min(kernel, double(now_ns() - began) / 50'000);
  }
  asm volatile("" ::"r"(sum));
  printf("%lu %.1f %.1f\n", (unsigned long)read, best, kernel);
}

// Readings while the time is fixed, on this thread and another; then the error of the real one.
void fix() {
  pass(100'000'000);
  tileprof::set_time(5);
  const uint64_t here = now_ns();
  uint64_t there = 0;
  std::thread([&] { there = now_ns(); }).join();
  tileprof::set_time(0);
  int64_t off = 0;
  for (int i = 0; i < 200'000; ++i) off = std::max(off, error_ns());
  printf("%lu %lu %ld\n", (unsigned long)here, (unsigned long)there, long(off));
}

} // namespace

int main(int count, char **arguments) {
  const char *command = arguments[1];
  const uint64_t seconds = count > 2 ? uint64_t(atoi(arguments[2])) : 1;
  const auto is = [command](const char *name) { return !strcmp(command, name); };
  if (is("error")) {
    printf("%ld\n", long(worst_error(seconds)));
  } else if (is("hand-over")) {
    hand_over_for(seconds);
  } else if (is("hand-over-bent")) {
    parts_per_million = 50;
    hand_over_for(seconds);
  } else if (is("hand-over-interrupted")) {
    hand_over_interrupted();
  } else if (is("jump")) {
    jump(5'000'000, 100);
  } else if (is("step")) {
    jump(500'000, 200);
  } else if (is("stand-still")) {
    jump(-60'000'000, 600);
  } else if (is("stop-renewal")) {
    stop_renewal();
  } else if (is("speed")) {
    speed();
  } else if (is("fix")) {
    fix();
  } else {
    return 1;
  }
}
