#include "records/variants.h"

#include <cstring>

#include "cupti/cupti_api.h"
#include "host/host.h"

namespace tileprof {

size_t Variants::Hash::operator()(const Variant &variant) const {
  static_assert(sizeof(Variant) == 48);
  uint64_t words[6], hash = 0;
  std::memcpy(words, &variant, sizeof(words));
  for (uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  return hash;
}

uint32_t Variants::number_of(const uint8_t *record) {
  using At = cupti::KernelRecord;
  const char *name = cupti::read<const char *>(record, At::name);
  Variant variant{};
  variant.name = host::names().intern(name ? name : "");
  variant.device = cupti::read<uint32_t>(record, At::device);
  std::memcpy(variant.block, record + At::block, 12);
  std::memcpy(variant.cluster, record + At::cluster, 12);
  variant.static_shared = cupti::read<uint32_t>(record, At::static_shared);
  variant.dynamic_shared = cupti::read<uint32_t>(record, At::dynamic_shared);
  variant.local = cupti::read<uint32_t>(record, At::local);
  variant.registers = cupti::read<uint16_t>(record, At::registers);
  auto [entry, fresh] = numbers_.try_emplace(variant, uint32_t(all_.size()));
  if (fresh) all_.push_back(variant);
  return entry->second;
}

// Within a buffer, the address of a name stands for it; across buffers its module may have gone.
uint32_t Variants::of_record(const uint8_t *record) {
  using At = cupti::KernelRecord;
  static_assert(At::static_shared == At::block + 12 && At::local == At::block + 20);
  uint64_t words[6];
  words[0] = cupti::read<uint64_t>(record, At::name);
  std::memcpy(words + 1, record + At::block, 24);
  std::memcpy(words + 4, record + At::cluster, 8);
  words[5] = uint64_t(cupti::read<uint32_t>(record, At::device)) << 48 |
             uint64_t(cupti::read<uint16_t>(record, At::registers)) << 32 |
             cupti::read<uint32_t>(record, At::cluster + 8);
  uint64_t hash = words[0] * 0x9E3779B97F4A7C15u ^ words[1] * 0xC2B2AE3D27D4EB4Fu ^
                  words[2] * 0x165667B19E3779F9u ^ words[3] * 0xD6E8FEB86659FD93u ^ words[5];
  Recent *set = &recent_[(hash >> 32) % (kRecent / kWays) * kWays], *stale = set;
  for (Recent *recent = set; recent < set + kWays; ++recent) {
    if (recent->trust != trust_)
      stale = recent;
    else if (std::memcmp(recent->words, words, sizeof(words)) == 0)
      return recent->number;
  }
  std::memcpy(stale->words, words, sizeof(words));
  stale->number = number_of(record);
  stale->trust = trust_;
  return stale->number;
}

} // namespace tileprof
