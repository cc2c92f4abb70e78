#include "pcs/pc_counts.h"

#include <algorithm>
#include <cstdlib>

namespace tileprof {

void PcCounts::add(const cupti::PcData &data, const std::vector<uint16_t> &stalls) {
  totals.total += data.total;
  totals.dropped += data.dropped;
  totals.non_user += data.non_user;
  totals.records += data.records;
  ++totals.reads;
  ++read_;
  for (size_t i = 0; i < data.records && i < data.room; ++i) {
    const cupti::PcRecord &record = data.record[i];
    Known &known = function(record);
    Key key{known.function, uint32_t(record.offset), context_of(record.correlation), 0};
    for (size_t s = 0; s < record.stalls; ++s) {
      const auto &[reason, samples] = record.stall[s];
      if (reason >= stalls.size() || !samples) continue;
      key.stall = stalls[reason];
      rows_[key] += samples;
      if (!latency_[key.stall]) totals.counted += samples;
    }
    keep_name(known, record.name);
  }
}

PcCounts::Known &PcCounts::function(const cupti::PcRecord &record) {
  const std::string_view name = record.name ? record.name : "";
  // Mixed by a multiplication: both numbers are small.
  std::vector<Known> &alike = known_[record.module * 0x9E3779B97F4A7C15u + record.function];
  const uint32_t module = modules_.number_of(record.module);
  for (Known &known : alike) {
    const PcFunction &function = functions_[known.function];
    if (function.module == module && function.name == name) return known;
  }
  functions_.push_back({module, std::string(name)});
  alike.emplace_back();
  alike.back().function = uint32_t(functions_.size() - 1);
  return alike.back();
}

uint32_t PcCounts::context_of(uint32_t correlation) {
  Launch launch;
  // Concurrent kernels have one and the same number, that of no launch.
  return correlation && by_launch && correlations_.peek(correlation, launch) ? launch.context : 0;
}

// Frees strings that are copies made for one read. One that records share, with those of kernels
// too, is CUPTI's as long as it may hand it over again: it is seen again with its function, and no
// function has many.
void PcCounts::keep_name(Known &known, char *name) {
  if (known.read != read_) {
    known.read = read_;
    ++known.reads;
    if (known.names.size() > kNames)
      totals.names_freed += std::erase_if(known.names, [&known](const auto &each) {
        const bool old = each.second + 1 < known.reads;
        if (old) std::free(each.first);
        return old;
      });
  }
  if (name) known.names[name] = known.reads;
}

uint16_t PcCounts::stall(const char *name) {
  auto found = std::find(stalls_.begin(), stalls_.end(), name);
  if (found == stalls_.end()) {
    stalls_.emplace_back(name);
    latency_.push_back(std::string_view(name).ends_with("_not_issued"));
    found = stalls_.end() - 1;
  }
  return uint16_t(found - stalls_.begin());
}

size_t PcCounts::names_held() const {
  size_t held = 0;
  for (const auto &[number, alike] : known_)
    for (const Known &known : alike) held += known.names.size();
  return held;
}

void PcCounts::clear() {
  totals = {};
  rows_.clear();
}

} // namespace tileprof
