#include "host/threads.h"

#include <algorithm>

#include "host/entries.h"
#include "host/recorder.h"

namespace tileprof {

// -- forward passes

void ForwardPasses::put(int64_t sequence, ContextId context) {
  if (!slots_) {
    // Zeroed pages that are touched only as sequence numbers reach them.
    void *pages = std::calloc(kSlots, sizeof(std::atomic<uint64_t>));
    if (!pages) return;
    slots_.reset(static_cast<std::atomic<uint64_t> *>(pages));
    ready_.store(slots_.get(), std::memory_order_release);
  }
  const uint64_t number = uint64_t(sequence);
  least_ = std::min(least_, number), most_ = std::max(most_, number);
  slots_[number % kSlots].store(number << 32 | context, std::memory_order_release);
}

ContextId ForwardPasses::find(int64_t sequence) const {
  const std::atomic<uint64_t> *slots = ready_.load(std::memory_order_acquire);
  if (!slots) return 0;
  const uint64_t number = uint64_t(sequence);
  const uint64_t slot = slots[number % kSlots].load(std::memory_order_acquire);
  return slot >> 32 == (number & 0xFFFFFFFFu) ? ContextId(slot) : 0;
}

void ForwardPasses::forget() {
  if (!slots_ || least_ > most_) return;
  // Only those that were put: the other pages are not touched.
  const uint64_t count = std::min<uint64_t>(most_ - least_ + 1, kSlots);
  for (uint64_t i = 0; i < count; ++i)
    slots_[(least_ + i) % kSlots].store(0, std::memory_order_relaxed);
  least_ = UINT64_MAX, most_ = 0;
}

// -- contexts

Thread::Thread(uint64_t ident)
    : ident_(ident), known_(static_cast<Known *>(std::calloc(kKnown, sizeof(Known)))),
      paths_(static_cast<KnownPath *>(std::calloc(kPaths, sizeof(KnownPath)))) {
  if (!known_ || !paths_) throw std::bad_alloc();
}

void Thread::begin(uint64_t ident) {
  ident_.store(ident, std::memory_order_relaxed);
  number_ = 0;
  named_ = {};
  forward_.forget();
  scope_.forget();
  unrecorded = false;
  recording_ = 0;
}

ContextId Thread::known_child(const Context &key) {
  Known &known = place_of(key);
  if (known.id && known.key == key) return last_ = known.id;
  const ContextId id = recorder().contexts.child(key.parent, key.kind, key.a, key.b);
  if (id != key.parent) known = {key, last_ = id};
  return id;
}

ContextId Thread::frame_child(ContextId parent, const Frame &frame) {
  const uint64_t code = uint64_t(reinterpret_cast<uintptr_t>(frame.code));
  const Context key{parent, Kind::frame, code, uint64_t(frame.offset)};
  if (const ContextId id = next_known(key)) return id;
  Known &known = place_of(key);
  if (known.id && known.key == key) return last_ = known.id;
  const ContextId id = recorder().frame(parent, frame);
  if (id != parent) known = {key, last_ = id};
  return id;
}

// The context of the outermost `count` of the frames met, under a base. Frames that stand where
// they stood last time cost a comparison; below the first that differs, a lookup each.
ContextId Thread::through_frames(ContextId base, size_t count, size_t chain_number) {
  if (!count) return base;
  Chain &chain = chains_[chain_number % kChains];
  if (chain.base != base) {
    chain.base = base;
    chain.frames.clear();
    chain.contexts.clear();
  }
  const size_t known = std::min(count, chain.frames.size());
  size_t same = 0;
  while (same < known && chain.frames[same].same_place(met_[count - 1 - same])) ++same;
  // Those below stay: their contexts are under these frames.
  if (same == count) return chain.contexts[count - 1];
  chain.frames.resize(same);
  chain.contexts.resize(same);
  ContextId at = same ? chain.contexts[same - 1] : base;
  for (size_t depth = same; depth < count; ++depth) {
    const Frame &frame = met_[count - 1 - depth];
    at = frame_child(at, frame);
    chain.frames.push_back(frame);
    chain.contexts.push_back(at);
  }
  return at;
}

// The same, but only as far as the frames' contexts are there already.
ContextId Thread::known_frames(ContextId base, size_t count) const {
  const Contexts &contexts = recorder().contexts;
  while (count) {
    const Frame &frame = met_[--count];
    const uint64_t code = uint64_t(reinterpret_cast<uintptr_t>(frame.code));
    const ContextId next = contexts.find(base, Kind::frame, code, uint64_t(frame.offset));
    if (!next) break;
    base = next;
  }
  return base;
}

size_t called_since(const std::vector<Frame> &then, const std::vector<Frame> &now) {
  size_t shared = 0;
  const size_t most = std::min(then.size(), now.size());
  while (shared < most) {
    const Frame &before = then[then.size() - 1 - shared];
    const Frame &after = now[now.size() - 1 - shared];
    if (before.id != after.id || before.code != after.code) break;
    ++shared;
    if (before.offset != after.offset) break;
  }
  return now.size() - shared;
}

Thread *Thread::named(uint64_t number) {
  // Read first: a change from here on counts as one that was not seen.
  const uint32_t naming = recorder().naming();
  if (!named_.thread || named_.number != number || named_.naming != naming)
    named_ = {number, recorder().named_thread(number), naming};
  return named_.thread;
}

bool Thread::is_right_in(Kind kind) const {
  if (entries_.empty()) return false;
  const Entry &entry = entries_.back();
  return entry.kind == kind && !entry.start && entry.stop == innermost_frame();
}

bool Thread::inside() {
  settle();
  return !entries_.empty() && innermost(scope_.read());
}

uint64_t Thread::claimed_ns() const {
  const uint64_t open = open_since_.load(std::memory_order_relaxed);
  const uint64_t closed = claimed_ns_.load(std::memory_order_relaxed);
  if (!open) return closed;
  // Another thread's `open` may be ahead of what this one reads.
  return closed + std::max(now_ns(), open) - open;
}

// Entries open from before are not in it: their path is that of another tree.
void Thread::begin_recording(uint64_t recording) {
  entries_.clear();
  operations_ = 0;
  inside_ = 0;
  publish();
  open_since_.store(0, std::memory_order_relaxed);
  recording_ = recording;
}

Moment Thread::moment() {
  settle();
  _ts *python = python_thread();
  return {scope_.read(python), innermost_frame(python), python};
}

ContextId Thread::here() { return path(moment()); }

ContextId Thread::known_here() {
  settle();
  _ts *python = python_thread();
  return path({scope_.last(), innermost_frame(python), python}, true);
}

// The context of a thread that is in no entry and runs no Python; 0 where nothing is known of it.
ContextId Thread::outside_of_python() const {
  auto *besides = recorder().besides.load(std::memory_order_relaxed);
  return besides ? besides() : 0;
}

// With `known_only`, nothing that waits for the GIL is asked: the framework may in `besides`.
ContextId Thread::path(const Moment &moment, bool known_only) {
  const Recorder &shared = recorder();
  const PythonScope &scope = moment.scope;
  const Entry *entry = innermost(scope);
  if (!entry && !moment.frame)
    if (const ContextId told = known_only ? shared.backward_root.load(std::memory_order_relaxed)
                                          : outside_of_python())
      return told;
  ContextId base = entry ? entry->context : scope_context(scope, false);
  if (!shared.frames.load(std::memory_order_relaxed)) return base;

  if (entry && !entry->start && moment.frame == entry->stop) return base;
  const void *stop = entry ? entry->stop : scope_.stop();
  if (!stop && !entry && !scope.node &&
      shared.base_thread.load(std::memory_order_relaxed) == ident())
    stop = shared.base_frame.load(std::memory_order_relaxed);
  bool met = false;
  uint64_t number = 0;
  if (!entry || !entry->start) {
    number = number_of_places(moment.thread, stop, met);
    // The scope's frame is not among the callers: Python finds out what they share with its path.
    if (!entry && scope.node && !(stop && met)) base = scope_context(scope, true);
    number = (number ^ base) * 0x9E3779B97F4A7C15u | 1;
    for (const KnownPath *known = paths_of(number), *end = known + 2; known < end; ++known)
      if (known->number == number && known->context) return last_ = known->context;
  }
  met_.clear();
  collect_frames(moment.thread, stop, met_);
  const size_t count = number ? met_.size() : called_since(entry->start->frames, met_);
  if (known_only) return known_frames(base, count);
  const ContextId context = through_frames(base, count, entries_.size());
  if (number) {
    KnownPath *const newest = paths_of(number);
    newest[1] = newest[0];
    newest[0] = {number, context};
  }
  return context;
}

// -- the calling thread

namespace {

struct Mine {
  Thread *thread = nullptr;
  uint32_t generation = 0;
  bool ends = false;
};
constinit thread_local Mine mine;

// Gives the thread's state back when it ends.
struct Ending {
  bool armed = false;
  ~Ending() {
    if (mine.thread && mine.generation == recorder().generation())
      recorder().end_thread(*mine.thread);
    mine.thread = nullptr;
    mine.ends = true;
  }
};
thread_local Ending ending;

} // namespace

__attribute__((noinline)) Thread &find_thread() {
  Mine &own = mine;
  const uint32_t generation = recorder().generation();
  if (!own.thread || own.generation != generation) {
    own.thread = &recorder().add_thread();
    own.generation = generation;
    if (!own.ends) ending.armed = true;  // makes it, so that it is destroyed
  }
  // Nobody would take it out again where operations run in destructors of thread-local objects.
  if (!own.ends) recorder().own_states.put(*own.thread, generation);
  return *own.thread;
}

} // namespace tileprof
