// Quantiles of times or sizes: counts in buckets of which there are 32 between a power of two and
// the next, so that a value is known to 1.6 %; only buckets that hold something take room. The
// buckets are those of profile/sketch.py.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include "records/slab.h"

namespace tileprof {

class Sketch {
public:
  using Entries = SlabVector<uint64_t>;

  Sketch() = default;
  explicit Sketch(Slab *slab) : entries_(Entries::allocator_type(slab)) {}

  static constexpr uint32_t kPerOctave = 32, kKeptBits = 6, kCountBits = 48;

  static uint16_t bucket_of(uint64_t value) {
    const uint32_t bits = uint32_t(std::bit_width(value));
    const uint32_t shift = bits > kKeptBits ? bits - kKeptBits : 0;
    return uint16_t(kPerOctave * shift + (value >> shift));
  }

  void add(uint64_t value) {
    const uint64_t bucket = bucket_of(value);
    // The entry last added to is often the next one's.
    if (last_ < entries_.size() && entries_[last_] >> kCountBits == bucket) {
      ++entries_[last_];
      return;
    }
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), bucket << kCountBits);
    last_ = size_t(at - entries_.begin());
    if (at != entries_.end() && *at >> kCountBits == bucket)
      ++*at;
    else
      entries_.insert(at, bucket << kCountBits | 1);
  }

  // Buckets in ascending order, each as bucket << kCountBits | count.
  const Entries &entries() const { return entries_; }

private:
  Entries entries_;
  size_t last_ = 0;
};

} // namespace tileprof
