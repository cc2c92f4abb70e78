// Modules that a program loads onto GPUs: a number for each, and its cubin.
//
// In: CUPTI's question for a checksum of each cubin, on the thread that loads it. Out: the answer,
// which comes back with each sample, and the bytes. A module that was loaded before the question
// was wanted has a number too, but no bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tileprof {

class PcModules {
public:
  static constexpr size_t kMostBytes = 256u << 20;

  // The answer for a cubin: the same for the same bytes.
  uint64_t answer(const void *cubin, size_t size);
  // The number of the module that an answer, or a checksum of CUPTI's own, stands for; from 1 on.
  uint32_t number_of(uint64_t answer);
  // The same, of an answer of which CUPTI has kept 32 bits.
  uint32_t number_of_part(uint32_t answer);
  // Its cubin; empty where it is not known.
  std::string cubin(uint32_t number);
  // CUPTI's own checksum of a module that was loaded before; 0 of all others.
  uint64_t foreign(uint32_t number);
  // Cubins that were not kept, for there were too many.
  uint64_t left_out();

private:
  // Mark of our answers: CUPTI's checksums have 32 bits.
  static constexpr uint64_t kOurs = uint64_t(0x7470) << 32;

  std::mutex mutex_;
  std::vector<std::string> cubins_;  // by number, from 1 on
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
  std::unordered_map<uint64_t, uint32_t> foreign_;
  size_t bytes_ = 0;
  uint64_t left_out_ = 0;
};

} // namespace tileprof
