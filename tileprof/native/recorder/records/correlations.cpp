#include "records/correlations.h"

#include <cstdlib>
#include <new>

#include "records/pages.h"

namespace tileprof {
namespace {

template <typename T> T *zeroed(size_t count) {
  void *memory = std::calloc(count, sizeof(T));
  if (!memory) throw std::bad_alloc();
  return static_cast<T *>(memory);
}

} // namespace

Correlations::Correlations()
    : slots_(zeroed<Slot>(kSlots), std::free), kept_(zeroed<Kept>(kSets * kWays), std::free) {}

void Correlations::put(uint32_t correlation, const Launch &launch) {
  Slot &slot = slots_[correlation % kSlots];
  // Memory that a later launch writes to, which no cache holds any more.
  __builtin_prefetch(&slots_[(correlation + kAhead) % kSlots], 1);
  uint64_t state = slot.state.load(std::memory_order_acquire);
  Launch former;
  // Kept before it is overwritten, so that its record finds it at any time.
  if ((state & kWanted) && load(slot, state, former))
    keep(uint32_t(state >> 3), former, state & kUsed);
  if ((state & kBusy) ||
      !slot.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel)) {
    keep(correlation, launch, false);  // another thread is at this slot at this moment
    return;
  }
  slot.entered.store(launch.entered_ns << 8 | uint64_t(launch.kind) << 4 | uint64_t(launch.blocked),
                     std::memory_order_release);
  slot.where.store(uint64_t(launch.epoch) << 32 | launch.context, std::memory_order_release);
  slot.blocked_until.store(launch.blocked_until_ns, std::memory_order_release);
  // Also where nobody records: a record that is not recognised would count as the program's.
  slot.state.store(state_of(correlation) | kWanted, std::memory_order_release);
}

// Reads a slot; false where another launch was written meanwhile.
bool Correlations::load(const Slot &slot, uint64_t state, Launch &into) {
  const uint64_t entered = slot.entered.load(std::memory_order_acquire);
  const uint64_t where = slot.where.load(std::memory_order_acquire);
  into.blocked_until_ns = slot.blocked_until.load(std::memory_order_acquire);
  into.entered_ns = entered >> 8;
  into.kind = CallKind(entered >> 4 & 15);
  into.blocked = Blocked(entered & 15);
  into.epoch = uint32_t(where >> 32);
  into.context = ContextId(where);
  return (slot.state.load(std::memory_order_relaxed) | kFlags) == (state | kFlags);
}

bool Correlations::find_slot(uint32_t correlation, Launch &into, bool last, bool &first) {
  Slot &slot = slots_[correlation % kSlots];
  uint64_t state = slot.state.load(std::memory_order_acquire);
  first = false;
  if (!correlation || (state & ~(kWanted | kUsed)) != state_of(correlation) ||
      !load(slot, state, into))
    return false;
  const bool unseen = (state & kWanted) && !(state & kUsed);
  const uint64_t seen = last ? state_of(correlation) : state | kUsed;
  first = seen != state &&
          slot.state.compare_exchange_strong(state, seen, std::memory_order_relaxed) && unseen;
  return true;
}

bool Correlations::find(uint32_t correlation, Launch &into, bool last) {
  bool first = false;
  if (!find_slot(correlation, into, last, first)) return find_kept(correlation, into);
  if (first && awaited(into))
    read_.store(read_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

bool Correlations::peek(uint32_t correlation, Launch &into) {
  const Slot &slot = slots_[correlation % kSlots];
  const uint64_t state = slot.state.load(std::memory_order_acquire);
  if (correlation && (state & ~(kWanted | kUsed)) == state_of(correlation) &&
      load(slot, state, into))
    return true;
  std::lock_guard lock(mutex_);
  const Kept *set = kept(correlation);
  for (const Kept *entry = set; entry < set + kWays; ++entry)
    if (entry->age && entry->correlation == correlation) {
      into = entry->launch;
      return true;
    }
  return false;
}

void Correlations::forget(uint32_t correlation) {
  Launch launch;
  bool first = false;
  if (!find_slot(correlation, launch, true, first))
    find_kept(correlation, launch);
  else if (first && awaited(launch))
    settled_.fetch_add(1, std::memory_order_relaxed);
}

// -- what was kept

Correlations::Kept *Correlations::kept(uint32_t correlation) {
  return &kept_[size_t((correlation * 0x9E3779B1u) >> 19) % kSets * kWays];
}

// The loss without it: nothing, records that may yet come, a kernel's context.
std::pair<int, uint64_t> Correlations::worth(const Kept &entry) {
  const int rank = !entry.age ? 0 : entry.used ? 1 : !awaited(entry.launch) ? 2 : 3;
  return {rank, entry.age};
}

void Correlations::keep(uint32_t correlation, const Launch &launch, bool used) {
  std::lock_guard lock(mutex_);
  if (!age_) make_resident(kept_.get(), kSets * kWays * sizeof(Kept));
  Kept *set = kept(correlation), *least = set;
  for (Kept *entry = set; entry < set + kWays; ++entry) {
    if (entry->age && entry->correlation == correlation) return;
    if (worth(*entry) < worth(*least)) least = entry;
  }
  if (least->age && !least->used && awaited(least->launch)) {
    evicted_.fetch_add(1, std::memory_order_relaxed);
    settled_.fetch_add(1, std::memory_order_relaxed);
  }
  *least = Kept{++age_, correlation, used, launch};
}

bool Correlations::find_kept(uint32_t correlation, Launch &into) {
  std::lock_guard lock(mutex_);
  Kept *set = kept(correlation);
  for (Kept *entry = set; entry < set + kWays; ++entry) {
    if (!entry->age || entry->correlation != correlation) continue;
    into = entry->launch;
    if (!entry->used) settled_.fetch_add(awaited(into), std::memory_order_relaxed);
    entry->used = true;
    return true;
  }
  return false;
}

} // namespace tileprof
