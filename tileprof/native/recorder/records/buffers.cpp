#include "records/buffers.h"

#include <cstdlib>

namespace tileprof {

uint8_t *Buffers::take(size_t &size) {
  std::lock_guard lock(mutex_);
  size = size_;
  if (out_ >= kMost) return nullptr;
  uint8_t *buffer = nullptr;
  if (!spare_.empty()) {
    buffer = spare_.back();
    spare_.pop_back();
  } else {
    buffer = static_cast<uint8_t *>(std::aligned_alloc(4096, size_));
  }
  if (buffer) ++out_;
  return buffer;
}

void Buffers::give_back(uint8_t *buffer) {
  std::lock_guard lock(mutex_);
  if (out_) --out_;
  if (spare_.size() < kSpare)
    spare_.push_back(buffer);
  else
    std::free(buffer);
}

} // namespace tileprof
