#include "records/idle.h"

#include <algorithm>
#include <tuple>

namespace tileprof {
namespace {

// Whether the thread had waited for a device before the launch.
bool waited(const Interval &interval) {
  return interval.blocked != Blocked::never && interval.blocked_until_ns <= interval.entered_ns;
}

Reason reason_of(uint64_t gap_began, const Interval &ended_by) {
  if (!ended_by.known) return Reason::unknown;
  if (ended_by.from_host) return Reason::copy;
  if (ended_by.entered_ns <= gap_began) return Reason::queue;
  if (!waited(ended_by) || ended_by.blocked_until_ns < gap_began) return Reason::launch;
  return ended_by.blocked == Blocked::copy ? Reason::copy : Reason::sync;
}

TotalKey key_of(const Interval &interval, Reason reason, uint32_t device) {
  return {interval.key.epoch, interval.context, uint32_t(reason) | device << 16, What::idle};
}

} // namespace

void Idle::add(uint32_t device_number, const Interval &interval, Totals &totals) {
  Device &device = devices_[device_number];
  device.pending.reserve(2 * window_);
  device.runs.reserve(kMostRuns);
  device.since_late.reserve(kMostWork);
  if (interval.start < device.counted) {
    ++late_;
    too_small_ = true;
    device.busy_until = std::max(device.busy_until, interval.end);
    if (interval.computes) device.compute_until = std::max(device.compute_until, interval.end);
    return;
  }
  append(device, interval);
  if (device.pending.size() >= 2 * window_)
    count(device_number, device, device.pending.size() - window_, totals);
}

// Streams that run side by side are slightly out of order, buffers of several threads grossly.
void Idle::append(Device &device, const Interval &interval) {
  Intervals &pending = device.pending;
  const size_t run = device.runs.empty() ? 0 : device.runs.back();
  size_t place = pending.size();
  const size_t nearest = std::max(run, place > kNear ? place - kNear : 0);
  pending.push_back(interval);
  while (place > nearest && interval.start < pending[place - 1].start) --place;
  if (place > run && interval.start < pending[place - 1].start) {
    device.runs.push_back(uint32_t(pending.size() - 1));
    if (device.runs.size() == kMostRuns) put_in_order(device, kMostRuns / 4);
    return;
  }
  std::move_backward(pending.begin() + ptrdiff_t(place), pending.end() - 1, pending.end());
  pending[place] = interval;
}

// Merges runs with their neighbours until there are so many at most, into a vector that is kept.
void Idle::put_in_order(Device &device, size_t most_runs) {
  auto by_start = [](const Interval &a, const Interval &b) { return a.start < b.start; };
  auto at = [&](size_t i) { return device.pending.begin() + ptrdiff_t(i); };
  for (Runs *each : {&ends_, &merged_ends_}) each->reserve(kMostRuns + 1);
  ends_.assign(device.runs.begin(), device.runs.end());
  ends_.push_back(uint32_t(device.pending.size()));
  merged_.reserve(2 * window_);
  while (ends_.size() > most_runs) {
    merged_ends_.clear();
    merged_.resize(device.pending.size());
    auto to = merged_.begin();
    size_t start = 0;
    for (size_t i = 0; i + 1 < ends_.size(); i += 2) {
      to = std::merge(at(start), at(ends_[i]), at(ends_[i]), at(ends_[i + 1]), to, by_start);
      merged_ends_.push_back(start = ends_[i + 1]);
    }
    if (ends_.size() % 2) {
      std::copy(at(start), device.pending.end(), to);
      merged_ends_.push_back(ends_.back());
    }
    device.pending.swap(merged_);
    ends_.swap(merged_ends_);
  }
  device.runs.assign(ends_.begin(), ends_.end() - 1);
}

void Idle::settle(Totals &totals) {
  for (auto &[number, device] : devices_) count(number, device, device.pending.size(), totals);
}

size_t Idle::bytes() const {
  size_t held = merged_.capacity();
  size_t work = 0;
  for (const auto &[number, device] : devices_) {
    held += device.pending.capacity();
    work += device.since_late.capacity();
  }
  return held * sizeof(Interval) + work * sizeof(Work);
}

void Idle::interrupt(uint64_t time_ns) {
  uint64_t counted = UINT64_MAX;
  for (const auto &[number, device] : devices_) counted = std::min(counted, device.busy_until);
  std::erase_if(interruptions_, [&](uint64_t time) { return time < counted; });
  interruptions_.push_back(time_ns);
}

bool Idle::interrupted(uint64_t from, uint64_t to) const {
  auto first = std::lower_bound(interruptions_.begin(), interruptions_.end(), from);
  return first != interruptions_.end() && *first <= to;
}

void Idle::count(uint32_t number, Device &device, size_t how_many, Totals &totals) {
  put_in_order(device, 1);
  for (size_t i = 0; i < how_many; ++i) step(number, device, device.pending[i], totals);
  device.pending.erase(device.pending.begin(), device.pending.begin() + ptrdiff_t(how_many));
  if (too_small_) window_ = std::min(window_ * 2, kMostWindow);
  too_small_ = false;
}

void Idle::step(uint32_t number, Device &device, const Interval &now, Totals &totals) {
  device.counted = now.start;
  if (now.known && waited(now))
    device.waited_until = std::max(device.waited_until, now.blocked_until_ns);
  if (device.busy_until && now.start > device.busy_until) {
    if (interrupted(device.busy_until, now.start)) {
      device.busy_until = device.compute_until = now.start;
      device.copy_ns = 0;
      device.since_late.clear();
    } else {
      gap(number, device.busy_until, now, totals);
      if (now.known && now.entered_ns > device.busy_until) settle_slack(device, totals);
    }
  }
  device.since_late.push_back({now.key, now.end - now.start, now.end});
  if (device.since_late.size() >= device.merge_from) merge_work(device);
  if (now.computes)
    compute(number, device, now, totals);
  else
    copy(device, now);
  device.busy_until = std::max(device.busy_until, now.end);
}

void Idle::gap(uint32_t number, uint64_t from, const Interval &ended_by, Totals &totals) {
  const Reason reason = reason_of(from, ended_by);
  const TotalKey key = key_of(ended_by, reason, number);
  const uint64_t took = ended_by.start - from;
  const bool by_host = reason == Reason::launch || reason == Reason::sync || reason == Reason::copy;
  if (by_host && took >= kLong && gaps_.size() < kMostGaps)
    gaps_.push_back({from, ended_by.start, key});
  else
    totals.at(key).add(took);
}

void Idle::settle_slack(Device &device, Totals &totals) {
  for (const Work &work : device.since_late)
    if (work.end > device.waited_until) totals.at(work.key).slack += work.took;
  device.since_late.clear();
}

// Where no launch is late for long. What is merged counts as one that ended with the last of it.
void Idle::merge_work(Device &device) {
  ResidentVector<Work> &all = device.since_late;
  std::erase_if(all, [&](const Work &work) { return work.end <= device.waited_until; });
  auto order = [](const Work &work) {
    return std::tuple(work.key.context, work.key.detail, work.key.epoch, work.key.what);
  };
  std::sort(all.begin(), all.end(),
            [&](const Work &a, const Work &b) { return order(a) < order(b); });
  size_t last = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].key == all[last].key) {
      all[last].took += all[i].took;
      all[last].end = std::max(all[last].end, all[i].end);
    } else {
      all[++last] = all[i];
    }
  }
  if (!all.empty()) all.resize(last + 1);
  device.merge_from = std::max(kMostWork, 2 * all.size());
}

void Idle::copy(Device &device, const Interval &now) {
  const uint64_t from = std::max({now.start, device.compute_until, device.copy_until});
  if (now.end > from) device.copy_ns += now.end - from;
  device.copy_until = std::max(device.copy_until, now.end);
}

void Idle::compute(uint32_t number, Device &device, const Interval &now, Totals &totals) {
  // Copies that go on beside it were not alone then.
  const uint64_t beside = device.copy_until > now.start ? device.copy_until - now.start : 0;
  if (device.compute_until && now.start > device.compute_until && device.copy_ns > beside)
    totals.at(key_of(now, Reason::waiting_copy, number)).add(device.copy_ns - beside);
  device.compute_until = std::max(device.compute_until, now.end);
  const bool longer = device.copy_until > device.compute_until;
  device.copy_ns = longer ? device.copy_until - device.compute_until : 0;
}

} // namespace tileprof
