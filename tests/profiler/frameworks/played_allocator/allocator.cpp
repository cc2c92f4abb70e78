// An allocator of two devices that tells its trackers what a test says.
#include <c10/cuda/CUDACachingAllocator.h>

#include <stdexcept>
#include <vector>

namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using namespace c10::cuda::CUDACachingAllocator;

struct Played : CUDAAllocator {
  std::vector<AllocatorTraceTracker> trackers;
  bool refuses = false;

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    DeviceStats stats;
    stats.requested_bytes[0].current = device ? 0 : 700;
    stats.reserved_bytes[0].current = device ? 0 : 4096;
    return stats;
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    if (refuses) throw std::runtime_error("cudaMallocAsync has no trackers\nat some line");
    trackers.push_back(std::move(tracker));
  }
} played;

} // namespace

namespace c10::cuda {
DeviceIndex device_count() noexcept { return 2; }
namespace CUDACachingAllocator {
std::atomic<CUDAAllocator *> allocator{&played};
}
} // namespace c10::cuda

extern "C" {
void played_event(int action, int device, uint64_t address, uint64_t bytes) {
  const TraceEntry entry{TraceEntry::Action(action), c10::DeviceIndex(device), address, nullptr,
                         bytes, {}, "", ""};
  for (const auto &tracker : played.trackers) tracker(entry);
}
void played_refuses(int on) { played.refuses = on; }
int played_trackers() { return int(played.trackers.size()); }
}
