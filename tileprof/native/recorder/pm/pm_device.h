// Hardware counters of one device, sampled over time: enabling, starting, reading, disabling.
//
// In: a loaded CUPTI, a device, CUPTI's plan for the metrics. Out: rows of a `PmSeries`, and what
// was lost on the way. For one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pm/cupti_pm.h"
#include "pm/pm_series.h"

namespace tileprof {

// Beside CUPTI's own codes: the loaded version has no PM sampling.
inline constexpr CuptiResult kNoPmSampling = -20;

struct PmOptions {
  std::string chip;  // the plan is for devices of this kind alone
  std::vector<std::string> metrics;  // none: nothing is sampled
  std::vector<bool> counted;  // by metric: a count of what happened, which becomes a rate in 1/s
  std::string plan;  // CUPTI's "config image"
  uint64_t interval_ns = 200'000;
  size_t rows = 1u << 17;  // that are kept of a device at most
  size_t buffer_bytes = 64u << 20;  // of the samples of a device that have not been read
  size_t image_samples = 512;  // that a read takes at most; more are lost
  uint32_t read_ms = 50;
  double patience_s = 10;  // for a call that stops, reads and disables
};

struct PmTotals {
  uint64_t samples = 0, missed = 0;  // missed: that should have come between two that came
  uint64_t overflows = 0;  // of the device's buffer: nothing came until it was set up again
};

class PmDevice {
public:
  PmDevice(const Cupti &cupti, uint32_t number, const PmOptions &options)
      : cupti_(cupti), number_(number), options_(options),
        series_(options.metrics.size(), options.rows) {}

  uint32_t number() const { return number_; }
  bool enabled() const { return sampler_ != nullptr; }
  // Why there is no sampling, or no more: a code with what was tried; 0 and nothing.
  CuptiResult problem() const { return problem_; }
  const std::string &tried() const { return tried_; }
  const PmTotals &totals() const { return totals_; }
  PmRows rows() const { return series_.rows(); }

  bool enable();
  bool start();
  // Reads what there is; whether the device's buffer had room.
  bool read();
  // Sets the device up again, unless its buffer was full too often.
  void reopen();
  // Stops, and reads all there is.
  void stop();
  // Stops, reads, and gives back what CUPTI holds for it.
  void disable();

private:
  const Cupti &cupti_;
  uint32_t number_;
  const PmOptions &options_;
  PmSeries series_;
  PmTotals totals_;
  void *sampler_ = nullptr, *host_ = nullptr;
  bool started_ = false;
  CuptiResult problem_ = 0;
  std::string tried_;
  std::vector<uint8_t> image_;
  std::vector<const char *> names_;
  std::vector<double> values_;
  uint64_t last_end_ = 0;  // of the last sample since the start; 0: there was none yet

  bool failed(CuptiResult result, const char *what);
  template <typename Parameters>
  bool failed(const CuptiCall &call, Parameters &parameters) {
    return failed(call(&parameters), call.name);
  }
  bool configure();
  bool clear_image();
  bool decode();
  void take(size_t index);
};

} // namespace tileprof
