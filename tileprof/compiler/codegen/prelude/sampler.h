// The thread that looks at what each worker of the launches that run is at.
//
// Looks come at times of their own, whatever launches begin and end, so a launch gets as many as it
// is long, however short it is.  The time to the next one is drawn evenly from half the period to
// one and a half of it, so that no loop keeps in step with them.  Where no period is asked for, it
// is two hundred times what a look takes of a processor, mostly to wake up: some microseconds, and
// tens of them on a virtual machine, where this clock sees about half of what the program loses.
// With no launch for a while the thread sleeps until there is one.
#pragma once
#include <pthread.h>
#include <signal.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include "abi.h"
#include "clock.h"

// One launch that runs.
struct Sampled {
  TpRun *run;
  Sampled *next;
};

static struct {
  pthread_mutex_t lock;  // guards all of this, and the counts of the launches that run
  pthread_cond_t wake;
  Sampled *running;
  int64_t asked;   // period of the launch that began last; 0: it is to be chosen
  int64_t ended;   // when the last one did
  int64_t due;     // the next look
  bool exists, sooner;
} sampler;

static const int64_t SAMPLER_PATIENCE = 20000000;  // ns without a launch
static const int64_t SHORTEST_CHOSEN = 200000, LONGEST_CHOSEN = 5000000;
static const int64_t LOOKS_WORTH = 200;
static const int64_t NEVER = INT64_MAX / 2;
#if defined(__linux__)
#define SAMPLER_CLOCK CLOCK_MONOTONIC
#else
#define SAMPLER_CLOCK CLOCK_REALTIME  // the one that conditions wait on
#endif

static void look(void) {
  for (Sampled *each = sampler.running; each; each = each->next) {
    TpRun *run = each->run;
    bool some = false;
    for (int64_t w = 0; w < run->workers; w++) {
      char *place = run->samples + w * run->sample_bytes;
      const uint32_t state = __atomic_load_n((uint32_t *)place, __ATOMIC_RELAXED);
      if (state >= (uint64_t)run->states) continue;
      ((uint64_t *)(place + TP_SAMPLE_HEAD))[state]++;
      some = true;
    }
    run->looks += some;
  }
}

// A number from 0 to `below`, that one not included.
static int64_t drawn(uint32_t *chance, int64_t below) {
  *chance = *chance * 1664525u + 1013904223u;
  return (int64_t)(((unsigned __int128)*chance * (uint64_t)below) >> 32);
}

// Until that time on the clock, or until a launch asks for looks sooner; without the lock meanwhile.
static void wait_until(int64_t due) {
  sampler.due = due;
  for (int64_t left; !sampler.sooner && (left = due - now()) > 0;) {
    struct timespec at;
    clock_gettime(SAMPLER_CLOCK, &at);
    const int64_t ns = at.tv_nsec + left % 1000000000;
    at.tv_sec += left / 1000000000 + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&sampler.wake, &sampler.lock, &at);
  }
}

// What this thread has taken of a processor.
static int64_t taken(void) {
  struct timespec at;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return at.tv_sec * 1000000000ll + at.tv_nsec;
}

static int64_t chosen_period(int64_t cost) {
  if (sampler.asked) return sampler.asked;
  const int64_t period = LOOKS_WORTH * cost;
  return period < SHORTEST_CHOSEN ? SHORTEST_CHOSEN
                                  : period > LONGEST_CHOSEN ? LONGEST_CHOSEN : period;
}

static void *look_on(void *) {
#if defined(__linux__)
  prctl(PR_SET_TIMERSLACK, 1ul);  // else it wakes up 50 us late
  prctl(PR_SET_NAME, "tileprof look");
#endif
  uint32_t chance = (uint32_t)now();
  int64_t due = 0, before = taken(), cost = 10000;  // of a look, as it is about
  pthread_mutex_lock(&sampler.lock);
  for (;;) {
    const int64_t at = now(), period = chosen_period(cost);
    const bool idle = !sampler.running && at - sampler.ended > SAMPLER_PATIENCE + 4 * period;
    // Where it was held up it does not look several times at once.
    if (due < at - period) due = at;
    due += period / 2 + drawn(&chance, period);
    wait_until(idle ? NEVER : due);
    while (sampler.sooner) {
      sampler.sooner = false;
      due = now() + drawn(&chance, chosen_period(cost));
      before = taken();
      wait_until(due);
    }
    look();
    const int64_t after = taken();
    cost += (after - before - cost) / 16;
    before = after;
  }
  return 0;
}

// Have the thread; signals are for those of the program.  Where the system refuses, nobody looks.
static void start_sampler(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sampler.exists = !pthread_create(&thread, &attributes, look_on, 0);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, 0);
}

static void begin_sampling(Sampled *launch) {
  const int64_t longest = launch->run->period_ns ? launch->run->period_ns : LONGEST_CHOSEN;
  pthread_mutex_lock(&sampler.lock);
  launch->next = sampler.running;
  sampler.running = launch;
  sampler.asked = launch->run->period_ns;
  if (!sampler.exists) start_sampler();
  // It sleeps, or looks at longer intervals.
  const bool sooner = sampler.due - now() > 2 * longest;
  sampler.sooner |= sooner;
  pthread_mutex_unlock(&sampler.lock);
  if (sooner) pthread_cond_signal(&sampler.wake);
}

static void end_sampling(Sampled *launch) {
  pthread_mutex_lock(&sampler.lock);
  Sampled **at = &sampler.running;
  while (*at != launch) at = &(*at)->next;
  *at = launch->next;
  sampler.ended = now();
  pthread_mutex_unlock(&sampler.lock);
}

static void reset_sampler(void) {
  __builtin_memset(&sampler, 0, sizeof sampler);
  pthread_mutex_init(&sampler.lock, 0);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
#if defined(__linux__)
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
  pthread_cond_init(&sampler.wake, &attributes);
  pthread_condattr_destroy(&attributes);
}
