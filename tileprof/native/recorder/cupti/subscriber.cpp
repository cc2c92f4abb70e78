#include "cupti/subscriber.h"

#include <string_view>

#include "host/host.h"
#include "cupti/own_calls.h"

namespace tileprof {
namespace {

using cupti::read;

} // namespace

// The driver's calls that a thread is in, and what it did last. Nothing in it needs destroying:
// callbacks come until the thread's very end.
struct Subscriber::Calling {
  struct Open {
    uint32_t correlation, epoch;
    ContextId context;
    Blocked blocks;
    Wait wait;
    uint64_t entered_ns;
  };
  // A call of this thread's that went through a gate, until its end is reported.
  struct Passage {
    bool inside;
    uint32_t correlation, round;

    void enter(Gate &gate, uint32_t entering) {
      // CUPTI may not have reported the end of the thread's last call.
      if (inside) gate.leave(round);
      round = gate.enter();
      inside = true;
      correlation = entering;
    }
    void leave(Gate &gate, uint32_t leaving) {
      if (!inside || correlation != leaving) return;
      inside = false;
      gate.leave(round);
    }
  };
  // A call of this thread's that keeps apart from graphs, or a graph from it, until its end is reported.
  struct KeptApart {
    bool inside;
    GraphsApart::Kind kind;
    uint32_t correlation, round;

    void enter(GraphsApart &graphs, GraphsApart::Kind entered, uint32_t entering) {
      if (inside) graphs.leave(kind, round);
      kind = entered;
      round = graphs.enter(kind);
      inside = true;
      correlation = entering;
    }
    void leave(GraphsApart &graphs, uint32_t leaving) {
      if (!inside || correlation != leaving) return;
      inside = false;
      graphs.leave(kind, round);
    }
  };
  static constexpr uint32_t kDeepest = 8;
  Open open[kDeepest];
  uint32_t depth, listening;  // calls that are open; when they began, see Subscriber::round_
  uint32_t number;  // of the thread, from 1; 0: not numbered yet
  uint64_t blocked_until_ns;
  Blocked blocked;
  Passage sampled, flushed;  // through the gates of samples and of flushes
  KeptApart apart;
  // In a pause, the path of the call that is open and may add a node to a graph.
  ContextId foreseen;
};

namespace {

std::atomic<uint32_t> threads_numbered{0}, rounds{0};

// A call's name without its version: cuMemcpyHtoD_v2_ptds is cuMemcpyHtoD.
std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('_'));
}

} // namespace

constinit thread_local Subscriber::Calling Subscriber::calling_here{};

Subscriber::Subscriber(Correlations &correlations, Graphs &graphs, Waits &waits, Gate &gate,
                       Gate &flush_gate, PcSampling &pcs, PmSampling &pms, SassMetrics &sass,
                       Counters &counters)
    : correlations_(correlations), graphs_(graphs), waits_(waits), gate_(gate),
      flush_gate_(flush_gate), pcs_(pcs), pms_(pms), sass_(sass), counters_(counters),
      calls_(new Call[kCalls]) {}

// -- which calls

// Looked up by name, because drivers number and version their calls differently.
Subscriber::Call Subscriber::call_of(const char *full_name) {
  using enum Graphing;
  static constexpr struct {
    std::string_view start;
    CallKind kind;
    Wait wait = Wait::none;
    Graphing graphing = none;
    std::optional<GraphsApart::Kind> apart = std::nullopt;
  } kStarts[] = {
      {"cuLaunchHostFunc", CallKind::none},  // runs on the host, leaves no record
      {"cuStreamBeginCapture", CallKind::none, Wait::none, begins_capture},
      {"cuStreamEndCapture", CallKind::none, Wait::none, ends_capture},
      {"cuGraphAdd", CallKind::none, Wait::none, adds_node},
      {"cuLaunch", CallKind::launch},
      {"cuGraphLaunch", CallKind::graph, Wait::none, none, GraphsApart::Kind::graph},
      {"cuStreamWaitEvent", CallKind::none, Wait::none, none, GraphsApart::Kind::event_wait},
      {"cuMemcpy", CallKind::memcpy},
      {"cuMemset", CallKind::memset},
      {"cuStreamSynchronize", CallKind::sync, Wait::stream},
      {"cuCtxSynchronize", CallKind::sync, Wait::device},
      {"cuEventSynchronize", CallKind::sync, Wait::event},
      {"cuMemAlloc", CallKind::memory},
      {"cuMemFree", CallKind::memory},
  };
  const std::string_view name = without_version(full_name);
  for (const auto &[start, kind, wait, graphing, apart] : kStarts) {
    if (name.substr(0, start.size()) != start) continue;
    const bool copies = kind == CallKind::memcpy && name.find("Async") == name.npos;
    const Blocked blocks = kind == CallKind::sync ? Blocked::sync
                           : copies               ? Blocked::copy
                                                  : Blocked::never;
    const bool named = kind != CallKind::none || graphing == adds_node;
    return {kind, graphing, blocks, wait, named ? host::names().intern(name) : 0, apart};
  }
  return {};
}

