// Native frames of a thread's path: those from a call of the driver out to the innermost Python
// frame, operation or range.
#include <algorithm>

#include "host/recorder.h"
#include "host/threads.h"

namespace tileprof {

size_t called_since(const std::vector<NativeFrame> &then, const NativeStack &now) {
  size_t shared = 0;
  const size_t most = std::min<size_t>(then.size(), now.count);
  while (shared < most) {
    const NativeFrame &before = then[then.size() - 1 - shared];
    const NativeFrame &after = now.frames[now.count - 1 - shared];
    if (before.end != after.end) break;
    ++shared;
    if (before.returns != after.returns) break;
  }
  return now.count - shared;
}

uintptr_t Thread::native_limit(const Moment &moment) const {
  constexpr uintptr_t kNone = UINTPTR_MAX;
  size_t at = entries_.size();
  while (at && !entries_[at - 1].on_stack) --at;
  const uintptr_t entry = at ? entries_[at - 1].on_stack : 0;
  const uintptr_t python = interpreter_on_stack(moment.thread);
  // The stack grows downwards, so the lower one is the innermost.
  return std::min(entry ? entry : kNone, python ? python : kNone);
}

// Not inlined, so that it has a frame of its own to begin with.
__attribute__((noinline)) ContextId Thread::through_native(ContextId base, const Moment &moment,
                                                           std::vector<NativeFrame> *met) {
  const Entry *entry = entries_.empty() ? nullptr : &entries_.back();
  // The driver's calls of itself.
  if (entry && recorder().contexts.at(entry->context).kind == Kind::api) return base;
  NativeStack stack;
  unwinder().walk(__builtin_frame_address(0), native_limit(moment), stack);
  const size_t count =
      entry && entry->start ? called_since(entry->start->native, stack) : stack.count;
  if (met) met->assign(stack.frames, stack.frames + stack.count);

  uint64_t hash = (uint64_t(unwinder().modules.generation()) << 32 | base) + 1;
  for (size_t i = 0; i < count; ++i) {
    hash = (hash ^ stack.frames[i].returns) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  if (!stacks_) stacks_.reset(new KnownStack[kStacks]());
  KnownStack &known = stacks_[hash % kStacks];
  if (known.context && known.hash == hash) return known.context;
  const ContextId context = native_chain(base, stack.frames, count);
  known = {hash, context};
  return context;
}

ContextId Thread::native_chain(ContextId base, const NativeFrame *innermost, size_t count) {
  const Modules &modules = unwinder().modules;
  std::vector<CodePlace> places;
  // A return address may be that of the next function, where a call never returns.
  for (size_t i = 0; i < count; ++i) places.push_back(modules.place_of(innermost[i].returns - 1));
  size_t first = 0, last = count;
  while (first < last && modules.at(places[first].module).driver) ++first;
  while (last > first && modules.at(places[last - 1].module).starts_threads) --last;
  ContextId at = base;
  for (size_t i = last; i-- > first;) at = child(at, Kind::native, places[i].packed());
  return at;
}

} // namespace tileprof
