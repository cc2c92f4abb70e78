#include "records/activities.h"

#include <cstdlib>

#include "host/host.h"
#include "records/framework_memory.h"

namespace tileprof {

using cupti::read;

void Activities::begin(const Cupti &cupti, uint64_t wanted_kinds, size_t timeline) {
  std::lock_guard lock(mutex_);
  cupti_ = cupti;
  wanted_ = wanted_kinds;
  checked_ = false;
  last_correlation_ = 0;
  timeline_.limit(timeline);
}

// -- walking a buffer

void Activities::parse(const uint8_t *buffer, size_t valid) {
  std::lock_guard lock(mutex_);
  if (!checked_) check_sizes(buffer, valid);
  variants_.distrust_names();
  const uint8_t *record = buffer, *end = buffer + valid;
  const uint64_t before = counts_.records;
  while (record + 8 <= end) {
    const uint32_t kind = read<uint32_t>(record, 0);
    const uint8_t *next = after(buffer, valid, record, kind);
    if (!next) {
      ++counts_.unreadable;
      break;
    }
    ++counts_.records;
    // Asking for what comes in five records' time saves a tenth of the reading.
    for (size_t line = 0; line < 256; line += 64) __builtin_prefetch(record + 1024 + line);
    take(record, kind);
    record = next;
  }
  records_seen_.fetch_add(counts_.records - before, std::memory_order_relaxed);
}

// Compares the lengths that are known with the library's own walk over the first buffer.
void Activities::check_sizes(const uint8_t *buffer, size_t valid) {
  uint8_t *base = const_cast<uint8_t *>(buffer);
  void *record = nullptr;
  for (int step = 0; step < 64; ++step) {
    if (cupti_.next_record(base, valid, &record) != cupti::kSuccess) break;
    const uint8_t *at = static_cast<uint8_t *>(record);
    const uint32_t kind = read<uint32_t>(at, 0);
    void *next = record;
    if (cupti_.next_record(base, valid, &next) != cupti::kSuccess || kind >= cupti::kKinds)
      continue;
    const uint32_t size = uint32_t(static_cast<uint8_t *>(next) - at);
    if (size != cupti_.record_sizes[kind]) cupti_.record_sizes[kind] = 0;
  }
  checked_ = valid > 0;
}

// The end of a record; nullptr where that is unknown, beyond the buffer, or before the end of the
// fields that are read. Lengths from the library are long enough (ask_record_sizes).
const uint8_t *Activities::after(const uint8_t *buffer, size_t valid, const uint8_t *record,
                                 uint32_t kind) {
  const uint8_t *end = buffer + valid;
  if (kind < cupti::kKinds && cupti_.record_sizes[kind]) {
    const uint8_t *next = record + cupti_.record_sizes[kind];
    return next <= end ? next : nullptr;
  }
  uint8_t *base = const_cast<uint8_t *>(buffer);
  void *next = const_cast<uint8_t *>(record);
  // At the last record the library only says that there is none behind it.
  const CuptiResult result = cupti_.next_record(base, valid, &next);
  if (result != cupti::kSuccess && result != cupti::kNoMore) return nullptr;
  const uint8_t *until = result == cupti::kNoMore ? end : static_cast<uint8_t *>(next);
  if (!kind || until <= record || until > end) return nullptr;
  return size_t(until - record) >= cupti::least_bytes(kind) ? until : nullptr;
}

void Activities::take(const uint8_t *record, uint32_t kind) {
  if (kind >= cupti::kKinds || !(wanted_ >> kind & 1)) ++counts_.foreign;
  switch (kind) {
  case cupti::kKernel:
  case cupti::kSerialKernel: return kernel(record);
  case cupti::kMemcpy: return memcpy_(record, false);
  case cupti::kMemcpyPeer: return memcpy_(record, true);
  case cupti::kMemset: return memset_(record);
  case cupti::kOverhead: return overhead(record, cupti_.record_sizes[kind]);
  case cupti::kMemory: return memory(record);
  }
}

// -- where a record belongs

Activities::Place Activities::place_of(uint32_t correlation, uint64_t node) {
  // A replay's records follow each other, and have the number of its launch.
  if (!correlation || correlation != last_correlation_) {
    last_ = Place{};
    last_.known = correlations_.find(correlation, last_.launch, node == 0);
    if (!last_.known) last_.launch.epoch = host::epoch();
    last_correlation_ = correlation;
    last_.context = last_.launch.context;
    last_.counts = last_.launch.epoch != 0;
  }
  Place place = last_;
  if (node && place.counts) place.context = captured(place.launch.context, node);
  return place;
}

// Finds where work of a device belongs; counts what belongs nowhere, as what was launched during an
// interruption, in which some kinds go on to leave records.
Activities::Place Activities::place_of_work(uint32_t correlation, uint64_t node,
                                            uint64_t start_ns) {
  Place place = place_of(correlation, node);
  if (!place.known && start_ns && start_ns < resumed_ns_) place.counts = false;
  if (!place.counts) ++counts_.outside;
  return place;
}

// The context of a graph's node under a launch of the graph.
ContextId Activities::captured(ContextId launch, uint64_t node) {
  const uint64_t hash = (node * 0x9E3779B97F4A7C15u ^ launch) * 0xC2B2AE3D27D4EB4Fu;
  Captured &known = captured_[(hash >> 32) % kCaptured];
  if (known.node != node || known.launch != launch) {
    const ContextId path = graphs_.find(node);
    if (!path) {
      ++counts_.uncaptured;
      return launch;
    }
    known = {node, launch, host::contexts().child(launch, Kind::captured, path)};
  }
  return known.context;
}

Total &Activities::total(const Place &place, What what, uint32_t detail) {
  return totals_.at({place.launch.epoch, place.context, detail, what});
}

// -- what ran on a device

struct Activities::Times {
  uint64_t start, end;
  uint32_t device, stream;
  bool computes, from_host;
};

void Activities::ran(const Place &place, const Times &times, Total &total) {
  if (!place.known) ++counts_.unattributed;
  const bool timed = times.start && times.end >= times.start && times.end;
  total.add_on(times.device, times.stream, timed ? times.end - times.start : 0);
  if (!timed) {
    ++counts_.untimed;
    total.add_untimed();
    return;
  }
  total.add(times.end - times.start);
  const TotalKey key = total.key;
  if (timeline_.wanted())
    timeline_.add({times.start, times.end, place.known ? place.launch.entered_ns : 0, key.context,
                   place.launch.context, key.epoch, key.detail, times.stream,
                   uint16_t(times.device), key.what});
  idle_.add(times.device,
            {times.start, times.end, place.launch.entered_ns, place.launch.blocked_until_ns, key,
             place.launch.context, place.launch.blocked, place.known, times.computes,
             times.from_host},
            totals_);
}

void Activities::kernel(const uint8_t *record) {
  using At = cupti::KernelRecord;
  ++counts_.kernels;
  const uint64_t start = read<uint64_t>(record, At::start);
  const Place place = place_of_work(read<uint32_t>(record, At::correlation),
                                    read<uint64_t>(record, At::graph_node), start);
  if (!place.counts) return;
  Total &sum = total(place, What::kernel, variants_.of_record(record));
  std::memcpy(sum.grid, record + At::grid, 12);
  sum.blocks += uint64_t(sum.grid[0]) * sum.grid[1] * sum.grid[2];
  ran(place,
      {start, read<uint64_t>(record, At::end), read<uint32_t>(record, At::device),
       read<uint32_t>(record, At::stream), true, false},
      sum);
}

void Activities::memcpy_(const uint8_t *record, bool peer) {
  using At = cupti::MemcpyRecord;
  using Peer = cupti::PeerRecord;
  const uint64_t start = read<uint64_t>(record, At::start);
  const Place place =
      place_of_work(read<uint32_t>(record, peer ? Peer::correlation : At::correlation),
                    read<uint64_t>(record, peer ? Peer::graph_node : At::graph_node), start);
  if (!place.counts) return;
  const uint32_t device = read<uint32_t>(record, At::device);
  const uint32_t source = read<uint8_t>(record, At::source);
  const uint32_t detail =
      copy_detail(read<uint8_t>(record, At::kind), source, read<uint8_t>(record, At::target),
                  read<uint8_t>(record, At::flags) & 1,
                  peer ? read<uint32_t>(record, Peer::source_device) : device,
                  peer ? read<uint32_t>(record, Peer::target_device) : 0);
  Total &sum = total(place, What::memcpy, detail);
  sum.bytes += read<uint64_t>(record, At::bytes);
  const bool from_host = source == cupti::kPageable || source == cupti::kPinned;
  ran(place,
      {start, read<uint64_t>(record, At::end), device, read<uint32_t>(record, At::stream), false,
       from_host},
      sum);
}

void Activities::memset_(const uint8_t *record) {
  using At = cupti::MemsetRecord;
  const uint64_t start = read<uint64_t>(record, At::start);
  const Place place = place_of_work(read<uint32_t>(record, At::correlation),
                                    read<uint64_t>(record, At::graph_node), start);
  if (!place.counts) return;
  const uint32_t device = read<uint32_t>(record, At::device);
  const bool async = read<uint16_t>(record, At::flags) & 1;
  Total &sum = total(place, What::memset,
                     memory_detail(read<uint16_t>(record, At::memory), 0, async, device));
  sum.bytes += read<uint64_t>(record, At::bytes);
  ran(place,
      {start, read<uint64_t>(record, At::end), device, read<uint32_t>(record, At::stream), true,
       false},
      sum);
}

// -- what the host did

void Activities::overhead(const uint8_t *record, size_t size) {
  using At = cupti::OverheadRecord;
  const uint32_t kind = read<uint32_t>(record, At::kind);
  // Earlier versions do not name the call, and add no data that would be ours to free.
  const uint32_t correlation = size > At::correlation ? read<uint32_t>(record, At::correlation) : 0;
  if (size > At::data && kind == cupti::kCommandBufferFull)
    std::free(read<void *>(record, At::data));
  Place place{};
  place.launch.epoch = host::epoch();
  place.counts = place.launch.epoch != 0;
  if (correlation) place = place_of(correlation, 0);
  if (!place.counts) return;
  const uint64_t start = read<uint64_t>(record, At::start), end = read<uint64_t>(record, At::end);
  Total &sum = total(place, What::overhead, kind);
  if (start && end >= start)
    sum.add(end - start);
  else
    sum.add_untimed();
}

void Activities::memory(const uint8_t *record) {
  using At = cupti::MemoryRecord;
  const Place place = place_of(read<uint32_t>(record, At::correlation), 0);
  const bool released = read<uint32_t>(record, At::operation) != cupti::kAllocation;
  if (!place.counts && !released) return;
  allocations_.push_back({{read<uint32_t>(record, At::device), read<uint32_t>(record, At::memory)},
                          place.context,
                          place.launch.epoch,
                          released,
                          read<uint64_t>(record, At::address),
                          read<uint64_t>(record, At::bytes),
                          read<uint64_t>(record, At::time)});
  if (allocations_.size() >= kMostWaiting) settle_memory();
}

void Activities::settle_memory() {
  for (const Allocation &each : allocations_)
    if (each.released)
      // Those of a framework's allocator are not known here, and change nothing.
      memory_.release(each.pool.device, each.address, 0, each.time_ns);
    else if (!framework_memory().claims(each.address))
      memory_.allocate(each.pool, each.address, each.bytes, each.epoch, each.context, each.time_ns);
  allocations_.clear();
}

// -- what others ask

void Activities::add_dropped(uint64_t records) {
  std::lock_guard lock(mutex_);
  counts_.dropped += records;
}

void Activities::interrupt(uint64_t time_ns) {
  std::lock_guard lock(mutex_);
  resumed_ns_ = time_ns;
  idle_.interrupt(time_ns);
}

void Activities::limit_timeline(size_t most) {
  std::lock_guard lock(mutex_);
  timeline_.limit(most);
}

Drained Activities::drain(bool settle) {
  std::lock_guard lock(mutex_);
  if (settle) idle_.settle(totals_);
  Drained drained{totals_.take(), {}, timeline_.overwritten_since(), idle_.take_gaps()};
  if (timeline_.wanted()) drained.timeline = timeline_.take();
  return drained;
}

void Activities::give_back(TakenTotals &&taken) {
  std::lock_guard lock(mutex_);
  totals_.give_back(std::move(taken));
}

std::vector<Variant> Activities::variants(size_t first) {
  std::lock_guard lock(mutex_);
  const std::vector<Variant> &all = variants_.all();
  return {all.begin() + ptrdiff_t(first < all.size() ? first : all.size()), all.end()};
}

MemoryState Activities::memory_state() {
  std::lock_guard lock(mutex_);
  settle_memory();
  return memory_.state(now_ns());
}

void Activities::begin_recording_memory() {
  std::lock_guard lock(mutex_);
  settle_memory();
  memory_.begin_recording();
}

ActivityCounts Activities::counts() {
  std::lock_guard lock(mutex_);
  return counts_;
}

uint64_t Activities::late() {
  std::lock_guard lock(mutex_);
  return idle_.late();
}

size_t Activities::waiting_bytes() {
  std::lock_guard lock(mutex_);
  return idle_.bytes();
}

size_t Activities::totals_bytes() {
  std::lock_guard lock(mutex_);
  return totals_.bytes();
}

uint64_t Activities::overwritten() {
  std::lock_guard lock(mutex_);
  return timeline_.overwritten();
}

} // namespace tileprof
