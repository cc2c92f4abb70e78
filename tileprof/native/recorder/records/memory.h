// Device memory by the place that allocated it: sums, lifetimes, what is alive, and what was alive
// at the peak.
//
// In: allocations and releases, one by one, from one source. Out: rows by pool, epoch and calling
// context, and the use of each pool over time. Memory grows with the blocks that are alive and with
// the places, not with the number of events. Not locked: see `FrameworkMemory` and `Activities`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "host/contexts.h"
#include "records/sketch.h"

namespace tileprof {

// What memory is allocated from: a device and a kind of memory, in CUPTI's numbers (3: device).
struct Pool {
  uint32_t device, kind;
  bool operator==(const Pool &) const = default;
};

// One pool's memory that was allocated in one place while the same sessions listened.
struct MemoryRow {
  uint32_t pool;      // place among the pools
  uint32_t epoch;     // 0: nobody listened, or it was allocated before the recording began
  ContextId context;
  uint64_t allocations = 0, allocated = 0;  // allocated: bytes
  uint64_t releases = 0, lifetime_ns = 0;   // of those that were allocated here
  uint64_t live = 0;                        // bytes
  // Bytes that were alive at the pool's peak of that number. A row that changes after a peak keeps
  // what it had then, and a higher peak makes what was kept worthless: so a peak costs nothing.
  uint64_t kept = 0, kept_at = UINT64_MAX;
  // Bytes alive at the end of the first step that counts, and of the last; how many steps' ends
  // had more than the one before, and how many less.
  uint64_t base = 0, step = 0;
  uint32_t grown = 0, shrunk = 0;
  Sketch lifetimes = {};
};

// Bytes that are handed out, and that the allocator has of the driver.
struct Used {
  uint64_t live = 0, reserved = 0;
  void raise_to(const Used &other) {
    live = std::max(live, other.live);
    reserved = std::max(reserved, other.reserved);
  }
};

// The most that was used in equal stretches of time, which double when there are too many.
class HighWater {
public:
  static constexpr size_t kMost = 4096;
  static constexpr uint64_t kShortest = 100'000;  // ns

  void set(uint64_t time_ns, const Used &used);
  // Goes on with the same until a time.
  void extend(uint64_t time_ns) {
    if (!most_.empty()) set(time_ns, last_);
  }
  uint64_t begin() const { return begin_; }
  uint64_t stretch() const { return stretch_; }
  const std::vector<Used> &most() const { return most_; }

private:
  uint64_t begin_ = 0, stretch_ = kShortest;
  Used last_;
  std::vector<Used> most_;
};

struct PoolUse {
  Pool pool;
  Used now = {}, most = {};
  uint64_t peaks = 0, peak_ns = 0;  // number and time of the peak, which is `most.live`
  uint64_t failures = 0, most_failed = 0;    // requests there was no memory for; bytes of the largest
  HighWater over_time = {};
};

// Rows with what was alive at the last peak as `kept`.
struct MemoryState {
  std::vector<PoolUse> pools;
  std::vector<MemoryRow> rows;
  uint32_t steps = 0;    // that have ended
  size_t blocks = 0;     // that are alive
};

class Memory {
public:
  void allocate(Pool pool, uint64_t address, uint64_t bytes, uint32_t epoch, ContextId context,
                uint64_t now);
  // Memory that was allocated before is not known by its address: its bytes, where they are told,
  // are taken from what was there then.
  void release(uint32_t device, uint64_t address, uint64_t bytes, uint64_t now);
  void reserve(Pool pool, uint64_t bytes, uint64_t now);
  void unreserve(Pool pool, uint64_t bytes, uint64_t now);
  void fail(Pool pool, uint64_t bytes);
  // So much is alive that was allocated before.
  void begin_with(Pool pool, uint64_t bytes, uint64_t now);
  // A step of the program ends.
  void end_step();
  // What is alive becomes memory from before the recording; everything else is forgotten.
  void begin_recording();

  // A copy of all that is known, until a time.
  MemoryState state(uint64_t now) const;

private:
  // Steps that pass until growth counts: the first ones make gradients, optimizers' states and
  // libraries' workspaces.
  static constexpr uint32_t kSettling = 2;

  struct Key {
    uint64_t high, low;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &key) const {
      uint64_t h = (key.high ^ key.low >> 8) * 0x9E3779B97F4A7C15u;
      return size_t((h ^ h >> 29 ^ key.low) * 0xC2B2AE3D27D4EB4Fu);
    }
  };
  struct Block {
    uint64_t bytes, since_ns;
    uint32_t row;
  };

  std::vector<PoolUse> pools_;
  std::vector<MemoryRow> rows_;
  std::unordered_map<Key, uint32_t, Hash> row_of_;
  std::unordered_map<Key, Block, Hash> blocks_;  // by device and address
  uint32_t steps_ = 0;

  static Key row_key(uint32_t pool, uint32_t epoch, ContextId context) {
    return {uint64_t(pool) << 32 | epoch, context};
  }
  uint32_t pool_of(Pool pool);
  uint32_t row_of(uint32_t pool, uint32_t epoch, ContextId context);
  void keep(MemoryRow &row);
  void add(uint32_t row, uint64_t bytes, uint64_t now);
  void take(MemoryRow &row, uint64_t bytes, uint64_t now);
};

} // namespace tileprof