void Subscriber::find_calls() {
  numbers_.clear();
  graphing_.clear();
  event_waits_.clear();
  for (uint32_t number = 1; number < kCalls; ++number) {
    const char *name = nullptr;
    calls_[number] = Call{};
    if (cupti_.callback_name(cupti::kDriver, number, &name) != cupti::kSuccess || !name) continue;
    calls_[number] = call_of(name);
    if (calls_[number].kind != CallKind::none) numbers_.push_back(number);
    if (calls_[number].graphing != Graphing::none) graphing_.push_back(number);
    if (calls_[number].apart == GraphsApart::Kind::event_wait) event_waits_.push_back(number);
  }
}

// -- subscribing

void Subscriber::abandon() { listening_ = false; }

CuptiResult Subscriber::subscribe(const Cupti &cupti, std::string &other) {
  cupti_ = cupti;
  find_calls();
  CuptiResult result = cupti_.subscribe(&handle_, &Subscriber::called, this);
  if (result == cupti::kOtherSubscriber && cupti_.subscribe_named) {
    // The second way to subscribe fails as well, but names the subscriber.
    char name[128] = {};
    cupti::SubscriberParameters parameters{sizeof(parameters), "tileprof", name, sizeof(name)};
    result = cupti_.subscribe_named(&handle_, &Subscriber::called, this, &parameters);
    name[sizeof(name) - 1] = 0;
    other = name;
  }
  if (result != cupti::kSuccess) handle_ = nullptr;
  return result;
}

void Subscriber::unsubscribe() {
  listening_ = false;
  if (handle_) cupti_.unsubscribe(handle_);
  handle_ = nullptr;
  gate_.reset();
  flush_gate_.reset();
  graphs_apart_.reset();
  apart_ = false;
  captures_ = 0;
}

CuptiResult Subscriber::enable(uint32_t domain, uint32_t number, bool on) {
  return cupti_.enable_callback(on, handle_, domain, number);
}

// Whether a call is listened to at present. Samples can go on without a recording, and then launches
// have to pass their gate.
bool Subscriber::wants(const Call &call) const {
  return listening() || (gated() && call.launches()) || (captures_.load() && call.captured());
}

CuptiResult Subscriber::listen(bool on) {
  const uint32_t captures = captures_.load();
  const CuptiResult worst = listen_locked(on, std::unique_lock(enabling_));
  // Some began or ended meanwhile, and did not wait for the lock.
  if (!captures != !captures_.load()) listen_to_captures();
  return worst;
}

CuptiResult Subscriber::listen_locked(bool on, Lock) {
  if (on) round_.store(++rounds, std::memory_order_relaxed);
  if (!on && listening()) silent_since_ns_.store(now_ns(), std::memory_order_relaxed);
  listening_ = on;
  CuptiResult worst = cupti::kSuccess;
  auto set = [&](uint32_t domain, uint32_t number, bool wanted) {
    const CuptiResult result = enable(domain, number, wanted);
    if (result != cupti::kSuccess) worst = result;
  };
  for (uint32_t number : numbers_) set(cupti::kDriver, number, wants(calls_[number]));
  if (!on && !gated()) {
    gate_.reset();
    flush_gate_.reset();
  }
  if (!on) {
    apart_ = false;
    for (uint32_t number : event_waits_) set(cupti::kDriver, number, false);
    graphs_apart_.reset();
  }
  // Never "module profiled": with it there are no samples of program counters. Graphs that are
  // captured during an interruption are replayed after it, so what concerns them stays.
  if (on && cupti_.graph_node_id) {
    for (uint32_t number : graphing_) set(cupti::kDriver, number, true);
    set(cupti::kResource, cupti::kNodeCreated, true);
    set(cupti::kResource, cupti::kNodeCloned, true);
  }
  if (on && (pcs_.wanted() || counters_.wanted() || sass_.wanted()))
    set(cupti::kResource, cupti::kContextEnds, true);
  if (worst != cupti::kSuccess) listening_ = false;
  return worst;
}

