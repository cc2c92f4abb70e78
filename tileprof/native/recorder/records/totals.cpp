#include "records/totals.h"

namespace tileprof {

Totals::Totals() : places_(kPlaces) {}

size_t Totals::first_place(const TotalKey &key) const {
  uint64_t hash = (uint64_t(key.context) << 32 | key.detail) * 0x9E3779B97F4A7C15u;
  hash ^= (uint64_t(key.epoch) << 8 | uint64_t(key.what)) * 0xC2B2AE3D27D4EB4Fu;
  return size_t(hash ^ hash >> 32) & (places_.size() - 1);
}

Total &Totals::at(const TotalKey &key) {
  size_t place = first_place(key);
  for (; places_[place]; place = (place + 1) & (places_.size() - 1)) {
    Total &total = totals_.rows[places_[place] - 1];
    if (total.key == key) return total;
  }
  PageVector<Total> &rows = totals_.rows;
  // Half as many as there are places: they grow together.
  rows.reserve(places_.size() / 2);
  Slab *slab = totals_.slab.get();
  rows.push_back(Total{.key = key, .sketch = Sketch(slab),
                       .streams = SlabVector<StreamPart>(SlabAllocator<StreamPart>(slab))});
  places_[place] = uint32_t(rows.size());
  if (rows.size() * 2 > places_.size()) grow();
  return rows.back();
}

void Totals::grow() {
  places_.assign(places_.size() * 2, 0);
  for (size_t i = 0; i < totals_.rows.size(); ++i) {
    size_t place = first_place(totals_.rows[i].key);
    while (places_[place]) place = (place + 1) & (places_.size() - 1);
    places_[place] = uint32_t(i + 1);
  }
}

TakenTotals Totals::take() {
  TakenTotals taken = std::exchange(totals_, spare_.slab ? std::move(spare_) : TakenTotals());
  places_.assign(places_.size(), 0);
  return taken;
}

void Totals::give_back(TakenTotals &&taken) {
  taken.rows.clear();  // before what they are in
  taken.slab->reset();
  if (!spare_.slab) spare_ = std::move(taken);
}

} // namespace tileprof
