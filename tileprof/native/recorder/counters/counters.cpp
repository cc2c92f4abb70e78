#include "counters/counters.h"

#include "counters/cupti_range.h"
#include "cupti/current_context.h"

namespace tileprof {
namespace {

// The launch that this thread is in. Nothing in it needs destroying.
struct Turn {
  Counters *of;
  std::vector<CounterLaunch> *launches;  // that it is the last of; null if it is not logged
  uint32_t correlation;
};
thread_local Turn turn{nullptr, nullptr, 0};

} // namespace

// A context whose counters are read.
struct Counters::Target {
  void *context = nullptr, *profiler = nullptr;
  uint32_t device = 0;
  bool refused = false, started = false;
  bool of_graph = false;  // the one launch of the batch that has begun
  std::vector<uint8_t> image;
  std::vector<CounterLaunch> launches;
};

Counters::Counters() = default;
Counters::~Counters() = default;

// -- what is wanted

void Counters::configure(CounterOptions options) {
  options_ = std::move(options);
  wanted_ = !options_.metrics.empty();
  std::lock_guard lock(reading_);
  batches_.clear();
  status_ = {};
}

void Counters::begin() {
  const char *missing = cupti_.lacking(CuptiFeature::Ranges);
  counting_ = wanted() && !missing;
  if (!wanted() || counting_) return;
  std::lock_guard lock(reading_);
  if (status_.code) return;
  status_.code = kCannotCount;
  status_.text = cupti_.without(missing);
}

void Counters::cut() {
  if (counting_) with_turn(&Counters::finish_all);
}

void Counters::pause() {
  if (!counting_.exchange(false)) return;
  with_turn(&Counters::finish_all);
}

void Counters::end() {
  counting_ = false;
  if (wanted()) with_turn(&Counters::end_all);
}

// Does something while no launch is under way; a launch that never ends is not waited for.
void Counters::with_turn(void (Counters::*work)()) {
  if (turn.of == this || !turns_.take(options_.patience_s)) return;
  try {
    (this->*work)();
  } catch (...) {
    // No memory for a batch: it is lost.
  }
  turns_.give();
}

void Counters::finish_all() {
  for (auto &[context, target] : targets_) {
    CurrentContext current(context);
    finish(*target);
  }
}

void Counters::end_all() {
  for (auto &[context, target] : targets_) {
    CurrentContext current(context);
    finish(*target);
    disable(*target);
  }
  targets_.clear();
}

// -- launches

void Counters::enter_closely(void *context, uint32_t correlation, const CounterLaunch &launch) {
  if (!context || turn.of) return;
  if (!turns_.take(options_.patience_s)) {
    std::lock_guard lock(reading_);
    ++status_.waited;
    return;
  }
  // If a recording ended meanwhile, CUPTI may not report the end of this launch.
  if (!counting_.load()) return turns_.give();
  turn = {this, nullptr, correlation};
  try {
    Target &one = target(context);
    const bool graph = !launch.function;
    if (one.started && (graph || one.of_graph || one.launches.size() >= options_.ranges))
      finish(one);
    if (!start(one, graph ? options_.graph_ranges : options_.ranges)) return;
    one.of_graph = graph;
    one.launches.push_back(launch);
    turn.launches = &one.launches;
  } catch (...) {
    // No memory: the launch goes on without.
  }
}

void Counters::leave(uint32_t correlation, bool failed) {
  if (turn.of != this || turn.correlation != correlation) return;
  if (failed) captured();
  turn = {nullptr, nullptr, 0};
  turns_.give();
}

void Counters::captured() {
  if (turn.of != this || !turn.launches) return;
  turn.launches->pop_back();
  turn.launches = nullptr;
}

void Counters::gone(void *context) {
  if (turn.of == this || !turns_.take(options_.patience_s)) return;
  auto found = targets_.find(context);
  try {
    if (found != targets_.end()) finish(*found->second);
  } catch (...) {
  }
  if (found != targets_.end()) {
    disable(*found->second);
    targets_.erase(found);
  }
  turns_.give();
}

// -- contexts

bool Counters::failed(CuptiResult result, const char *what) {
  if (result == cupti::kSuccess) return false;
  std::lock_guard lock(reading_);
  if (!status_.code) {
    status_.code = result;
    status_.text = std::string(what) + ": " + cupti_.text_of(result);
  }
  return true;
}

Counters::Target &Counters::target(void *context) {
  std::unique_ptr<Target> &held = targets_[context];
  if (held) return *held;
  held = std::make_unique<Target>();
  held->context = context;
  held->refused = !enable(*held);
  std::lock_guard lock(reading_);
  ++(held->refused ? status_.refused : status_.counted);
  return *held;
}

bool Counters::enable(Target &target) {
  if (!initialized_) {
    cupti::ProfilerStart parameters{sizeof(parameters), nullptr};
    if (failed(cupti_.profiler_initialize, parameters)) return false;
    initialized_ = true;
  }
  if (failed(cupti_.device_of(target.context, &target.device), "cuptiGetDeviceId")) return false;
  if (!chip_fits(target)) return false;
  cupti::RangeEnable parameters{sizeof(parameters), nullptr, target.context, nullptr};
  if (failed(cupti_.range_enable, parameters)) return false;
  target.profiler = parameters.profiler;
  return true;
}

bool Counters::chip_fits(Target &target) {
  std::string text;
  const CuptiResult problem = chip_problem(cupti_, target.device, options_.chip, text);
  std::lock_guard lock(reading_);
  if (problem && !status_.code) {
    status_.code = problem;
    status_.text = text;
  }
  return !problem;
}

bool Counters::make_image(Target &target, size_t ranges) {
  std::vector<const char *> names;
  for (const std::string &metric : options_.metrics) names.push_back(metric.c_str());
  cupti::RangeImageSize size{};
  size.size = sizeof(size);
  size.profiler = target.profiler;
  size.metrics = names.data();
  size.count = names.size();
  size.most_ranges = ranges;
  size.most_nodes = uint32_t(ranges);
  if (failed(cupti_.range_image_size, size)) return false;
  target.image.assign(size.bytes, 0);
  cupti::RangeImage image{sizeof(image), nullptr, target.profiler, target.image.size(),
                          target.image.data()};
  return !failed(cupti_.range_image, image);
}

// Whether the next launch of a context is a range.
bool Counters::start(Target &target, size_t ranges) {
  if (target.started || target.refused) return target.started;
  target.refused = true;
  if (!make_image(target, ranges)) return false;
  cupti::RangeConfig config{};
  config.size = cupti::kRangeConfigBytes;
  config.profiler = target.profiler;
  config.config_bytes = options_.plan.size();
  config.config = reinterpret_cast<const uint8_t *>(options_.plan.data());
  config.image_bytes = target.image.size();
  config.image = target.image.data();
  config.range = cupti::kAutoRange;
  config.replay = cupti::kKernelReplay;
  config.most_ranges = ranges;
  config.levels = config.least_level = config.level = 1;
  if (failed(cupti_.range_configure, config)) return false;
  cupti::RangeProfiler parameters{sizeof(parameters), nullptr, target.profiler};
  if (failed(cupti_.range_start, parameters)) return false;
  target.refused = false;
  target.started = true;
  return true;
}

// Makes a batch of what was read since the start.
void Counters::finish(Target &target) {
  if (!target.started) return;
  target.started = false;
  cupti::RangeStop stop{};
  stop.size = cupti::kRangeStopBytes;
  stop.profiler = target.profiler;
  const bool stopped = !failed(cupti_.range_stop, stop);
  CounterBatch batch{target.device, 0, {}, std::move(target.launches)};
  target.launches.clear();
  if (batch.launches.empty()) return;
  cupti::RangeDecode decode{sizeof(decode), nullptr, target.profiler, 0};
  target.refused = !stopped || failed(cupti_.range_decode, decode);
  if (target.refused) return;
  batch.dropped = decode.dropped;
  batch.image = std::move(target.image);
  std::lock_guard lock(reading_);
  status_.launches += batch.launches.size();
  batches_.push_back(std::move(batch));
  if (batches_.size() <= options_.batches) return;
  status_.lost += batches_.front().launches.size();
  batches_.pop_front();
}

void Counters::disable(Target &target) {
  if (!target.profiler) return;
  cupti::RangeProfiler parameters{sizeof(parameters), nullptr, target.profiler};
  failed(cupti_.range_disable, parameters);
  target.profiler = nullptr;
}

// -- reading

std::vector<CounterBatch> Counters::take() {
  std::lock_guard lock(reading_);
  std::vector<CounterBatch> all(std::make_move_iterator(batches_.begin()),
                                std::make_move_iterator(batches_.end()));
  batches_.clear();
  return all;
}

CounterStatus Counters::status() {
  std::lock_guard lock(reading_);
  return status_;
}

} // namespace tileprof
