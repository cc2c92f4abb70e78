// Quantiles of times or sizes: counts in buckets of which there are 32 between a power of two and
// the next, so that a value is known to 1.6 %; only buckets that hold something take room.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace tileprof {

class Sketch {
public:
  static constexpr uint32_t kBits = 5, kPerOctave = 1u << kBits;

  static uint16_t bucket_of(uint64_t value) {
    if (value < kPerOctave) return uint16_t(value);
    const uint32_t exponent = uint32_t(std::bit_width(value)) - 1;
    const uint32_t part = uint32_t(value >> (exponent - kBits)) & (kPerOctave - 1);
    return uint16_t(((exponent - kBits + 1) << kBits) + part);
  }
  // The middle of a bucket.
  static double value_of(uint16_t bucket) {
    if (bucket < kPerOctave) return bucket;
    const uint32_t shift = (bucket >> kBits) - 1;
    const double low = double(uint64_t(kPerOctave + (bucket & (kPerOctave - 1))) << shift);
    return low + 0.5 * double((uint64_t(1) << shift) - 1);
  }

  void add(uint64_t value) {
    const uint64_t bucket = bucket_of(value);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if ((entries_[i] & 0xFFFF) != bucket) continue;
      entries_[i] += kOne;
      // Frequent ones move to the front, where they are found at once.
      if (i) std::swap(entries_[i], entries_[i - 1]);
      return;
    }
    entries_.push_back(kOne | bucket);
  }

  // (count << 16 | bucket), in no order.
  const std::vector<uint64_t> &entries() const { return entries_; }

private:
  static constexpr uint64_t kOne = 1u << 16;
  std::vector<uint64_t> entries_;
};

} // namespace tileprof
