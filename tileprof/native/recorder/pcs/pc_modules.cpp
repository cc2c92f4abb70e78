#include "pcs/pc_modules.h"

#include <cstring>

namespace tileprof {
namespace {

// Hashes megabytes at gigabytes per second; cubins with the same hash are compared.
uint64_t hash_of(const void *bytes, size_t size) {
  const uint8_t *at = static_cast<const uint8_t *>(bytes);
  uint64_t hash = 0x9E3779B97F4A7C15u;
  auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  };
  // On its own: combined with the first word, one byte of 1 would hash as no bytes do.
  mix(size);
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, at, size);
  mix(rest);
  return hash;
}

} // namespace

uint64_t PcModules::answer(const void *cubin, size_t size) {
  const uint64_t hash = hash_of(cubin, size);
  std::lock_guard lock(mutex_);
  std::vector<uint32_t> &alike = by_hash_[hash];
  for (uint32_t number : alike) {
    const std::string &known = cubins_[number - 1];
    // A cubin that was not kept has only its hash.
    if (known.empty() || (known.size() == size && !std::memcmp(known.data(), cubin, size)))
      return kOurs | number;
  }
  const bool fits = bytes_ + size <= kMostBytes;
  cubins_.emplace_back(static_cast<const char *>(cubin), fits ? size : 0);
  bytes_ += fits ? size : 0;
  left_out_ += !fits;
  alike.push_back(uint32_t(cubins_.size()));
  return kOurs | alike.back();
}

uint32_t PcModules::number_of(uint64_t answer) {
  std::lock_guard lock(mutex_);
  const uint32_t number = uint32_t(answer);
  if ((answer ^ number) == kOurs && number && number <= cubins_.size()) return number;
  uint32_t &foreign = foreign_[answer];
  if (!foreign) {
    cubins_.emplace_back();
    foreign = uint32_t(cubins_.size());
  }
  return foreign;
}

uint32_t PcModules::number_of_part(uint32_t answer) {
  {
    // A checksum of CUPTI's own is hardly ever as small as the number of a module.
    std::lock_guard lock(mutex_);
    if (answer && answer <= cubins_.size() && !cubins_[answer - 1].empty()) return answer;
  }
  return number_of(answer);
}

std::string PcModules::cubin(uint32_t number) {
  std::lock_guard lock(mutex_);
  return number && number <= cubins_.size() ? cubins_[number - 1] : std::string();
}

uint64_t PcModules::foreign(uint32_t number) {
  std::lock_guard lock(mutex_);
  for (const auto &[answer, held] : foreign_)
    if (held == number) return answer;
  return 0;
}

uint64_t PcModules::left_out() {
  std::lock_guard lock(mutex_);
  return left_out_;
}

} // namespace tileprof
