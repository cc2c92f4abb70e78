// Events of PyTorch's allocator of CUDA memory, passed to the recorder.
//
// In: what the allocator hands out and takes back, and what it takes from the driver
// (c10::cuda::CUDACachingAllocator). Out: calls of the recorder's table.  Compiled on the machine
// where it runs against the headers of the PyTorch and the CUDA that are installed
// (profiler/frameworks/allocator.py); apart from the observer, which needs no header of CUDA. Plain
// C at its border, and it stays loaded once it is: the allocator lets go of no tracker.
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <type_traits>

#include "../recorder/records/memory_api.h"

namespace tileprof {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

std::atomic<const TileprofMemory *> listener{nullptr};  // nullptr: nobody listens

// Called under the allocator's lock, in the thread that allocates or releases.
template <typename Entry> void pass_on(const Entry &entry) {
  const TileprofMemory *table = listener.load(std::memory_order_acquire);
  if (!table) return;
  const auto event = [&](TileprofMemoryEvent kind) {
    table->event(kind, uint32_t(entry.device_), uint64_t(entry.addr_), uint64_t(entry.size_));
  };
  switch (entry.action_) {
  case Entry::ALLOC: return event(TILEPROF_ALLOCATED);
  // Not when it is asked for: until other streams have used it, the memory is not free.
  case Entry::FREE_COMPLETED: return event(TILEPROF_RELEASED);
  case Entry::SEGMENT_ALLOC: return event(TILEPROF_RESERVED);
  case Entry::SEGMENT_MAP: return event(TILEPROF_MAPPED);
  case Entry::SEGMENT_FREE:
  case Entry::SEGMENT_UNMAP: return event(TILEPROF_RETURNED);
  case Entry::OOM: return event(TILEPROF_FAILED);
  default: return;
  }
}

void tell_what_is_there(const TileprofMemory &table) {
  const auto devices = c10::cuda::device_count();
  for (int device = 0; device < int(devices); ++device) {
    const auto stats = allocator::getDeviceStats(c10::DeviceIndex(device));
    // Sums over small and large blocks come first.
    table.event(TILEPROF_ALLOCATED_BEFORE, uint32_t(device), 0,
                uint64_t(stats.requested_bytes[0].current));
    table.event(TILEPROF_RESERVED_BEFORE, uint32_t(device), 0,
                uint64_t(stats.reserved_bytes[0].current));
  }
}

} // namespace
} // namespace tileprof

extern "C" {

// Begins to pass events on; PyTorch has begun to use CUDA. Returns why not, nullptr where it does.
__attribute__((visibility("default"))) const char *
tileprof_memory_start(const TileprofMemory *table) {
  using namespace tileprof;
  static bool attached = false;
  static char problem[256];
  if (table->version != TILEPROF_MEMORY_VERSION) return "its recorder is of another version";
  try {
    tell_what_is_there(*table);
    listener.store(table, std::memory_order_release);
    if (!attached)
      allocator::attachAllocatorTraceTracker([](const auto &entry) { pass_on(entry); });
    attached = true;
    return nullptr;
  } catch (const std::exception &error) {
    std::snprintf(problem, sizeof(problem), "%s", error.what());
  } catch (...) {
    std::snprintf(problem, sizeof(problem), "PyTorch's allocator has no tracker");
  }
  listener.store(nullptr, std::memory_order_release);
  return problem;
}

__attribute__((visibility("default"))) void tileprof_memory_stop() {
  tileprof::listener.store(nullptr, std::memory_order_release);
}
}
