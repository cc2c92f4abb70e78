// What entries of a thread do when they begin and end: inline, for each operation does it.
#pragma once

#include <algorithm>

#include "host/recorder.h"
#include "host/threads.h"

namespace tileprof {

// The innermost entry, unless a scope was opened since it began, and so is inside it.
inline const Entry *Thread::innermost(const PythonScope &scope) const {
  if (entries_.empty()) return nullptr;
  const Entry &entry = entries_.back();
  return scope.identity && entry.scope != scope.identity ? nullptr : &entry;
}

inline bool Thread::is_still_in_operation() const {
  if (entries_.empty()) return false;
  const Entry &around = entries_.back();
  return around.python && scope_.unchanged(around.python, around.stop) &&
         innermost(scope_.last()) == &around;
}

inline Entry &Thread::push(ContextId context, ContextId under, const Moment &moment,
                           const void *on_stack) {
  const PythonScope &scope = moment.scope;
  const bool outermost = entries_.empty() || entries_.back().scope != scope.identity;
  // The time of a scope that is open in another thread is that thread's.
  const ContextId claims =
      outermost ? scope_context(scope.elsewhere ? PythonScope{} : scope, false) : 0;
  Entry &entry = entries_.emplace_back();
  entry.context = entry.entered = context;
  entry.under = under;
  entry.scope = scope.identity;
  entry.claims = claims;
  entry.on_stack = reinterpret_cast<uintptr_t>(on_stack);
  entry.stop = moment.frame;
  return entry;
}

inline void Thread::count_in(const Entry &entry) {
  if (!entry.start && operations_++ == 0)
    open_since_.store(entry.began_ns, std::memory_order_relaxed);
}

inline void Thread::begin(Entry &entry) {
  entry.began_ns = now_ns();
  count_in(entry);
}

// Enters a call right in the operation around, in which Python has not run since it began.
inline ContextId Thread::enter_within(Kind kind, NameId name, uint64_t b, const void *on_stack) {
  const Entry &around = entries_.back();
  const ContextId parent = around.context;
  const Moment now{scope_.last(), around.stop, around.python};
  Entry &entry = push(child(parent, kind, name, b), parent, now, on_stack);
  if (kind == Kind::op) entry.operation = name + 1;
  if (kind != Kind::api) entry.python = now.thread;
  begin(entry);
  return entry.context;
}

inline ContextId Thread::enter_operation(NameId name, const void *on_stack) {
  settle();
  if (is_still_in_operation()) [[likely]] return enter_within(Kind::op, name, 0, on_stack);
  return enter(Kind::op, name, 0, on_stack);
}

// An operation that does nothing but call one of the same name is counted once, as PyTorch's
// profiler does.
inline void Thread::count(const Entry &entry, HostTime &time) {
  if (!entry.again) add(time.count, uint64_t(1));
  if (entry.entries == 1 && entry.twin)
    add(times_.make(entry.twin).count, ~uint64_t(0));
  if (entries_.size() < 2 || entry.again) return;
  Entry &around = entries_[entries_.size() - 2];
  ++around.entries;
  around.twin = entry.operation && entry.operation == around.operation ? entry.context : 0;
}

inline void Thread::count_out(const Entry &entry, uint64_t now) {
  if (entry.start || --operations_) return;
  const uint64_t since = open_since_.load(std::memory_order_relaxed);
  open_since_.store(0, std::memory_order_relaxed);
  add(claimed_ns_, now - std::min(now, since));
}

inline void Thread::pop(uint64_t now) {
  const Entry &entry = entries_.back();
  const uint64_t took = now - std::min(now, entry.began_ns);
  HostTime &time = times_.make(entry.context);
  count(entry, time);
  add(time.own_ns, took - std::min(took, entry.inside_ns));
  if (entry.claims) add(works_.make(entry.claims).claimed_ns, took);
  count_out(entry, now);
  if (recorder().room.wanted()) trace(entry.context, entry.began_ns, now);
  entries_.pop_back();
  if (!entries_.empty()) entries_.back().inside_ns += took;
}

} // namespace tileprof
