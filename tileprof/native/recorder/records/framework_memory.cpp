#include "records/framework_memory.h"

#include <new>

#include "host/host.h"

namespace tileprof {
namespace {

// Frameworks' allocators of devices know one kind of memory, CUPTI's number 3.
constexpr uint32_t kDeviceMemory = 3;

void pass_on(uint32_t event, uint32_t device, uint64_t address, uint64_t bytes) {
  try {
    framework_memory().event(event, device, address, bytes);
  } catch (...) {
    // No memory for a row: the event is lost, the program goes on.
  }
}

const TileprofMemory kTable = {TILEPROF_MEMORY_VERSION, pass_on};

} // namespace

FrameworkMemory &framework_memory() {
  static FrameworkMemory &one = *new FrameworkMemory;
  return one;
}

const TileprofMemory *memory_table() { return &kTable; }

void FrameworkMemory::event(uint32_t event, uint32_t device, uint64_t address, uint64_t bytes) {
  const Pool pool{device, kDeviceMemory};
  // Before the lock: the path is the thread's own affair.
  const bool placed = event == TILEPROF_ALLOCATED && !host::unrecorded();
  const uint32_t epoch = placed ? host::epoch() : 0;
  const ContextId context = epoch ? host::known_here() : 0;
  const uint64_t now = now_ns();
  std::lock_guard lock(mutex_);
  switch (event) {
  case TILEPROF_ALLOCATED: return memory_.allocate(pool, address, bytes, epoch, context, now);
  case TILEPROF_RELEASED: return memory_.release(device, address, bytes, now);
  case TILEPROF_RESERVED:
    if (claims_.size() < kMostClaims) ++claims_[address];
    return memory_.reserve(pool, bytes, now);
  case TILEPROF_MAPPED:
  case TILEPROF_RESERVED_BEFORE: return memory_.reserve(pool, bytes, now);
  case TILEPROF_RETURNED: return memory_.unreserve(pool, bytes, now);
  case TILEPROF_FAILED: return memory_.fail(pool, bytes);
  case TILEPROF_ALLOCATED_BEFORE: return memory_.begin_with(pool, bytes, now);
  }
}

void FrameworkMemory::end_step() {
  std::lock_guard lock(mutex_);
  memory_.end_step();
}

void FrameworkMemory::begin_recording() {
  std::lock_guard lock(mutex_);
  memory_.begin_recording();
}

void FrameworkMemory::forget() {
  std::lock_guard lock(mutex_);
  memory_ = Memory();
  claims_.clear();
}

bool FrameworkMemory::claims(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto found = claims_.find(address);
  if (found == claims_.end()) return false;
  if (!--found->second) claims_.erase(found);
  return true;
}

MemoryState FrameworkMemory::state() {
  std::lock_guard lock(mutex_);
  return memory_.state(now_ns());
}

void FrameworkMemory::after_fork() {
  new (&mutex_) std::mutex;
  // What another thread was changing cannot be freed safely: it stays where it is.
  new (&memory_) Memory;
  new (&claims_) std::unordered_map<uint64_t, uint32_t>;
}

} // namespace tileprof
