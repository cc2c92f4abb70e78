#include "records/memory.h"

#include <algorithm>
#include <utility>

namespace tileprof {

// -- over time

void HighWater::set(uint64_t time_ns, const Used &used) {
  if (most_.empty()) {
    begin_ = time_ns;
    most_.push_back(used);
  }
  // Threads may bring their times out of order.
  uint64_t at = (std::max(time_ns, begin_) - begin_) / stretch_;
  while (at >= kMost) {
    for (size_t i = 0; i < most_.size(); ++i)
      i % 2 ? most_[i / 2].raise_to(most_[i]) : void(most_[i / 2] = most_[i]);
    most_.resize((most_.size() + 1) / 2);
    stretch_ *= 2;
    at /= 2;
  }
  if (at >= most_.size()) most_.resize(at + 1, last_);
  most_.back().raise_to(used);
  last_ = used;
}

// -- places

uint32_t Memory::pool_of(Pool pool) {
  for (uint32_t i = 0; i < pools_.size(); ++i)
    if (pools_[i].pool == pool) return i;
  pools_.push_back({pool});
  return uint32_t(pools_.size() - 1);
}

uint32_t Memory::row_of(uint32_t pool, uint32_t epoch, ContextId context) {
  const Key key = row_key(pool, epoch, context);
  const auto found = row_of_.find(key);
  if (found != row_of_.end()) return found->second;
  const uint32_t row = uint32_t(rows_.size());
  rows_.push_back({pool, epoch, context});
  row_of_.emplace(key, row);
  return row;
}

// -- what is alive

void Memory::keep(MemoryRow &row) {
  const uint64_t peaks = pools_[row.pool].peaks;
  if (row.kept_at == peaks) return;
  row.kept = row.live;
  row.kept_at = peaks;
}

void Memory::add(uint32_t at, uint64_t bytes, uint64_t now) {
  MemoryRow &row = rows_[at];
  PoolUse &use = pools_[row.pool];
  use.now.live += bytes;
  if (use.now.live > use.most.live) {
    use.most.live = use.now.live;
    use.peak_ns = now;
    ++use.peaks;
  } else {
    keep(row);
  }
  row.live += bytes;
  use.over_time.set(now, use.now);
}

void Memory::take(MemoryRow &row, uint64_t bytes, uint64_t now) {
  PoolUse &use = pools_[row.pool];
  keep(row);
  bytes = std::min(bytes, row.live);
  row.live -= bytes;
  use.now.live -= bytes;
  use.over_time.set(now, use.now);
}

void Memory::allocate(Pool pool, uint64_t address, uint64_t bytes, uint32_t epoch,
                      ContextId context, uint64_t now) {
  const Key key{pool.device, address};
  // Its release was not seen.
  if (blocks_.contains(key)) release(pool.device, address, bytes, now);
  const uint32_t row = row_of(pool_of(pool), epoch, context);
  blocks_[key] = {bytes, now, row};
  ++rows_[row].allocations;
  rows_[row].allocated += bytes;
  add(row, bytes, now);
}

void Memory::release(uint32_t device, uint64_t address, uint64_t bytes, uint64_t now) {
  const auto found = blocks_.find({device, address});
  if (found == blocks_.end()) {
    for (uint32_t pool = 0; pool < pools_.size(); ++pool)
      if (const auto before = row_of_.find(row_key(pool, 0, 0));
          pools_[pool].pool.device == device && before != row_of_.end())
        return take(rows_[before->second], bytes, now);
    return;
  }
  const Block block = found->second;
  blocks_.erase(found);
  MemoryRow &row = rows_[block.row];
  const uint64_t lifetime = now - std::min(now, block.since_ns);
  ++row.releases;
  row.lifetime_ns += lifetime;
  row.lifetimes.add(lifetime);
  take(row, block.bytes, now);
}

void Memory::begin_with(Pool pool, uint64_t bytes, uint64_t now) {
  if (bytes) add(row_of(pool_of(pool), 0, 0), bytes, now);
}

void Memory::reserve(Pool pool, uint64_t bytes, uint64_t now) {
  PoolUse &use = pools_[pool_of(pool)];
  use.now.reserved += bytes;
  use.most.reserved = std::max(use.most.reserved, use.now.reserved);
  use.over_time.set(now, use.now);
}

void Memory::unreserve(Pool pool, uint64_t bytes, uint64_t now) {
  PoolUse &use = pools_[pool_of(pool)];
  use.now.reserved -= std::min(bytes, use.now.reserved);
  use.over_time.set(now, use.now);
}

void Memory::fail(Pool pool, uint64_t bytes) {
  PoolUse &use = pools_[pool_of(pool)];
  ++use.failures;
  use.most_failed = std::max(use.most_failed, bytes);
}

MemoryState Memory::state(uint64_t now) const {
  MemoryState state{pools_, rows_, steps_, blocks_.size()};
  for (MemoryRow &row : state.rows)
    if (row.kept_at != pools_[row.pool].peaks) row.kept = row.live;
  for (PoolUse &use : state.pools) use.over_time.extend(now);
  return state;
}

// -- steps and recordings

void Memory::end_step() {
  ++steps_;
  for (MemoryRow &row : rows_) {
    if (steps_ <= kSettling) {
      row.base = row.step = row.live;
      continue;
    }
    row.grown += row.live > row.step;
    row.shrunk += row.live < row.step;
    row.step = row.live;
  }
}

void Memory::begin_recording() {
  const std::vector<PoolUse> pools = std::exchange(pools_, {});
  const std::vector<MemoryRow> rows = std::exchange(rows_, {});
  row_of_.clear();
  steps_ = 0;
  for (const PoolUse &use : pools) {
    PoolUse &fresh = pools_.emplace_back(PoolUse{use.pool});
    fresh.now = fresh.most = use.now;
    // The row of that number, for all that is alive in the pool.
    rows_[row_of(uint32_t(pools_.size() - 1), 0, 0)].live = use.now.live;
  }
  for (auto &[key, block] : blocks_) block.row = rows[block.row].pool;
}

} // namespace tileprof
