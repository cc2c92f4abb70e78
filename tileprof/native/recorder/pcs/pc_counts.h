// Samples of program counters, counted by instruction, stall reason and calling context.
//
// In: results of reads. Out: one row for each that was seen, so that memory is bounded by the
// instructions that ran. For one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/contexts.h"
#include "records/correlations.h"
#include "pcs/cupti_pc.h"
#include "pcs/pc_modules.h"

namespace tileprof {

struct PcTotals {
  uint64_t total = 0, dropped = 0, non_user = 0;
  uint64_t counted = 0;  // in rows; what a `_not_issued` reason counts is a part of its namesake's
  uint64_t overflows = 0;  // times that the device's buffer was full
  uint64_t discarded = 0;  // instructions whose samples found no room when sampling ended
  uint64_t reads = 0, records = 0;
  uint64_t names_freed = 0;
};

struct PcFunction {
  uint32_t module;
  std::string name;
};

class PcCounts {
public:
  struct Key {
    uint32_t function, offset, context;
    uint16_t stall;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &k) const {
      const uint64_t place = (uint64_t(k.function) << 32 | k.offset) * 0x9E3779B97F4A7C15u;
      const uint64_t rest = (uint64_t(k.context) << 16 | k.stall) * 0xFF51AFD7ED558CCDu;
      return size_t((place ^ rest) >> 17 ^ place);
    }
  };

  PcCounts(PcModules &modules, Correlations &correlations)
      : modules_(modules), correlations_(correlations) {}
  // Adds a read; `stalls` are our numbers for the device's.
  void add(const cupti::PcData &data, const std::vector<uint16_t> &stalls);
  // Our number for a stall reason, by the device's name for it.
  uint16_t stall(const char *name);
  void clear();

  PcTotals totals;
  // Whether each launch has samples of its own.
  bool by_launch = false;
  const std::unordered_map<Key, uint64_t, Hash> &rows() const { return rows_; }
  const std::vector<PcFunction> &functions() const { return functions_; }
  const std::vector<std::string> &stalls() const { return stalls_; }
  // Strings of CUPTI's that are kept because they may be used again.
  size_t names_held() const;

private:
  // Functions of CUPTI's numbers, and the strings that it handed over as their names.
  struct Known {
    uint32_t function = 0;
    uint64_t read = 0;  // the last one that it was in, and how many there were
    uint64_t reads = 0;
    std::unordered_map<char *, uint64_t> names;  // with the last of them that each was in
  };
  static constexpr size_t kNames = 16;

  PcModules &modules_;
  Correlations &correlations_;
  std::unordered_map<Key, uint64_t, Hash> rows_;
  std::vector<PcFunction> functions_;
  std::vector<std::string> stalls_;
  uint64_t read_ = 0;  // the number of this one, of all recordings
  std::vector<bool> latency_;  // by stall: whether it counts a part of another
  std::unordered_map<uint64_t, std::vector<Known>> known_;  // by module and number of the function

  Known &function(const cupti::PcRecord &record);
  uint32_t context_of(uint32_t correlation);
  void keep_name(Known &known, char *name);
};

} // namespace tileprof
