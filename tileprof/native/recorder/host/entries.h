// What entries of a thread do when they begin and end: inline, for each operation does it.
#pragma once

#include <algorithm>

#include "host/recorder.h"
#include "host/threads.h"
#include "stacks/stack.h"

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
         around.scope == scope_.last().identity;
}

// The context of a scope, kept because each outermost entry asks for it.
inline ContextId Thread::scope_context(const PythonScope &scope, bool apart) {
  const uint64_t number = recorder().numbered(scope.node);
  const KnownScope &known = scopes_[apart];
  return known.context && known.number == number ? known.context : new_scope_context(number, apart);
}

__attribute__((always_inline)) inline Entry &
Thread::put(Kind kind, ContextId context, ContextId under, ContextId claims, const void *scope,
            const void *stop, const void *function) {
  Entry &entry = entries_.add();
  entry.context = context;
  entry.entered = context;
  entry.under = under;
  entry.around = inside_;
  entry.scope = scope;
  entry.stop = stop;
  entry.python = nullptr;
  entry.function = function;
  entry.operation = 0;
  entry.kind = kind;
  entry.again = false;
  entry.claims = claims;
  entry.entries = 0;
  entry.inside_ns = 0;
  entry.range = 0;
  entry.on_stack = 0;
  entry.twin = 0;
  // Operations that something on the heap stands for have no frame that they end with.
  if (wants_native() && function && Unwinder::on_stack(function)) [[unlikely]]
    entry.on_stack = reinterpret_cast<uintptr_t>(function);
  return entry;
}

inline Entry &Thread::push(Kind kind, ContextId context, ContextId under, const Moment &moment,
                           const void *function) {
  const PythonScope &scope = moment.scope;
  const bool outermost = entries_.empty() || entries_.back().scope != scope.identity;
  // The time of a scope that is open in another thread is that thread's.
  const ContextId claims =
      outermost ? scope_context(scope.elsewhere ? PythonScope{} : scope, false) : 0;
  return put(kind, context, under, claims, scope.identity, moment.frame, function);
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
__attribute__((always_inline)) inline ContextId
Thread::enter_within(Kind kind, NameId name, uint64_t b, const void *function) {
  const Entry &around = entries_.back();
  const ContextId parent = around.context;
  const void *const scope = around.scope, *const stop = around.stop;
  _ts *const python = around.python;
  const ContextId context = child(parent, kind, name, b);
  Entry &entry = put(kind, context, parent, 0, scope, stop, function);
  if (kind == Kind::op) entry.operation = name + 1;
  if (kind != Kind::api) entry.python = python, inside_ = context;
  entry.began_ns = now_ns();
  ++operations_;  // that around is one
  return context;
}

inline ContextId Thread::enter_operation(NameId name, const void *function) {
  settle();
  if (is_still_in_operation()) [[likely]] return enter_within(Kind::op, name, 0, function);
  return enter(Kind::op, name, 0, function);
}

// An operation that does nothing but call one of the same name is counted once, as PyTorch's
// profiler does. `around` is the entry that it is in, nullptr where it is in none.
inline void Thread::count(const Entry &entry, HostTime &time, Entry *around) {
  if (entry.entries == 1 && entry.twin)
    add(times_.make(entry.twin).count, ~uint64_t(0));
  if (entry.again) return;
  add(time.count, uint64_t(1));
  if (!around) return;
  ++around->entries;
  around->twin = entry.operation && entry.operation == around->operation ? entry.context : 0;
}

inline void Thread::count_out(const Entry &entry, uint64_t now) {
  if (entry.start || --operations_) return;
  const uint64_t since = open_since_.load(std::memory_order_relaxed);
  open_since_.store(0, std::memory_order_relaxed);
  add(claimed_ns_, now - std::min(now, since));
}

__attribute__((always_inline)) inline void Thread::pop(uint64_t now) {
  Entry &entry = entries_.back();
  Entry *const around = entries_.size() > 1 ? &entry - 1 : nullptr;
  const uint64_t took = now - std::min(now, entry.began_ns);
  HostTime &time = times_.make(entry.context);
  count(entry, time, around);
  add(time.own_ns, took - std::min(took, entry.inside_ns));
  if (entry.claims) add(works_.make(entry.claims).claimed_ns, took);
  count_out(entry, now);
  if (recorder().room.wanted()) trace(entry.context, entry.began_ns, now);
  if (around) around->inside_ns += took;
  inside_ = entry.around;
  entries_.pop_back();
}

inline ContextId Thread::leave_operation(const void *function) {
  settle();
  if (!entries_.empty() && entries_.back().function == function) [[likely]]
    pop(now_ns());
  else if (const size_t at = find_function(function))
    close(at - 1, now_ns());
  return inside_;
}

} // namespace tileprof
