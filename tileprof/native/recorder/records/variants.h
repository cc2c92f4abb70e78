// Kernels that differ in name, block, registers, memory or device: numbered once, for good.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "host/contexts.h"

namespace tileprof {

struct Variant {
  NameId name;  // as the compiler wrote it, mangled
  uint32_t device;
  uint32_t block[3], cluster[3];
  uint32_t static_shared, dynamic_shared, local;  // bytes of a block, of a block, of a thread
  uint32_t registers;
  bool operator==(const Variant &) const = default;
};

class Variants {
public:
  // The variant that a kernel's record is of.
  uint32_t of_record(const uint8_t *record);
  // Says that addresses of names may have been given to other names since.
  void distrust_names() { ++trust_; }
  const std::vector<Variant> &all() const { return all_; }

private:
  struct Hash {
    size_t operator()(const Variant &variant) const;
  };
  // The description of a variant in a record, and which variant it is.
  struct Recent {
    uint64_t words[6] = {};
    uint32_t trust = 0, number = 0;
  };
  static constexpr size_t kRecent = 4096, kWays = 4;

  std::vector<Variant> all_;
  std::unordered_map<Variant, uint32_t, Hash> numbers_;
  std::unique_ptr<Recent[]> recent_{new Recent[kRecent]};
  uint32_t trust_ = 1;

  uint32_t number_of(const uint8_t *record);
};

} // namespace tileprof