// Called when the first capture begins and when the last one ends, in callbacks: they wait for nobody.
void Subscriber::listen_to_captures() {
  const Lock lock(enabling_, std::try_to_lock);
  if (!lock || listening()) return;  // to all of them already
  for (uint32_t number : numbers_)
    if (calls_[number].captured()) enable(cupti::kDriver, number, wants(calls_[number]));
}

// Called when a recording sees its first graph, in a callback: it waits for nobody, the next graph
// tries again. A program without graphs pays nothing.
void Subscriber::listen_to_event_waits() {
  const Lock lock(enabling_, std::try_to_lock);
  if (!lock || !listening()) return;
  apart_ = true;
  for (uint32_t number : event_waits_) enable(cupti::kDriver, number, true);
}

CuptiResult Subscriber::state() const {
  uint32_t on = 0;
  if (numbers_.empty()) return cupti::kSuccess;
  return cupti_.callback_state(&on, handle_, cupti::kDriver, numbers_.front());
}

uint64_t Subscriber::launches() const {
  uint64_t sum = 0;
  for (const Count &count : counts_) sum += count.value.load(std::memory_order_relaxed);
  return sum;
}

// -- callbacks

void Subscriber::called(void *self, uint32_t domain, uint32_t number, const void *data) {
  Subscriber &subscriber = *static_cast<Subscriber *>(self);
  if (OwnCall::under_way()) return;
  try {
    if (domain == cupti::kDriver) {
      if (number >= kCalls) return;
      // Looked for once in each callback, which takes a call.
      Calling &calling = calling_here;
      if (read<uint32_t>(data, cupti::CallbackData::site) == cupti::kEnter)
        subscriber.enter(calling, number, data);
      else
        subscriber.leave(calling, number, data);
    } else if (domain == cupti::kResource) {
      subscriber.resource(number, data);
    }
  } catch (...) {
    // No memory for a context: the call stays unattributed, the program goes on.
  }
}

void Subscriber::keep_apart(Calling &calling, const Call &call, uint32_t correlation) {
  if (!apart_.load(std::memory_order_relaxed)) listen_to_event_waits();
  calling.apart.enter(graphs_apart_, *call.apart, correlation);
}

void Subscriber::enter(Calling &calling, uint32_t number, const void *data) {
  const Call &call = calls_[number];
  const uint32_t correlation = read<uint32_t>(data, cupti::CallbackData::correlation);
  const bool recorded = listening(), launches = call.launches();
  const bool sampled = launches && gated();
  if (launches && (recorded || sampled)) calling.flushed.enter(flush_gate_, correlation);
  if (sampled) calling.sampled.enter(gate_, correlation);
  if (recorded && call.apart) keep_apart(calling, call, correlation);
  if (call.kind == CallKind::none || !recorded) return foresee(calling, call);
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (calling.listening != round) leave_unseen(calling), calling.listening = round;
  if (calling.depth == Calling::kDeepest) return;
  const host::Entered entered = host::enter(call.name, call.kind == CallKind::launch);
  Launch launch;
  launch.kind = call.kind;
  launch.epoch = entered.epoch;
  if (launch.epoch) {
    launch.context = entered.context;
    launch.entered_ns = entered.began_ns;
    calling.open[calling.depth++] = {correlation, launch.epoch, entered.entry,
                                     call.blocks, call.wait,    launch.entered_ns};
    launch.blocked_until_ns = calling.blocked_until_ns;
    launch.blocked = calling.blocked;
  }
  // With counters there are no records, which would come for each repetition of a launch.
  const bool counted = counters_.wanted();
  if (call.wait == Wait::none && !counted) correlations_.put(correlation, launch);
  if (!launches) return;
  if (counted) count(data, launch);
  if (!launch.epoch) return;
  if (sampled) {
    void *context = read<void *>(data, cupti::CallbackData::context);
    pcs_.see(context);
    pms_.see(context);
    sass_.see(context);
  }
  if (!calling.number) calling.number = threads_numbered.fetch_add(1) + 1;
  // The first threads have a place each, of which nobody else writes.
  if (calling.number < kCounts) {
    std::atomic<uint64_t> &own = counts_[calling.number].value;
    own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    counts_[0].value.fetch_add(1, std::memory_order_relaxed);
  }
}

