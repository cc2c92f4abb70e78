// The emulated multiprocessor: threads, warps, blocks of a cluster, and who runs next.
#pragma once
#include <stdint.h>

#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "../include/emulator.h"
#include "fibers.h"
#include "races.h"

namespace tp_emulator {

// Bytes of shared memory have this value until somebody writes them: NaN as a float, -1 as a number.
constexpr unsigned char POISON = 0xff;
constexpr uint32_t SHARED_START = 1024;  // where dynamic shared memory starts in its window
constexpr size_t SHARED_ROOM = 256 * 1024;
constexpr size_t STACK_BYTES = 256 * 1024;

struct Block;
struct Warp;
struct WarpGroup;

// A cp.async that has not landed.
struct Copy {
  unsigned char *target;
  const unsigned char *source;
  int bytes, there;
  int64_t group, serial;
};

// A store of the copy engine: first it reads shared memory, later it writes global memory.
struct Store {
  std::function<void()> read, write;
  bool was_read;
  int64_t group;
};

// Accumulators that a product of the tensor cores writes: their true values, and how many
// products have not been waited for.
struct Held {
  void *registers;
  std::vector<uint32_t> values;
  int in_flight;
  const void *pc;  // where the last product was issued
};

struct Waiting {
  const char *what;  // null: runs
  int64_t first, second;
};

struct Thread : Seen {
  Fiber fiber;
  unsigned char *stack;
  Block *owner;
  Warp *warp;
  WarpGroup *group;
  int number, lane;
  uint32_t priority;
  int slot;  // in the list of ready threads, or -1
  bool done;
  Waiting waiting;
  // cp.async
  std::vector<Copy> copies;
  int64_t copy_groups, copies_issued;
  std::vector<uint32_t> copies_before;  // issued before the end of each group
  // bulk stores
  std::vector<Store> stores;
  int64_t store_groups, store_groups_read, stores_issued;
  std::vector<uint32_t> stores_before;  // issued before the end of each group
  // products
  int64_t issued, retired;
  std::vector<int64_t> commits;
  std::deque<void *> pending_registers;  // of each product not waited for
  std::vector<Held> held;
  bool products_fenced;
  // What the registers, which live on the stack, held at the last fence of products.
  std::vector<unsigned char> fenced_stack;
  const unsigned char *fenced_from;
  int64_t cluster_phase;  // in which it arrived and has not waited, or -1
  int votes;              // how often it voted
  const void *pc;         // behind the last call of the machine
  const void *row_pc;     // behind the last ldmatrix or stmatrix
  // races
  Known known;
  uint32_t agent, copies_agent, stores_agent;
  uint32_t sites[64];  // of some of its statements, from 1; 0: none
  bool unseen;         // inside of an atomic operation
};

struct Warp {
  Thread *lanes[32];
  void *brought[32];
  const char *what;
  int present, first_lane;
  uint32_t products_agent;
};

// One product: what its 128 threads brought.  Each warp does 16 of its 64 rows, any time after its
// own 32 lanes came.
struct Multiply {
  Product product;
  uint64_t a_descriptor, b_descriptor;
  bool accumulate;
  int filled[4];
  void *registers[128];
  uint32_t a[128][4];
};

struct WarpGroup {
  Block *owner;
  Thread *threads[128];
  std::deque<Multiply> queue;  // those not executed
  int64_t executed;            // by all four warps
  int64_t parts[4];            // by each
  std::vector<Thread *> waiters;
};

struct NamedBarrier {
  int expected, arrived;
  std::vector<Thread *> waiters;
  Known known;
};

struct Mbarrier {
  int count, pending;
  int64_t bytes;
  uint32_t phase;
  bool fenced;
  int initialiser;
  std::vector<Thread *> waiters;
  uint32_t agent;       // whose accesses are those of the loads that it counts
  Known arrived, done;  // what arrivals of this phase, and of those before it, know
};

// A load of the copy engine that has not landed.
struct Load {
  Block *owner;
  std::function<void()> land;
};

struct Block {
  int64_t number;
  int rank, live;
  unsigned char *shared;
  unsigned char *shadow;  // shared memory as the async proxy sees it
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<WarpGroup> groups;
  NamedBarrier barriers[16];
  int votes[3];  // of barriers that count, in turn
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
  int loads;
};

// What the driver asks for; mirrored in driver.py.
struct Launch {
  void (*body)(void **arguments);
  void **arguments;
  const int64_t *blocks;  // first block of each cluster
  int64_t clusters;
  int64_t grid;
  int32_t threads, shared, cluster;
  int32_t together;  // blocks that run at once, where they are no clusters
  uint64_t seed;
  int64_t steps;
  int32_t races;  // most findings of races; 0: none are looked for
  int32_t pad;
};

// Threads of a block that wait at one place; mirrored in findings.py.
struct Stuck {
  int64_t block, offset;  // offset: of the code in its library
  int32_t first, threads;
  char what[176];
};

struct Machine {
  const Launch *launch;
  std::vector<Block> blocks;  // of the cluster that runs, or those that run together
  std::vector<Thread *> ready;
  std::vector<Thread *> late;  // of a block that has not started
  std::vector<Load> loads;
  size_t cluster_arrived;
  int64_t cluster_phase;
  std::vector<Thread *> cluster_waiters;
  Known cluster_arrived_known, cluster_known;
  Thread *running;
  Fiber main;
  uint64_t random_state;
  int choices;            // threads among which the one of highest priority is taken
  uint32_t landing;       // one in this many steps something lands; 0: only when it must
  int elected;
  int64_t steps;
  std::string failure;
  std::vector<Stuck> stuck;  // where threads wait for ever, or the one that failed
};
extern Machine machine;

inline Thread *self() { return machine.running; }
// Remember where emitted text called the machine.
#define TP_CALLED_HERE (self()->pc = __builtin_return_address(0))
uint32_t random_below(uint32_t n);
// Stop the running thread until `wake`; `what` and the numbers are for the report of a deadlock.
void block(const char *what, int64_t first = 0, int64_t second = 0);
void wake(Thread *thread);
void wake_all(std::vector<Thread *> &threads);

uint32_t agent_of_barrier(Block &owner, uint64_t *barrier);
// Returns the number of the phase, from 1, in which the bytes came.
uint32_t complete_bytes(Block &owner, uint64_t *barrier, int64_t bytes);
void arrive_at(Block &owner, uint64_t *barrier);
void arrived_knowing(Block &owner, uint64_t *barrier, const Known &known);
void check_for_load(Block &owner, uint64_t *barrier);

std::string describe(const Block &block, const Waiting &waiting);
void thread_ends(Thread *thread);  // barriers no longer count it
void copies_end(Thread *thread);
void products_end(Thread *thread);
// Something of the copy engine or of the tensor cores gets done; false: nothing was under way.
bool land_load();
void land_something();
bool multiply_part(WarpGroup &group, int warp);

}  // namespace tp_emulator
