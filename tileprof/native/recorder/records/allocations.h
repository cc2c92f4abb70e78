// Device memory that is allocated through the driver: what is live, and the most that was.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

namespace tileprof {

struct MemoryUse {
  uint64_t live = 0, peak = 0;  // bytes
  uint64_t allocated = 0, released = 0;  // bytes in all
  uint64_t allocations = 0, releases = 0;
};

class Allocations {
public:
  struct Place {
    uint32_t device, memory;  // number of the device, kind of the memory
    auto operator<=>(const Place &) const = default;
  };

  void allocate(Place place, uint64_t address, uint64_t bytes) {
    live_[{address, place.device}] = {bytes, place.memory};
    MemoryUse &use = uses_[place];
    ++use.allocations;
    use.allocated += bytes;
    use.live += bytes;
    if (use.live > use.peak) use.peak = use.live;
  }
  // Memory allocated before the recording began is not counted when it is released.
  void release(uint32_t device, uint64_t address) {
    auto found = live_.find({address, device});
    if (found == live_.end()) return;
    const auto [bytes, memory] = found->second;
    MemoryUse &use = uses_[{device, memory}];
    ++use.releases;
    use.released += bytes;
    use.live -= bytes < use.live ? bytes : use.live;
    live_.erase(found);
  }
  const std::map<Place, MemoryUse> &uses() const { return uses_; }

private:
  struct Key {
    uint64_t address;
    uint32_t device;
    bool operator==(const Key &) const = default;
  };
  struct Block {
    uint64_t bytes;
    uint32_t memory;
  };
  struct Hash {
    size_t operator()(const Key &key) const {
      return size_t((key.address >> 8 ^ key.device) * 0x9E3779B97F4A7C15u);
    }
  };
  std::map<Place, MemoryUse> uses_;
  std::unordered_map<Key, Block, Hash> live_;
};

} // namespace tileprof
