#include "variants.h"

#include <cstring>

#include "cupti_api.h"
#include "recorder.h"

namespace tileprof {

size_t Variants::Hash::operator()(const Variant &variant) const {
  static_assert(sizeof(Variant) == 48);
  uint64_t words[6], hash = 0;
  std::memcpy(words, &variant, sizeof(words));
  for (uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  return hash;
}

// Addresses stand for names within a buffer; across buffers a module may have gone.
NameId Variants::name_of(const char *text) {
  if (!text) text = "";
  Name &known = names_[(uintptr_t(text) * 0x9E3779B97F4A7C15u >> 32) % kRecent];
  if (known.text == text && known.trust == trust_) return known.id;
  known = {text, recorder().names.intern(text), trust_};
  return known.id;
}

uint32_t Variants::of_record(const uint8_t *record) {
  using At = cupti::KernelRecord;
  Variant variant{};
  variant.name = name_of(cupti::read<const char *>(record, At::name));
  variant.device = cupti::read<uint32_t>(record, At::device);
  std::memcpy(variant.block, record + At::block, 12);
  std::memcpy(variant.cluster, record + At::cluster, 12);
  variant.static_shared = cupti::read<uint32_t>(record, At::static_shared);
  variant.dynamic_shared = cupti::read<uint32_t>(record, At::dynamic_shared);
  variant.local = cupti::read<uint32_t>(record, At::local);
  variant.registers = cupti::read<uint16_t>(record, At::registers);

  uint32_t &recent = recent_[Hash()(variant) % kRecent];
  if (recent && all_[recent - 1] == variant) return recent - 1;
  auto [entry, fresh] = numbers_.try_emplace(variant, uint32_t(all_.size()));
  if (fresh) all_.push_back(variant);
  recent = entry->second + 1;
  return entry->second;
}

} // namespace tileprof
