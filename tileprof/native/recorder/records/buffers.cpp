#include "records/buffers.h"

#include <algorithm>

#include "records/pages.h"

namespace tileprof {

void Buffers::set_size(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes == size_) return;
  for (uint8_t *buffer : spare_) release(buffer, size_);
  spare_.clear();
  size_ = bytes;
}

// A new one; nullptr where there is no memory. The mutex is held.
uint8_t *Buffers::make() {
  const bool kept = out_ + spare_.size() < kKept;
  uint8_t *buffer = static_cast<uint8_t *>(take_pages(size_, kept));
  if (buffer) bytes_ += size_;
  return buffer;
}

void Buffers::prepare() {
  std::lock_guard lock(mutex_);
  spare_.reserve(kKept);
  const size_t wanted = std::min(kKept, 3 * out_);
  while (out_ + spare_.size() < wanted) {
    uint8_t *buffer = make();
    if (!buffer) return;
    spare_.push_back(buffer);
  }
}

uint8_t *Buffers::take(size_t &size) {
  std::lock_guard lock(mutex_);
  size = size_;
  if (out_ >= kMost) return nullptr;
  uint8_t *buffer = nullptr;
  if (!spare_.empty()) {
    buffer = spare_.back();
    spare_.pop_back();
  } else {
    buffer = make();
    if (!buffer) return nullptr;
  }
  ++out_;
  return buffer;
}

void Buffers::give_back(uint8_t *buffer, size_t size) {
  std::lock_guard lock(mutex_);
  if (out_) --out_;
  if (out_ + spare_.size() < kKept && size == size_)
    spare_.push_back(buffer);
  else
    release(buffer, size);
}

size_t Buffers::bytes() {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void Buffers::release(uint8_t *buffer, size_t size) {
  munmap(buffer, size);
  bytes_ -= size;
}

} // namespace tileprof
