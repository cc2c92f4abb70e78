// Totals of devices' work by epoch, calling context and kind of work.
//
// In: one call per record, by the parser alone. Out: all totals at once, when a profile is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "host/contexts.h"
#include "records/pages.h"
#include "records/sketch.h"
#include "records/slab.h"

namespace tileprof {

// The numbers are part of the module's interface (`_recorder.WHATS`).
enum class What : uint8_t {
  kernel = 1,    // detail: number of the variant
  memcpy = 2,    // detail: see copy_detail
  memset = 3,    // detail: see memory_detail, 0 operation
  sync = 4,      // detail: what was waited for, see Wait
  overhead = 5,  // detail: kind of the overhead
  idle = 7,      // detail: reason | device << 16
};

// Direction and the kinds of memory, whether asynchronous, the device, the other device.
constexpr uint32_t copy_detail(uint32_t kind, uint32_t source, uint32_t target, bool async,
                               uint32_t device, uint32_t peer) {
  return (kind & 15) | (source & 15) << 4 | (target & 15) << 8 | uint32_t(async) << 12 |
         (device & 255) << 16 | (peer & 255) << 24;
}
constexpr uint32_t memory_detail(uint32_t memory, uint32_t operation, bool async, uint32_t device) {
  return (memory & 15) | (operation & 15) << 4 | uint32_t(async) << 12 | (device & 255) << 16;
}

struct TotalKey {
  uint32_t epoch;
  ContextId context;
  uint32_t detail;
  What what;
  bool operator==(const TotalKey &) const = default;
};

// Part of a total that ran on one stream, or on those after the first `kMost` that it ran on.
struct StreamPart {
  static constexpr size_t kMost = 64;
  static constexpr uint32_t kOthers = UINT32_MAX;  // number of these

  uint64_t stream;  // number of the device << 32 | number of the stream
  uint64_t count = 0, sum = 0;
};

struct Total {
  TotalKey key;
  uint64_t count = 0;    // of all, those without a time included
  uint64_t untimed = 0;  // whose times were not recorded
  uint64_t sum = 0, least = UINT64_MAX, most = 0;
  uint64_t slack = 0;  // part of `sum`, see Idle
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint32_t grid[3] = {};  // of the last launch
  Sketch sketch = {};
  SlabVector<StreamPart> streams = {};  // the one that ran last in front: mostly there is one

  void add_on(uint32_t device, uint32_t stream, uint64_t value) {
    const auto find = [&](uint64_t wanted) {
      size_t at = 0;
      while (at < streams.size() && streams[at].stream != wanted) ++at;
      return at;
    };
    uint64_t wanted = uint64_t(device) << 32 | stream;
    size_t at = find(wanted);
    if (at == streams.size() && at >= StreamPart::kMost)
      at = find(wanted = uint64_t(device) << 32 | StreamPart::kOthers);
    if (at == streams.size()) streams.push_back({wanted});
    if (at) std::swap(streams[0], streams[at]);
    ++streams[0].count;
    streams[0].sum += value;
  }
  void add(uint64_t value) {
    ++count;
    sum += value;
    if (value < least) least = value;
    if (value > most) most = value;
    sketch.add(value);
  }
  void add_untimed() {
    ++count;
    ++untimed;
  }
};

// Totals that were handed over, in memory that goes back to the system with them.
struct TakenTotals {
  std::unique_ptr<Slab> slab = std::make_unique<Slab>();  // outlives the rows, which are in it
  PageVector<Total> rows = {};

  size_t bytes() const { return (slab ? slab->bytes() : 0) + rows.capacity() * sizeof(Total); }
  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }
};

class Totals {
public:
  Totals();
  // The total of a key, made if it is new; stays valid until the next call.
  Total &at(const TotalKey &key);
  // Hands everything over and starts from zero.
  TakenTotals take();
  // Takes memory back that was handed over, for what comes after the next `take`.
  void give_back(TakenTotals &&taken);
  size_t size() const { return totals_.rows.size(); }
  // Of all that it holds, what was handed over left out.
  size_t bytes() const { return totals_.bytes() + spare_.bytes(); }

private:
  static constexpr size_t kPlaces = 1024;

  TakenTotals totals_;
  TakenTotals spare_{nullptr};  // without a slab: none
  PageVector<uint32_t> places_;  // 1 + index; open addressing, at most half full

  size_t first_place(const TotalKey &key) const;
  void grow();
};

} // namespace tileprof
