// The part of CUPTI's interface that samples program counters: structures and numbers, declared
// anew. Their layout is the same in CUPTI 12 and 13; each says its own size, so that later versions
// may add to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace cupti {

// -- attributes of a configuration
inline constexpr uint32_t kPeriod = 1, kStallReasons = 2, kScratchBytes = 3, kHardwareBytes = 4,
                          kMode = 5, kStartStop = 6, kDataBuffer = 8, kWorkerSleep = 9;
inline constexpr uint32_t kContinuous = 1, kSerialized = 2;
inline constexpr size_t kStallNameBytes = 128;

struct CubinCrc {
  size_t size = sizeof(CubinCrc);
  size_t bytes;
  const void *cubin;
  uint64_t crc;
};

struct StallCount {
  uint32_t reason, samples;
};

struct PcRecord {
  size_t size;
  uint64_t module;  // what the callback for cubins answered, else a sum that CUPTI works out
  uint64_t offset;
  uint32_t function, padding;
  char *name;
  size_t stalls;  // room before a read, how many there are after it
  StallCount *stall;
  uint32_t correlation;  // of serialized kernels
};

struct PcData {
  size_t size, room;
  uint64_t total, dropped;
  size_t records, remaining;
  uint64_t range;
  PcRecord *record;
  uint64_t non_user;
  uint8_t full;
};

struct PcAttribute {
  uint32_t type;
  CuptiResult status;
  union {
    uint64_t all[3];
    uint32_t number;
    size_t bytes;
    void *buffer;
    struct {
      size_t count;
      const uint32_t *indices;
    } stalls;
  };
};

// The parameters of enabling, disabling, starting and stopping; and those of the other functions,
// which begin in the same way.
struct PcParameters {
  size_t size;
  void *own, *context;
};
struct PcConfigure {
  size_t size;
  void *own, *context;
  size_t count;
  PcAttribute *attributes;
};
struct PcRead {
  size_t size;
  void *own, *context;
  PcData *data;
};
struct PcStallCount {
  size_t size;
  void *own, *context;
  size_t *count;
};
struct PcStallNames {
  size_t size;
  void *own, *context;
  size_t count;
  uint32_t *indices;
  char **names;
};

static_assert(sizeof(StallCount) == 8 && sizeof(PcRecord) == 64 && sizeof(PcData) == 80);
static_assert(sizeof(PcAttribute) == 32 && sizeof(PcConfigure) == 40 && sizeof(PcRead) == 32);
static_assert(sizeof(PcParameters) == 24 && sizeof(PcStallCount) == 32);
static_assert(sizeof(PcStallNames) == 48);

} // namespace cupti

// Room for what a read of samples hands over.
class PcBuffer {
public:
  PcBuffer(size_t records, size_t stalls)
      : stalls_(stalls), records_(records), counts_(records * stalls) {
    clear();
  }
  // Makes it ready for a read: the counts of stalls say how much room there is.
  void clear() {
    data_ = cupti::PcData{};
    data_.size = sizeof(data_);
    data_.room = records_.size();
    data_.record = records_.data();
    for (size_t i = 0; i < records_.size(); ++i) {
      records_[i] = cupti::PcRecord{};
      records_[i].size = sizeof(cupti::PcRecord);
      records_[i].stalls = stalls_;
      records_[i].stall = counts_.data() + i * stalls_;
    }
  }
  // Puts back what the last read changed, and no more: most of it is untouched.
  void rewind() {
    for (size_t i = 0; i < data_.records && i < records_.size(); ++i) {
      records_[i].stalls = stalls_;
      records_[i].name = nullptr;
    }
    data_.total = data_.dropped = data_.non_user = 0;
    data_.records = data_.remaining = 0;
    data_.full = 0;
  }
  cupti::PcData &data() { return data_; }
  // Number of records in it, while another thread may add some.
  size_t holds() const { return __atomic_load_n(&data_.records, __ATOMIC_ACQUIRE); }

private:
  size_t stalls_;
  std::vector<cupti::PcRecord> records_;
  std::vector<cupti::StallCount> counts_;
  cupti::PcData data_;
};

} // namespace tileprof
