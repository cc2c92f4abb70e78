#include "threads.h"

#include <time.h>

#include <algorithm>

#include "recorder.h"

namespace tileprof {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

// -- forward passes

void ForwardPasses::put(int64_t sequence, ContextId context) {
  if (!slots_) {
    // Zeroed pages that are touched only as sequence numbers reach them.
    slots_.reset(new std::atomic<uint64_t>[kSlots]());
    ready_.store(slots_.get(), std::memory_order_release);
  }
  const uint64_t number = uint64_t(sequence);
  slots_[number % kSlots].store(number << 32 | context, std::memory_order_release);
}

ContextId ForwardPasses::find(int64_t sequence) const {
  const std::atomic<uint64_t> *slots = ready_.load(std::memory_order_acquire);
  if (!slots) return 0;
  const uint64_t number = uint64_t(sequence);
  const uint64_t slot = slots[number % kSlots].load(std::memory_order_acquire);
  return slot >> 32 == (number & 0xFFFFFFFFu) ? ContextId(slot) : 0;
}

// -- contexts

ContextId Thread::child(ContextId parent, Kind kind, uint64_t a, uint64_t b) {
  const Context key{parent, kind, a, b};
  Known &known = known_[HashContext()(key) % kKnown];
  if (known.id && known.key == key) return known.id;
  const ContextId id = recorder().contexts.child(parent, kind, a, b);
  if (id != parent) known = {key, id};
  return id;
}

ContextId Thread::frame_child(ContextId parent, const Frame &frame) {
  const uint64_t code = uint64_t(reinterpret_cast<uintptr_t>(frame.code));
  const uint64_t offset = uint64_t(frame.offset);
  const Context key{parent, Kind::frame, code, offset};
  Known &known = known_[HashContext()(key) % kKnown];
  if (known.id && known.key == key) return known.id;
  ContextId id = recorder().contexts.find(parent, Kind::frame, code, offset);
  if (!id) {
    // Held before it is named, so that no context ever names a code object that is gone.
    if (!hold(frame.code)) return parent;
    id = recorder().contexts.child(parent, Kind::frame, code, offset);
  }
  if (id != parent) known = {key, id};
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

// How many of the frames met, from the innermost, were called since an entry without a frame of its
// own began: outer ones are shared, and so is the first that has gone on to another line.
size_t Thread::beyond(const Entry &entry) const {
  size_t shared = 0;
  const size_t most = std::min(entry.frames.size(), met_.size());
  while (shared < most) {
    const Frame &then = entry.frames[entry.frames.size() - 1 - shared];
    const Frame &now = met_[met_.size() - 1 - shared];
    if (then.id != now.id || then.code != now.code) break;
    ++shared;
    if (then.offset != now.offset) break;
  }
  return met_.size() - shared;
}

ContextId Thread::here() {
  const Recorder &shared = recorder();
  const PythonScope &scope = scope_.read();
  const Entry *entry = entries_.empty() ? nullptr : &entries_.back();
  // A scope that was opened since the entry began is inside it.
  if (entry && entry->scope != scope.identity && scope.identity) entry = nullptr;
  const ContextId base =
      entry ? entry->context : child(0, Kind::scope, scope.node, 0);
  if (!shared.frames.load(std::memory_order_relaxed)) return base;

  const void *innermost = innermost_frame();
  if (entry && entry->by_frames && innermost == entry->stop) return base;
  const void *stop = entry ? (entry->by_frames ? entry->stop : nullptr) : scope_.stop();
  if (!stop && !entry && !scope.node &&
      shared.base_thread.load(std::memory_order_relaxed) == ident_)
    stop = shared.base_frame.load(std::memory_order_relaxed);
  met_.clear();
  const bool met = collect_frames(stop, met_);
  size_t count = met_.size();
  ContextId from = base;
  if (entry && !entry->by_frames)
    count = beyond(*entry);
  else if (!entry && scope.node && !(stop && met))
    // The scope's frame is not among the callers: Python finds out what they share with its path.
    from = child(0, Kind::scope, scope.node, 1);
  return through_frames(from, count, entries_.size());
}

// -- entries

ContextId Thread::push(Entry entry) {
  entry.began_ns = now_ns();
  entries_.push_back(std::move(entry));
  depth_.store(entries_.size(), std::memory_order_relaxed);
  return entries_.back().context;
}

void Thread::pop() {
  const uint64_t now = now_ns();
  const Entry &entry = entries_.back();
  const uint64_t took = now - entry.began_ns;
  HostTime &time = times_.make(entry.context);
  HostTime::add(time.count, uint64_t(1));
  HostTime::add(time.own_ns, took - std::min(took, entry.inside_ns));
  const void *scope = entry.scope;
  entries_.pop_back();
  depth_.store(entries_.size(), std::memory_order_relaxed);
  if (!entries_.empty()) entries_.back().inside_ns += took;
  if (entries_.empty() || entries_.back().scope != scope) HostTime::add(time.outermost_ns, took);
}

void Thread::add_work(ContextId context, double flops, double bytes) {
  HostTime &time = times_.make(context);
  HostTime::add(time.flops, flops);
  HostTime::add(time.bytes, bytes);
}

ContextId Thread::enter(Kind kind, NameId name, uint64_t b) {
  return enter_under(here(), kind, name, b);
}

ContextId Thread::enter_under(ContextId parent, Kind kind, NameId name, uint64_t b) {
  const ContextId context = child(parent, kind, name, b);
  return push({context, innermost_frame(), scope_.read().identity, 0, 0, true, {}});
}

void Thread::leave(ContextId context) {
  size_t at = entries_.size();
  while (at && entries_[at - 1].context != context) --at;
  if (!at) return;  // it began before the recording
  while (entries_.size() >= at) pop();
}

ContextId Thread::push_range(NameId name, NameId domain) {
  const ContextId context = child(here(), Kind::range, name, domain);
  met_.clear();
  collect_frames(nullptr, met_);
  return push({context, nullptr, scope_.read().identity, 0, 0, false, met_});
}

void Thread::pop_range(NameId domain) {
  for (size_t at = entries_.size(); at; --at) {
    const Context &context = recorder().contexts.at(entries_[at - 1].context);
    if (context.kind == Kind::range && context.b == domain) {
      while (entries_.size() >= at) pop();
      return;
    }
  }
}

Thread &this_thread() {
  thread_local Thread *thread = nullptr;
  thread_local uint32_t generation = 0;
  const uint32_t now = recorder().generation();
  if (!thread || generation != now) {
    thread = &recorder().add_thread();
    generation = now;
  }
  return *thread;
}

} // namespace tileprof
