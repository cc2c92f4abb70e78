// Counts by instruction: how often each instruction of a kernel was executed, by how many threads,
// and CUPTI's other SASS metrics.
//
// In: names of metrics, from Python; the first launch of each context, on the thread that launches.
// CUPTI then patches every function before it runs first. Out: for each function of a module and
// each offset in it a sum of each metric, over all launches. Sums are read when Python asks for
// them, when recording is interrupted and when a context ends; not while a launch is under way,
// which some versions of CUPTI do not survive.
#pragma once

#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "counters/chips.h"
#include "cupti/collector.h"
#include "pcs/pc_counts.h"
#include "pcs/pc_modules.h"

namespace tileprof {

struct SassOptions {
  std::vector<std::string> metrics;  // none: counts are not wanted
  double patience_s = 20;  // for reading
};

struct SassStatus {
  CuptiResult code = 0;  // of the first call that failed
  std::string text;  // that call, and CUPTI's words
  uint32_t counted = 0, refused = 0;  // contexts
  uint64_t records = 0;  // numbers that CUPTI handed over, zeros too
  uint64_t dropped = 0;  // values that CUPTI had and nobody read
  bool hung = false;  // a call did not return in time
};

struct SassKey {
  uint32_t function, offset, metric;
  bool operator==(const SassKey &) const = default;
};
struct SassHash {
  size_t operator()(const SassKey &k) const {
    const uint64_t place = (uint64_t(k.function) << 32 | k.offset) * 0x9E3779B97F4A7C15u;
    return size_t((place ^ (uint64_t(k.metric) * 0xFF51AFD7ED558CCDu)) >> 17 ^ place);
  }
};

struct SassCounts {
  std::unordered_map<SassKey, uint64_t, SassHash> rows;
  std::vector<PcFunction> functions;
};

class SassMetrics : public Collector {
public:
  SassMetrics(PcModules &modules, Gate &gate);

  // Sets what is wanted from now on, and forgets all counts. Not while counting goes on.
  void configure(SassOptions options);
  void attach(const Cupti &cupti, cupti::ComputeCrc compute_crc) {
    attach_once(cupti, compute_crc, kPatience_s);
  }
  // Counts in each context from its next launch on; what was executed in a pause is forgotten.
  void begin();
  // Reads what was counted. Work that is under way has to have ended, here and below.
  void cut() { worker_.tell(kRead); }
  // The same, until `begin`. Functions stay patched: CUPTI counts none a second time.
  void pause() { tell(kRead); }
  // The same; contexts have to be found again. What a device is to count stays set: CUPTI takes it
  // once in a process.
  void end();

  // -- in callbacks
  void gone(void *context);

  // -- reading
  SassStatus status();
  // A copy of the sums as they stand; none where counting hangs.
  SassCounts counts();

private:
  struct Target {
    void *context;
    uint32_t device = 0;
    bool enabled = false, refused = false;
  };

  enum Order { kRead = 1, kForget, kEnd };
  // Time that the end of a context, and a question of Python's, wait for calls that are under way.
  static constexpr double kPatience_s = 2;

  PcModules &modules_;
  SassOptions options_;
  SassCounts counts_;
  SassStatus status_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> functions_;  // by module and name
  std::list<Target> targets_;
  // For each device: what it is set to count, and CUPTI's numbers for that.
  struct Configured {
    std::vector<std::string> metrics;
    std::vector<uint64_t> numbers;
  };
  std::map<uint32_t, Configured> configured_;
  bool initialized_ = false;

  bool failed(CuptiResult result, const std::string &what);
  template <typename Parameters>
  bool failed(const CuptiCall &call, Parameters &parameters) {
    return failed(call(&parameters), call.name);
  }
  void see_closely(void *context) override;
  bool enable(Target &target);
  bool configure_device(uint32_t device);
  void obey(int order) override;
  void read(Target &target, bool counts);
  void flush(Target &target, bool counts);
  void add(const Target &target, const void *records, size_t count, size_t values);
  void disable(Target &target);
  void read_all(int order);
};

} // namespace tileprof
