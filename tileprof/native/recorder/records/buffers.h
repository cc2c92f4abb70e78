// Buffers that CUPTI fills with records, used again and again.
//
// They are pages of their own: the threads that take buffers and the one that gives them back have
// different heaps, in which malloc finds less and less room of this size (8 threads, 4 million
// records: 112 MB that were free and stayed resident).  They are resident from the begin: how full
// CUPTI makes them differs, so memory would grow for minutes to what the fullest have held.  When
// CUPTI hands records over, each thread that launches takes another buffer at once, and some are not
// given back by then.  So there are three times as many as CUPTI has before that, at most as many as
// 8 threads need: how many there are is settled after the first time, not after the worst of many.
// A burst's buffers go back to the system, and take memory only as far as they are filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tileprof {

class Buffers {
public:
  // Bytes.  Each thread that launches has a buffer; what is not full of 8 threads is 4 MB.
  static constexpr size_t kSize = 512u << 10;
  static constexpr size_t kMost = 512, kKept = 24;

  void set_size(size_t bytes);
  // Before records are handed over: takes what will be asked for.
  void prepare();
  // A buffer and its size; nullptr where there are too many already, and records will be dropped.
  uint8_t *take(size_t &size);
  // The size is the one from `take`.
  void give_back(uint8_t *buffer, size_t size);
  // Bytes of all buffers, those included that CUPTI has.
  size_t bytes();

private:
  std::mutex mutex_;
  std::vector<uint8_t *> spare_;
  size_t size_ = kSize;
  size_t out_ = 0, bytes_ = 0;

  uint8_t *make();
  void release(uint8_t *buffer, size_t size);
};

} // namespace tileprof
