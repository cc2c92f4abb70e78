// What the watcher uses of PyTorch's header of this name, with the types and names that it has in
// PyTorch 2.11 and 2.13 (there the part up to the tracker is c10/core/CachingDeviceAllocator.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace c10 {
using DeviceIndex = int8_t;
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

namespace CachingAllocator {
struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
using StatArray = std::array<Stat, 3>;
} // namespace CachingAllocator

namespace CachingDeviceAllocator {
struct DeviceStats {
  CachingAllocator::StatArray reserved_bytes, requested_bytes;
};
struct TraceEntry {
  enum Action {
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OOM
  };
  Action action_;
  DeviceIndex device_;
  size_t addr_;
  void *stream_{};
  size_t size_;
  MempoolId_t mempool_;
  std::string compile_context_, user_metadata_;
};
using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;
} // namespace CachingDeviceAllocator

namespace cuda {
DeviceIndex device_count() noexcept;

namespace CUDACachingAllocator {
using c10::CachingDeviceAllocator::AllocatorTraceTracker;
using c10::CachingDeviceAllocator::TraceEntry;

class CUDAAllocator {
public:
  virtual ~CUDAAllocator() = default;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
  virtual void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) = 0;
};
extern std::atomic<CUDAAllocator *> allocator;
inline CUDAAllocator *get() { return allocator.load(); }
inline CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) {
  return get()->getDeviceStats(device);
}
inline void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  get()->attachAllocatorTraceTracker(std::move(tracker));
}
} // namespace CUDACachingAllocator
} // namespace cuda
} // namespace c10
