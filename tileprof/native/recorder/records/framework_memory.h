// Memory that a framework's allocator hands out, with the lock that its threads share.
//
// In: the allocator's own events, through the table of `memory_api.h`. Out: see `Memory`; and which
// of the driver's allocations are the allocator's, so that nothing counts twice.
#pragma once

#include <mutex>
#include <unordered_map>

#include "records/memory.h"
#include "records/memory_api.h"

namespace tileprof {

class FrameworkMemory {
public:
  void event(uint32_t event, uint32_t device, uint64_t address, uint64_t bytes);
  void end_step();
  void begin_recording();
  // Nothing is known any more of what is alive: events were missed.
  void forget();
  // Whether the driver's allocation at an address was the allocator's; true once for each.
  bool claims(uint64_t address);
  MemoryState state();
  // Called in a forked child: another thread of the parent may have held the lock.
  void after_fork();

private:
  // Claims that no record of the driver answers, as while none are recorded, are bounded.
  static constexpr size_t kMostClaims = 65'536;

  std::mutex mutex_;
  Memory memory_;
  std::unordered_map<uint64_t, uint32_t> claims_;  // how many, by address
};

FrameworkMemory &framework_memory();  // never destroyed
const TileprofMemory *memory_table();

} // namespace tileprof
