// The scheduler: which thread runs next is drawn by the seed, so that races show for some seeds.
#include "machine.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>

namespace tp_emulator {

Machine machine;
Seen *now;
// Where a failure jumps to, from any stack.
static sigjmp_buf outside;

uint32_t random_below(uint32_t n) {
  uint64_t z = machine.random_state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return (uint32_t)(((z ^ z >> 31) & 0xffffffffull) * n >> 32);
}

// Threads ---------------------------------------------------------------------------------------

static void make_ready(Thread *thread) {
  thread->slot = (int)machine.ready.size();
  machine.ready.push_back(thread);
}

static void make_unready(Thread *thread) {
  Thread *last = machine.ready.back();
  machine.ready[thread->slot] = last;
  last->slot = thread->slot;
  machine.ready.pop_back();
  thread->slot = -1;
}

void block(const char *what, int64_t first, int64_t second) {
  Thread *thread = self();
  thread->waiting = Waiting{what, first, second};
  make_unready(thread);
  switch_fiber(thread->fiber, machine.main);
}

void wake(Thread *thread) {
  thread->waiting.what = nullptr;
  make_ready(thread);
}

void wake_all(std::vector<Thread *> &threads) {
  for (Thread *thread : threads) wake(thread);
  threads.clear();
}

void yield() { switch_fiber(self()->fiber, machine.main); }

void glance() {
  if (random_below(16) == 0) yield();
}

void linger() {
  const uint32_t most = random_below(2) ? 4 : 4096;
  for (uint32_t left = random_below(most); left; left--) yield();
}

static void add_stuck(const Block &owner, const Thread &first, int threads, const char *what) {
  Stuck stuck = {owner.number, code_offset(first.pc), first.number, threads, {}};
  snprintf(stuck.what, sizeof stuck.what, "%s", what);
  machine.stuck.push_back(stuck);
}

void fail(const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  Thread *thread = self();
  char place[64] = "";
  if (thread) {
    snprintf(place, sizeof place, "block %lld, thread %d: ", (long long)thread->owner->number,
             thread->number);
  }
  machine.failure = std::string(place) + text;
  if (thread) add_stuck(*thread->owner, *thread, 1, text);
  siglongjmp(outside, 1);
}

static void run_thread() {
  machine.launch->body(machine.launch->arguments);
  Thread *thread = self();
  copies_end(thread);
  products_end(thread);
  thread->done = true;
  thread->owner->live--;
  make_unready(thread);
  thread_ends(thread);
  if (thread->owner->live == 0 && thread->owner->loads)
    fail("the block ended while loads into its shared memory were under way");
  switch_fiber(thread->fiber, machine.main);
}

// Clusters --------------------------------------------------------------------------------------

static unsigned char *reserve(size_t bytes) {
  void *got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
  if (got == MAP_FAILED) abort();
  return (unsigned char *)got;
}

// Memory is kept from launch to launch: it is large and mostly untouched.
static unsigned char *kept(std::vector<unsigned char *> &pool, size_t index, size_t bytes) {
  while (pool.size() <= index) pool.push_back(reserve(bytes));
  return pool[index];
}

static void start_thread(Block &owner, int number, unsigned char *stack) {
  const Launch &launch = *machine.launch;
  Thread &thread = owner.threads[number];
  thread = Thread();
  thread.Seen::thread.x = (unsigned)number;
  thread.Seen::block.x = (unsigned)owner.number;
  thread.block_extent.x = (unsigned)launch.threads;
  thread.grid_extent.x = (unsigned)launch.grid;
  thread.shared = owner.shared;
  thread.cluster_rank = (unsigned)owner.rank;
  thread.cluster_size = (unsigned)launch.cluster;
  thread.stack = stack;
  memset(stack, 0x5a, 64);
  thread.fiber = make_fiber(stack + 64, STACK_BYTES - 64, run_thread);
  thread.owner = &owner;
  thread.number = number;
  thread.lane = number % 32;
  thread.warp = &owner.warps[number / 32];
  thread.warp->lanes[thread.lane] = &thread;
  thread.group = &owner.groups[number / 128];
  thread.group->owner = &owner;
  thread.group->threads[number % 128] = &thread;
  thread.cluster_phase = -1;
  thread.priority = random_below(1u << 30);
  make_ready(&thread);
}

static void start_block(Block &owner, int64_t number, int rank, int place) {
  static std::vector<unsigned char *> shared, shadow, stacks;
  const Launch &launch = *machine.launch;
  owner = Block();
  owner.number = number;
  owner.rank = rank;
  owner.live = launch.threads;
  owner.shared = kept(shared, place, SHARED_ROOM);
  owner.shadow = kept(shadow, place, SHARED_ROOM);
  memset(owner.shared, POISON, SHARED_ROOM);
  memset(owner.shadow, POISON, SHARED_ROOM);
  owner.threads.resize(launch.threads);
  owner.warps.resize((launch.threads + 31) / 32);
  owner.groups.resize((launch.threads + 127) / 128);
  for (int t = 0; t < launch.threads; t++)
    start_thread(owner, t, kept(stacks, (size_t)place * launch.threads + t, STACK_BYTES));
}

static void check_block(const Block &owner) {
  machine.running = nullptr;
  for (size_t at = (size_t)machine.launch->shared; at < STATIC_SHARED; at++) {
    if (owner.shared[at] != POISON) {
      fail("block %lld wrote byte %zu of its shared memory, which has %d", (long long)owner.number,
           at, machine.launch->shared);
    }
  }
}

static std::string ranges(const std::vector<int> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) last++;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

static void report_deadlock() {
  machine.failure = "deadlock: every thread waits";
  for (const Block &owner : machine.blocks) {
    std::map<std::string, std::vector<int>> by_text;
    for (const Thread &thread : owner.threads)
      if (!thread.done) by_text[describe(owner, thread.waiting)].push_back(thread.number);
    for (const auto &[text, numbers] : by_text) {
      machine.failure += "\n  block " + std::to_string(owner.number) + ", threads " +
                         ranges(numbers) + ": " + text;
      add_stuck(owner, owner.threads[(size_t)numbers[0]], (int)numbers.size(), text.c_str());
    }
  }
}

static Thread *choose() {
  const uint32_t size = (uint32_t)machine.ready.size();
  Thread *best = machine.ready[random_below(size)];
  for (int i = 1; i < machine.choices; i++) {
    Thread *other = machine.ready[random_below(size)];
    if (other->priority > best->priority) best = other;
  }
  if (random_below(256) == 0) best->priority = random_below(1u << 30);
  return best;
}

static void run_ready() {
  int64_t live = 0;
  for (const Block &owner : machine.blocks) live += owner.live;
  while (live && machine.failure.empty()) {
    if (!machine.late.empty() && (machine.ready.empty() || random_below(4096) == 0))
      wake_all(machine.late);
    if (machine.ready.empty()) {
      machine.running = nullptr;
      if (!land_load()) report_deadlock();
      continue;
    }
    if (++machine.steps > machine.launch->steps) {
      machine.failure = "no end after " + std::to_string(machine.steps) + " steps";
      return;
    }
    machine.running = nullptr;
    if (machine.landing && random_below(machine.landing) == 0) land_something();
    Thread *thread = choose();
    machine.running = thread;
    now = thread;
    switch_fiber(machine.main, thread->fiber);
    if (thread->stack[0] != 0x5a) machine.failure = "a thread's stack overflowed";
    if (thread->done) live--;
  }
}

// The blocks of a cluster, or blocks that know nothing of each other.
static void run_cluster(const std::vector<int64_t> &numbers) {
  const int size = (int)numbers.size();
  machine.blocks.clear();
  machine.blocks.resize(size);
  machine.ready.clear();
  machine.loads.clear();
  machine.late.clear();
  machine.cluster_waiters.clear();
  machine.cluster_arrived = 0;
  machine.cluster_phase = 0;
  machine.cluster_arrived_known.clear();
  machine.cluster_known.clear();
  for (int at = 0; at < size; at++)
    start_block(machine.blocks[at], numbers[at], machine.launch->cluster > 1 ? at : 0, at);
  watch_blocks();
  // Whole warps that run ahead or lag behind, or single threads.
  if (random_below(2)) {
    for (Block &owner : machine.blocks)
      for (Thread &thread : owner.threads) thread.priority = thread.warp->lanes[0]->priority;
  }
  // A block that starts late.
  if (size > 1 && random_below(2)) {
    for (Thread &thread : machine.blocks[random_below((uint32_t)size)].threads) {
      make_unready(&thread);
      machine.late.push_back(&thread);
    }
  }
  run_ready();
  if (machine.failure.empty())
    for (const Block &owner : machine.blocks) check_block(owner);
}

// Runs and faults -------------------------------------------------------------------------------

static void on_fault(int, siginfo_t *info, void *) {
  char text[160];
  Thread *thread = machine.running;
  snprintf(text, sizeof text, "block %lld, thread %d: access to address %p, which is not there",
           thread ? (long long)thread->owner->number : -1, thread ? thread->number : -1,
           info->si_addr);
  machine.failure = text;
  siglongjmp(outside, 1);
}

struct FaultGuard {
  struct sigaction before[3];
  stack_t stack_before;
  static constexpr int signals[3] = {SIGSEGV, SIGBUS, SIGFPE};

