// Which accesses to shared memory are ordered: vector clocks, and beside each word its last accesses.
#pragma once
#include <stdint.h>

#include <vector>

namespace tp_emulator {

struct Block;
struct Thread;

// What is known of each agent: its accesses up to this number have happened.
struct Clock {
  std::vector<uint32_t> at;

  uint32_t of(uint32_t agent) const { return agent < at.size() ? at[agent] : 0; }
  void raise(uint32_t agent, uint32_t to) {
    if (agent >= at.size()) at.resize(agent + 1);
    if (at[agent] < to) at[agent] = to;
  }
  void join(const Clock &other) {
    if (at.size() < other.at.size()) at.resize(other.at.size());
    for (size_t i = 0; i < other.at.size(); i++)
      if (at[i] < other.at[i]) at[i] = other.at[i];
  }
};

// What a thread, or a barrier that threads passed, knows: which accesses have happened, and which of
// them the async proxy sees, because a fence came after them.
struct Known {
  Clock happened, fenced;

  void join(const Known &other) {
    happened.join(other.happened);
    fenced.join(other.fenced);
  }
  void clear() {
    happened.at.clear();
    fenced.at.clear();
  }
};

// Who accesses memory; mirrored in findings.py.
enum class Actor : uint8_t { thread, cp_async, tma_load, bulk_store, wgmma };
enum class Way : uint8_t { read, write, atomic };

// One access, as a finding shows it.
struct Site {
  Actor actor;
  Way way;
  int32_t rank;  // position of the thread's block among the blocks that run
  int32_t thread;
  const void *pc;
  uint32_t landed;  // of a load: the number of its barrier's phase in which it landed, from 1; or 0
};

// Kinds of findings; mirrored in findings.py.
enum class Fault : int32_t { race, missing_fence, early_registers, unwritten };

// Mirrored in findings.py.
struct FoundSite {
  int64_t block, offset;  // offset: of the code in its library
  int32_t actor, way, thread, pad;
};
struct Found {
  int32_t fault, byte;
  FoundSite first, second;
};

// Accesses of the running threads that the machine or instrumented code reports.
extern bool watching;

void start_watch(int32_t wanted);
void watch_blocks();
void note(Block &owner, size_t at, size_t bytes, Way way, const void *pc);
void note_thread(Thread &thread, size_t at, size_t bytes, Way way, const void *pc);
// A copy or a product that was issued: its accesses may happen until `agent` is known to have come
// to `number`.
uint32_t add_site(Thread &thread, Actor actor, Way way);
void note_async(Thread &thread, Block &owner, size_t at, size_t bytes, uint32_t site, uint32_t agent,
                uint32_t number, bool async_proxy);
void land_site(uint32_t site, uint32_t phase);

int64_t code_offset(const void *pc);
uint32_t new_agent();
uint32_t agent_of(uint32_t &agent);  // makes it where there is none yet

void release(Thread &thread, Known &into);
void acquire(Thread &thread, const Known &from);
void fence(Thread &thread);
void meet_all(Thread *const *lanes, int count);

}  // namespace tp_emulator
