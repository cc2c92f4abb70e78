// Buffers that CUPTI fills with records, used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tileprof {

class Buffers {
public:
  static constexpr size_t kMost = 128, kSpare = 4;

  void set_size(size_t bytes) { size_ = bytes; }
  // A buffer and its size; nullptr where there are too many already, and records will be dropped.
  uint8_t *take(size_t &size);
  void give_back(uint8_t *buffer);

private:
  std::mutex mutex_;
  std::vector<uint8_t *> spare_;
  size_t size_ = 2u << 20;
  size_t out_ = 0;
};

} // namespace tileprof
