#include "pcs/pc_context.h"

#include <algorithm>
#include <array>

namespace tileprof {
namespace {

// Calls in a row that return nothing although CUPTI reports more.
constexpr int kFruitless = 3;
// A device has 40 stall reasons; far more than that is no number of them.
constexpr size_t kMostStalls = 4096;

} // namespace

// -- calls

bool PcContext::failed(CuptiResult result, const std::string &what) {
  if (result == cupti::kSuccess) return false;
  if (!problem_) tried_ = what;
  if (!problem_) problem_ = result;
  return true;
}

bool PcContext::call(const CuptiCall &function, const char *what) {
  cupti::PcParameters parameters{sizeof(parameters), nullptr, context_};
  return !failed(function(&parameters), what);
}

// -- enabling

bool PcContext::enable() {
  if (!call(cupti_.pc_enable, "enabling")) return false;
  enabled_ = true;
  full_ = false;
  if (learn_stalls() && configure()) return true;
  disable();
  return false;
}

bool PcContext::learn_stalls() {
  size_t count = 0;
  cupti::PcStallCount ask{sizeof(ask), nullptr, context_, &count};
  if (failed(cupti_.pc_stall_count(&ask), "counting stall reasons")) return false;
  if (!count || count > kMostStalls) return !failed(kNoStalls, "counting stall reasons");
  std::vector<std::array<char, cupti::kStallNameBytes>> names(count);
  std::vector<char *> places;
  for (auto &name : names) places.push_back(name.data());
  indices_.assign(count, 0);
  cupti::PcStallNames tell{sizeof(tell), nullptr, context_, count, indices_.data(), places.data()};
  if (failed(cupti_.pc_stall_names(&tell), "naming stall reasons")) return false;
  stalls_.clear();
  for (size_t i = 0; i < count; ++i) {
    names[i].back() = 0;
    if (indices_[i] >= kMostStalls) continue;
    if (indices_[i] >= stalls_.size()) stalls_.resize(indices_[i] + 1);
    stalls_[indices_[i]] = counts_.stall(names[i].data());
  }
  return true;
}

bool PcContext::configure() {
  configured_ = std::make_unique<PcBuffer>(options_.records, indices_.size());
  asked_ = std::make_unique<PcBuffer>(options_.records, indices_.size());
  std::vector<cupti::PcAttribute> all;
  auto set = [&all](uint32_t type) -> cupti::PcAttribute & {
    all.emplace_back();
    all.back() = {};
    all.back().type = type;
    return all.back();
  };
  set(cupti::kPeriod).number = options_.log2_period;
  set(cupti::kStallReasons).stalls = {indices_.size(), indices_.data()};
  set(cupti::kScratchBytes).bytes = options_.scratch_bytes;
  set(cupti::kHardwareBytes).bytes = options_.hardware_bytes;
  set(cupti::kMode).number = options_.exact ? cupti::kSerialized : cupti::kContinuous;
  set(cupti::kStartStop).number = 1;
  set(cupti::kDataBuffer).buffer = &configured_->data();
  if (options_.worker_ms) set(cupti::kWorkerSleep).number = options_.worker_ms;
  cupti::PcConfigure ask{sizeof(ask), nullptr, context_, all.size(), all.data()};
  const CuptiResult result = cupti_.pc_configure(&ask);
  for (const cupti::PcAttribute &each : all)
    if (failed(each.status, "setting attribute " + std::to_string(each.type))) return false;
  return !failed(result, "configuring");
}

// -- sampling

bool PcContext::start() {
  if (!enabled_ || started_ || problem_) return started_;
  started_ = call(cupti_.pc_start, "starting");
  // Left enabled, it lets CUPTI 13.0 crash when another context stops.
  if (!started_) disable();
  return started_;
}

size_t PcContext::stop() {
  if (!started_) return 0;
  started_ = false;
  call(cupti_.pc_stop, "stopping");
  const size_t seen = read();
  // Nobody writes to it now.
  if (!configured_->holds()) configured_->clear();
  return seen;
}

size_t PcContext::read() {
  if (!enabled_ || unreadable_) return 0;
  size_t seen = 0;
  for (int fruitless = 0; fruitless < kFruitless;) {
    asked_->rewind();
    cupti::PcData &data = asked_->data();
    cupti::PcRead ask{sizeof(ask), nullptr, context_, &data};
    const CuptiResult result = cupti_.pc_data(&ask);
    // Also where there is more than fits, which is no error.
    unreadable_ = result != cupti::kOutOfMemory && failed(result, "reading");
    if (unreadable_) break;
    counts_.add(data, stalls_);
    seen += data.records;
    if (data.full && !full_) ++counts_.totals.overflows;
    full_ = full_ || data.full;
    if (full_) break;
    // CUPTI moves samples to the buffer that it was given when a kernel or a module ends; they are
    // handed over by the next call.
    const bool more = data.remaining || configured_->holds();
    if (!data.records && !more && result != cupti::kOutOfMemory) break;
    fruitless = data.records ? 0 : fruitless + 1;
  }
  return seen;
}

void PcContext::disable() {
  if (!enabled_) return;
  stop();
  call(cupti_.pc_disable, "disabling");
  enabled_ = false;
  if (!configured_) return;
  // Late samples.
  cupti::PcData &data = configured_->data();
  counts_.add(data, stalls_);
  counts_.totals.discarded += data.remaining;
  configured_.reset();
  asked_.reset();
}

} // namespace tileprof