// Also launches that are not recorded: CUPTI counts them.
void Subscriber::count(const void *data, const Launch &launch) {
  const char *symbol = read<const char *>(data, cupti::CallbackData::symbol);
  const NameId function =
      launch.kind == CallKind::launch && symbol ? host::names().intern(symbol) : 0;
  counters_.enter(read<void *>(data, cupti::CallbackData::context),
                  read<uint32_t>(data, cupti::CallbackData::correlation),
                  {launch.epoch, launch.context, function});
}

// Calls that were open when the callbacks went off, whose ends CUPTI did not report.
void Subscriber::leave_unseen(Calling &calling) {
  if (calling.depth && calling.open[0].context)
    host::leave_unseen(calling.open[0].context, silent_since_ns_.load(std::memory_order_relaxed));
  calling.depth = 0;
}

// Finds the path of a call that is not recorded and may add a node to a graph. This may wait for the
// GIL, which a node's own callback must not: the driver holds locks there.
void Subscriber::foresee(Calling &calling, const Call &call) {
  const bool captured = captures_.load(std::memory_order_relaxed) && call.captured();
  if ((call.graphing != Graphing::adds_node && !captured) || host::unrecorded()) return;
  if (!listening()) leave_unseen(calling);
  calling.foreseen = host::path_of(call.name);
}

void Subscriber::follow_capture(const Call &call, int32_t returned) {
  // A capture that was spoiled has ended too. These have ended none: there is none, or another
  // thread has to end it.
  constexpr int32_t kIllegalState = 401, kWrongThread = 908;
  if (call.graphing == Graphing::begins_capture && !returned) {
    if (!captures_.fetch_add(1)) listen_to_captures();
  } else if (call.graphing == Graphing::ends_capture && returned != kIllegalState &&
             returned != kWrongThread) {
    uint32_t before = captures_.load();
    while (before && !captures_.compare_exchange_weak(before, before - 1)) {
    }
    if (before == 1) listen_to_captures();
  }
}

void Subscriber::leave(Calling &calling, uint32_t number, const void *data) {
  const int32_t *returned = read<const int32_t *>(data, cupti::CallbackData::returned);
  calling.foreseen = 0;
  if (calls_[number].graphing != Graphing::none)
    follow_capture(calls_[number], returned ? *returned : 0);
  const uint32_t correlation = read<uint32_t>(data, cupti::CallbackData::correlation);
  if (counters_.wanted()) counters_.leave(correlation, returned && *returned);
  calling.apart.leave(graphs_apart_, correlation);
  calling.sampled.leave(gate_, correlation);
  calling.flushed.leave(flush_gate_, correlation);
  uint32_t at = calling.depth;
  while (at && calling.open[at - 1].correlation != correlation) --at;
  if (!at) return;  // entered before the callbacks were on
  const Calling::Open open = calling.open[at - 1];
  calling.depth = at - 1;
  if (open.context) host::leave(open.context);
  if (returned && *returned) correlations_.forget(correlation);
  if (open.blocks == Blocked::never) return;
  calling.blocked = open.blocks;
  calling.blocked_until_ns = now_ns();
  if (open.wait != Wait::none)
    waits_.add(open.epoch, open.context, open.wait, calling.blocked_until_ns - open.entered_ns);
}

void Subscriber::resource(uint32_t number, const void *data) {
  if (number == cupti::kContextEnds) {
    void *context = read<void *>(data, cupti::ResourceData::context);
    if (pcs_.wanted()) pcs_.gone(context);
    if (counters_.wanted()) counters_.gone(context);
    if (sass_.wanted()) sass_.gone(context);
  } else {
    graph_node(number, data);
  }
}

void Subscriber::graph_node(uint32_t number, const void *data) {
  const void *graph = read<const void *>(data, cupti::ResourceData::descriptor);
  if (!graph) return;
  uint64_t node = 0, original = 0;
  if (cupti_.graph_node_id(read<void *>(graph, cupti::GraphData::node), &node)) return;
  if (number == cupti::kNodeCloned) {
    if (!cupti_.graph_node_id(read<void *>(graph, cupti::GraphData::original_node), &original))
      graphs_.cloned(node, original);
    return;
  }
  Calling &calling = calling_here;
  if (calling.foreseen) return graphs_.created(node, calling.foreseen);
  if (!listening()) leave_unseen(calling);
  if (!listening() || !host::epoch()) return graphs_.created(node, host::known_here());
  graphs_.created(node, host::here());
  // A call that is captured leaves no record of its own.
  if (calling.depth) correlations_.forget(calling.open[calling.depth - 1].correlation);
  counters_.captured();
}

} // namespace tileprof
