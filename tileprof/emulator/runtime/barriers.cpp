// Barriers of every kind, the meeting of a warp's lanes, and what a deadlock says of them.
#include <stdio.h>
#include <string.h>

#include "machine.h"

namespace tp_emulator {

// Addresses -------------------------------------------------------------------------------------

bool is_shared(const void *pointer) {
  const ptrdiff_t at = (const unsigned char *)pointer - self()->shared;
  return at >= 0 && at < (ptrdiff_t)SHARED_ROOM;
}

uint32_t shared_address(const void *pointer) {
  if (!is_shared(pointer)) fail("%p is not in the block's shared memory", pointer);
  return (uint32_t)((const unsigned char *)pointer - self()->shared) + SHARED_START;
}

void check_aligned(const void *pointer, size_t bytes, const char *what) {
  if ((uintptr_t)pointer % bytes)
    fail("%s at %p is not aligned to %zu bytes", what, pointer, bytes);
}

// What compilers say of a type (`TypeDescriptor` of their sanitizers' libraries), and of a place
// where an access may be misaligned (`TypeMismatchData`).
struct TypeSaid {
  uint16_t kind, info;
  char name[1];
};
struct AccessSaid {
  const char *file;
  uint32_t line, column;
  const TypeSaid *type;
  unsigned char log_alignment, kind;
};

// Called by texts in front of such an access.
extern "C" void __ubsan_handle_type_mismatch_v1(const AccessSaid *said, uintptr_t at) {
  fail("access of type %s at 0x%llx is not aligned to %d bytes (line %u)", said->type->name,
       (unsigned long long)at, 1 << said->log_alignment, said->line);
}

// Warps -----------------------------------------------------------------------------------------

static void check_meeting(const Warp &warp, const char *what) {
  if (!warp.present || !strcmp(warp.what, what)) return;
  fail("%s, while lane %d of the warp is in %s", what, warp.first_lane, warp.what);
}

void meet(const char *what, void *mine, void (*work)(void **lanes)) {
  TP_CALLED_HERE;
  Thread *thread = self();
  Warp &warp = *thread->warp;
  check_meeting(warp, what);
  if (!warp.present++) {
    warp.what = what;
    warp.first_lane = thread->lane;
  }
  warp.brought[thread->lane] = mine;
  if (warp.present < 32) return block(what);
  if (work) work(warp.brought);
  // Other meetings of a warp order no accesses to memory.
  if (!strcmp(what, "tp_warp_barrier")) meet_all(warp.lanes, 32);
  warp.present = 0;
  for (Thread *lane : warp.lanes)
    if (lane != thread) wake(lane);
  glance();
}

bool elect() {
  meet("tp_elect", nullptr, nullptr);
  return self()->lane == machine.elected;
}

// Barriers of a block ---------------------------------------------------------------------------

static void check_named(const NamedBarrier &barrier, int id, int threads) {
  if (id < 0 || id > 15) fail("there is no barrier %d: they go from 0 to 15", id);
  if (threads && (threads % 32 || threads < 32 || threads > machine.launch->threads))
    fail("barrier %d of %d threads: must be whole warps of the block", id, threads);
  if (barrier.arrived && barrier.expected != threads) {
    fail("barrier %d of %d threads, while others wait there for %d", id, threads,
         barrier.expected);
  }
}

static void complete_if_full(const Block &owner, NamedBarrier &barrier) {
  const int wanted = barrier.expected ? barrier.expected : owner.live;
  if (!barrier.arrived || barrier.arrived < wanted) return;
  barrier.arrived = 0;
  for (Thread *waiter : barrier.waiters) acquire(*waiter, barrier.known);
  barrier.known.clear();
  wake_all(barrier.waiters);
}

static void meet_at(int id, int threads, bool wait) {
  Thread *thread = self();
  NamedBarrier &at = thread->owner->barriers[id & 15];
  check_named(at, id, threads);
  at.expected = threads;
  at.arrived++;
  release(*thread, at.known);
  if (wait) at.waiters.push_back(thread);
  // Waking the running thread takes it off the list: it has to be there as one that waits.
  if (!wait) return complete_if_full(*thread->owner, at);
  const int wanted = threads ? threads : thread->owner->live;
  if (at.arrived < wanted) return block("tp_barrier", id);
  at.waiters.pop_back();
  acquire(*thread, at.known);
  complete_if_full(*thread->owner, at);
  yield();
}

void barrier(int id, int threads, bool wait) {
  TP_CALLED_HERE;
  meet_at(id, threads, wait);
}

int barrier_vote(bool x) {
  TP_CALLED_HERE;
  Thread *thread = self();
  int *votes = thread->owner->votes;
  const int round = thread->votes++ % 3;
  votes[round] += x;
  meet_at(0, 0, true);
  // Nobody votes in the round after the next before all have come here.
  votes[(round + 2) % 3] = 0;
  return votes[round];
}

static size_t live_threads() {
  size_t live = 0;
  for (const Block &owner : machine.blocks) live += (size_t)owner.live;
  return live;
}

static void complete_cluster() {
  if (machine.cluster_arrived < live_threads()) return;
  machine.cluster_arrived = 0;
  machine.cluster_phase++;
  machine.cluster_known.join(machine.cluster_arrived_known);
  wake_all(machine.cluster_waiters);
}

void cluster_arrive() {
  TP_CALLED_HERE;
  Thread *thread = self();
  if (thread->cluster_phase >= 0) fail("tp_cluster_arrive twice without tp_cluster_wait");
  thread->cluster_phase = machine.cluster_phase;
  machine.cluster_arrived++;
  release(*thread, machine.cluster_arrived_known);
  complete_cluster();
  glance();
}

void cluster_wait() {
  TP_CALLED_HERE;
  Thread *thread = self();
  if (thread->cluster_phase < 0) fail("tp_cluster_wait without tp_cluster_arrive");
  if (machine.cluster_phase == thread->cluster_phase) {
    machine.cluster_waiters.push_back(thread);
    block("tp_cluster_wait");
  }
  thread->cluster_phase = -1;
  acquire(*thread, machine.cluster_known);
  glance();
}

void thread_ends(Thread *thread) {
  NamedBarrier &whole = thread->owner->barriers[0];
  if (!whole.expected) complete_if_full(*thread->owner, whole);
  if (machine.cluster_arrived) complete_cluster();
}

// Generic writes so far become visible to the async proxy.
void fence_async() {
  Block &owner = *self()->owner;
  memcpy(owner.shadow, owner.shared, (size_t)machine.launch->shared);
  for (auto &[at, barrier] : owner.mbarriers)
    if (barrier.initialiser == self()->number) barrier.fenced = true;
  fence(*self());
  glance();
}

// Mbarriers -------------------------------------------------------------------------------------

// What the word of an initialised barrier holds: overwritten words are noticed.
static uint64_t cookie(uint32_t address) { return 0x6d62617272696572ull ^ address; }

static Mbarrier &find(Block &owner, uint64_t *word) {
  const uint32_t address = (uint32_t)((unsigned char *)word - owner.shared) + SHARED_START;
  const auto found = owner.mbarriers.find(address);
  if (found == owner.mbarriers.end()) fail("the mbarrier at 0x%x was not initialised", address);
  if (*word != cookie(address)) fail("the mbarrier at 0x%x was overwritten", address);
  return found->second;
}

// Its operations are atomic, except for the first and the last.
static void note_word_of(Block &owner, uint32_t address, Way way) {
  if (!watching) return;
  Thread &thread = *self();
  // A remote one is ordered by a barrier of the cluster, whose failures show otherwise.
  if (&owner == thread.owner) note_thread(thread, address - SHARED_START, 8, way, thread.pc);
}

void mbarrier_init(uint64_t *word, int count) {
  check_aligned(word, 8, "mbarrier");
  const uint32_t address = shared_address(word);
  Block &owner = *self()->owner;
  if (count < 1) fail("an mbarrier of %d arrivals", count);
  if (owner.mbarriers.count(address) && !owner.mbarriers[address].waiters.empty())
    fail("the mbarrier at 0x%x is initialised while threads wait at it", address);
  TP_CALLED_HERE;
  note_word_of(owner, address, Way::write);
  *word = cookie(address);
  owner.mbarriers[address] = Mbarrier{count, count, 0, 0, false, self()->number, {}, new_agent(), {}, {}};
  glance();
}

void mbarrier_fence_init() {
  for (auto &[at, barrier] : self()->owner->mbarriers)
    if (barrier.initialiser == self()->number) barrier.fenced = true;
  glance();
}

static void advance(Mbarrier &barrier) {
  if (barrier.pending || barrier.bytes) return;
  barrier.phase++;
  barrier.pending = barrier.count;
  if (watching) {
    barrier.done.join(barrier.arrived);
    barrier.done.happened.raise(barrier.agent, barrier.phase);
  }
  wake_all(barrier.waiters);
}

void arrive_at(Block &owner, uint64_t *word) {
  Mbarrier &barrier = find(owner, word);
  if (barrier.pending == 0) {
    fail("too many arrivals at the mbarrier at 0x%x",
         (unsigned)((unsigned char *)word - owner.shared) + SHARED_START);
  }
  barrier.pending--;
  advance(barrier);
}

void mbarrier_arrive(uint64_t *word, int64_t expect, int block) {
  TP_CALLED_HERE;
  Thread *thread = self();
  const uint32_t address = shared_address(word);
  if (block >= (int)machine.blocks.size()) fail("the cluster has no block %d", block);
  Block &owner = block < 0 ? *thread->owner : machine.blocks[block];
  if (!owner.live) fail("arrives at an mbarrier of block %d of the cluster, which has ended", block);
  uint64_t *there = (uint64_t *)(owner.shared + (address - SHARED_START));
  // Before, so that what the thread did last can be seen late or early.
  glance();
  Mbarrier &barrier = find(owner, there);
  note_word_of(owner, address, Way::atomic);
  barrier.bytes += expect;
  release(*thread, barrier.arrived);
  arrive_at(owner, there);
  glance();
}

void mbarrier_wait(uint64_t *word, uint32_t parity) {
  TP_CALLED_HERE;
  Thread *thread = self();
  Block &owner = *thread->owner;
  const uint32_t address = shared_address(word);
  glance();
  Mbarrier &barrier = find(owner, word);
  if (parity > 1) fail("waits for parity %u of the mbarrier at 0x%x", parity, address);
  note_word_of(owner, address, Way::atomic);
  if ((barrier.phase & 1) != parity) {
    acquire(*thread, barrier.done);
    return glance();
  }
  barrier.waiters.push_back(thread);
  block("tp_mbarrier_wait", address, parity);
  acquire(*thread, find(owner, word).done);
}

bool mbarrier_test(uint64_t *word, uint32_t parity) {
  TP_CALLED_HERE;
  glance();
  Mbarrier &barrier = find(*self()->owner, word);
  note_word_of(*self()->owner, shared_address(word), Way::atomic);
  if ((barrier.phase & 1) != parity) {
    acquire(*self(), barrier.done);
    return true;
  }
  // A loop around a test has to let others run.
  yield();
  return false;
}

void mbarrier_invalidate(uint64_t *word) {
  Block &owner = *self()->owner;
  const Mbarrier &barrier = find(owner, word);
  if (!barrier.waiters.empty()) fail("an mbarrier is invalidated while threads wait at it");
  TP_CALLED_HERE;
  note_word_of(owner, shared_address(word), Way::write);
  owner.mbarriers.erase(shared_address(word));
  *word = ~0ull;
  glance();
}

void arrived_knowing(Block &owner, uint64_t *word, const Known &known) {
  find(owner, word).arrived.join(known);
}

uint32_t agent_of_barrier(Block &owner, uint64_t *word) { return find(owner, word).agent; }

uint32_t complete_bytes(Block &owner, uint64_t *word, int64_t bytes) {
  Mbarrier &barrier = find(owner, word);
  const uint32_t phase = barrier.phase + 1;
  barrier.bytes -= bytes;
  advance(barrier);
  return phase;
}

void check_for_load(Block &owner, uint64_t *word) {
  Mbarrier &barrier = find(owner, word);
  if (!barrier.fenced)
    fail("a load on an mbarrier that no tp_fence_mbarrier_init() made visible to the copy engine");
}

// Deadlocks -------------------------------------------------------------------------------------

static std::string describe_mbarrier(const Block &owner, const Waiting &waiting) {
  const Mbarrier &barrier = owner.mbarriers.at((uint32_t)waiting.first);
  char text[200];
  snprintf(text, sizeof text,
           "tp_mbarrier_wait at 0x%x for parity %d: phase %u lacks %d of %d arrivals, %lld bytes",
           (unsigned)waiting.first, (int)waiting.second, barrier.phase, barrier.pending,
           barrier.count, (long long)barrier.bytes);
  return text;
}

static std::string describe_named(const Block &owner, const Waiting &waiting) {
  const NamedBarrier &barrier = owner.barriers[waiting.first];
  char text[120];
  snprintf(text, sizeof text, "tp_barrier %d: %d of %d threads are there", (int)waiting.first,
           barrier.arrived, barrier.expected ? barrier.expected : owner.live);
  return text;
}

std::string describe(const Block &owner, const Waiting &waiting) {
  if (!waiting.what) return "runs";
  if (!strcmp(waiting.what, "tp_mbarrier_wait")) return describe_mbarrier(owner, waiting);
  if (!strcmp(waiting.what, "tp_barrier")) return describe_named(owner, waiting);
  return waiting.what;
}

}  // namespace tp_emulator
