// Open entries of a thread: entered, counted, timed, left, and put on the timeline.
#include <algorithm>

#include "host/entries.h"
#include "host/recorder.h"
#include "host/threads.h"

namespace tileprof {

ContextId Thread::new_scope_context(uint64_t number, bool apart) {
  scopes_[apart] = {number, child(0, Kind::scope, number, apart)};
  return scopes_[apart].context;
}

void Thread::split(bool count) {
  settle();
  const uint64_t now = now_ns();
  for (size_t at = entries_.size(); at--;) {
    Entry &entry = entries_[at];
    const uint64_t took = now - std::min(now, entry.began_ns);
    if (count) add(times_.make(entry.context).own_ns, took - std::min(took, entry.inside_ns));
    if (count && entry.claims) add(works_.make(entry.claims).claimed_ns, took);
    if (at) entries_[at - 1].inside_ns += took;
    entry.began_ns = now;
    entry.inside_ns = 0;
  }
  const uint64_t since = open_since_.load(std::memory_order_relaxed);
  if (!since) return;
  if (count) add(claimed_ns_, now - std::min(now, since));
  open_since_.store(now, std::memory_order_relaxed);
}

void Thread::add_work(ContextId context, double flops, double bytes) {
  HostWork &work = works_.make(context);
  add(work.flops, flops);
  add(work.bytes, bytes);
  WorkKinds *kinds = work.kinds.load(std::memory_order_relaxed);
  if (!kinds) work.kinds.store(kinds = new WorkKinds(), std::memory_order_release);
  const int octave = WorkKinds::octave_of(flops, bytes);
  add(kinds->flops[octave], flops);
  add(kinds->bytes[octave], bytes);
}

void Thread::add_sample(ContextId context, const TileprofVisit &visit) {
  const uint64_t visits = times_.make(context).count.load(std::memory_order_relaxed);
  HostWork &work = works_.make(context);
  const uint64_t before = work.sampled_visits.load(std::memory_order_relaxed);
  // Operations that are counted with that around them have visits taken back.
  const uint64_t since = visits > before ? visits - before : 1;
  add(work.sampled_bytes, visit.bytes * double(since));
  add(work.table, visit.table * double(since));
  add(work.rows, visit.rows * double(since));
  add(work.shared, visit.shared * double(since));
  add(work.slots, visit.slots * double(since));
  add(work.padding, visit.padding * double(since));
  add(work.sampled_visits, since);
}

// What an entry of this kind is under that begins at this moment.
ContextId Thread::parent_of(Kind kind, const Moment &moment) {
  const ContextId parent = path(moment);
  return wants_native() && kind == Kind::api ? through_native(parent, moment) : parent;
}

ContextId Thread::path_of(Kind kind, NameId name) {
  return child(parent_of(kind, moment()), kind, name);
}

ContextId Thread::enter(Kind kind, NameId name, uint64_t b, const void *function) {
  settle();
  const bool native = wants_native() && kind == Kind::api;
  if (!native && is_still_in_operation()) return enter_within(kind, name, b, function);
  const Moment now = moment();
  const ContextId parent = parent_of(kind, now);
  Entry &entry = push(kind, child(parent, kind, name, b), parent, now, function);
  if (kind == Kind::op) entry.operation = name + 1;
  if (kind != Kind::api) entry.python = now.thread, inside_ = entry.context;
  begin(entry);
  return entry.context;
}

ContextId Thread::enter_under(ContextId parent, Kind kind, NameId name, uint64_t b,
                              const void *function) {
  const Moment now = moment();
  Entry &entry = push(kind, child(parent, kind, name, b), parent, now, function);
  if (kind == Kind::backward) entry.python = now.thread, inside_ = entry.context;
  begin(entry);
  return entry.context;
}

// The place after that of an entry; 0: it began before the recording.
size_t Thread::find_entered(ContextId context) const {
  size_t at = entries_.size();
  while (at && (entries_[at - 1].range || entries_[at - 1].entered != context)) --at;
  return at;
}

size_t Thread::find_function(const void *function) const {
  size_t at = entries_.size();
  while (at && entries_[at - 1].function != function) --at;
  return at;
}

void Thread::leave(ContextId context) {
  settle();
  if (!entries_.empty() && entries_.back().entered == context && !entries_.back().range) [[likely]]
    return pop(now_ns());
  if (const size_t at = find_entered(context)) close(at - 1, now_ns());
}

void Thread::leave_unseen(ContextId context, uint64_t since_ns) {
  settle();
  if (const size_t at = find_entered(context))
    close(at - 1, std::min(now_ns(), std::max(since_ns, entries_[at - 1].began_ns)));
}

// -- the timeline

void Thread::trace(ContextId context, uint64_t start, uint64_t end) {
  Recorder &shared = recorder();
  const uint32_t epoch = shared.epoch.load(std::memory_order_relaxed);
  if (!shared.room.wanted() || !epoch) return;
  const uint32_t generation = shared.room.generation();
  if (!ring_ || ring_->generation() != generation) {
    std::lock_guard lock(ring_mutex_);
    ring_ = std::make_shared<HostRing>(generation);
  }
  ring_->add({start, std::max(start, end), context, epoch, ident()}, shared.room);
}

void Thread::trace_scope(uint64_t node, uint64_t start, uint64_t end) {
  trace(scope_context({nullptr, node}, false), start, end);
}

uint64_t Thread::take_traced(std::vector<HostEvent> &into) {
  std::shared_ptr<HostRing> ring;
  {
    std::lock_guard lock(ring_mutex_);
    ring = ring_;
  }
  return ring ? ring->take(into) : 0;
}

} // namespace tileprof