  FaultGuard() {
    static unsigned char *own = reserve(1 << 16);
    stack_t stack = {};
    stack.ss_sp = own;
    stack.ss_size = 1 << 16;
    sigaltstack(&stack, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 3; i++) sigaction(signals[i], &action, &before[i]);
  }
  ~FaultGuard() {
    for (int i = 0; i < 3; i++) sigaction(signals[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
  }
};
constexpr int FaultGuard::signals[3];

static void prepare(const Launch &launch) {
  machine.launch = &launch;
  machine.running = nullptr;
  machine.random_state = launch.seed * 0x2545f4914f6cdd1dull + 1;
  machine.failure.clear();
  machine.stuck.clear();
  machine.steps = 0;
  start_watch(launch.races);
  static const uint32_t landings[] = {16, 0, 256, 3};
  machine.landing = landings[launch.seed % 4];
  machine.choices = launch.seed % 3 == 0 ? 1 : 4;
  machine.elected = launch.seed ? (int)random_below(32) : 0;
}

static void run_clusters() {
  const Launch &launch = *machine.launch;
  std::vector<int64_t> order(launch.blocks, launch.blocks + launch.clusters);
  if (launch.seed)
    for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random_below((uint32_t)i)]);
  for (size_t at = 0; at < order.size() && machine.failure.empty();) {
    std::vector<int64_t> numbers;
    if (launch.cluster > 1) {
      for (int rank = 0; rank < launch.cluster; rank++) numbers.push_back(order[at] + rank);
      at++;
    } else {
      const size_t end = std::min(at + (size_t)launch.together, order.size());
      for (; at < end; at++) numbers.push_back(order[at]);
    }
    run_cluster(numbers);
  }
}

extern "C" int32_t tp_emulator_stuck(Stuck *out, int32_t room) {
  const int32_t count = std::min((int32_t)machine.stuck.size(), room);
  std::copy_n(machine.stuck.begin(), count, out);
  return count;
}

extern "C" int tp_emulator_run(const Launch *launch, char *message, size_t size) {
  FaultGuard guard;
  prepare(*launch);
  if (sigsetjmp(outside, 1) == 0) run_clusters();
  snprintf(message, size, "%s", machine.failure.c_str());
  machine.blocks.clear();
  return machine.failure.empty() ? 0 : 1;
}

}  // namespace tp_emulator
