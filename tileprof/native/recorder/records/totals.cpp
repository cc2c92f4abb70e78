#include "records/totals.h"

namespace tileprof {

Totals::Totals() : places_(1024) {}

size_t Totals::first_place(const TotalKey &key) const {
  uint64_t hash = (uint64_t(key.context) << 32 | key.detail) * 0x9E3779B97F4A7C15u;
  hash ^= (uint64_t(key.epoch) << 8 | uint64_t(key.what)) * 0xC2B2AE3D27D4EB4Fu;
  return size_t(hash ^ hash >> 32) & (places_.size() - 1);
}

Total &Totals::at(const TotalKey &key) {
  size_t place = first_place(key);
  for (; places_[place]; place = (place + 1) & (places_.size() - 1)) {
    Total &total = totals_[places_[place] - 1];
    if (total.key == key) return total;
  }
  totals_.push_back(Total{key});
  places_[place] = uint32_t(totals_.size());
  if (totals_.size() * 2 > places_.size()) grow();
  return totals_.back();
}

void Totals::grow() {
  places_.assign(places_.size() * 2, 0);
  for (size_t i = 0; i < totals_.size(); ++i) {
    size_t place = first_place(totals_[i].key);
    while (places_[place]) place = (place + 1) & (places_.size() - 1);
    places_[place] = uint32_t(i + 1);
  }
}

std::vector<Total> Totals::take() {
  std::vector<Total> taken = std::move(totals_);
  totals_ = {};
  places_.assign(1024, 0);
  return taken;
}

} // namespace tileprof
