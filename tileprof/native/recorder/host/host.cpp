#include "host/host.h"

#include "host/recorder.h"

namespace tileprof::host {

Contexts &contexts() { return recorder().contexts; }

Names &names() { return recorder().names; }

uint32_t epoch() { return recorder().epoch.load(std::memory_order_relaxed); }

ContextId here() { return this_thread().here(); }

ContextId known_here() { return this_thread().known_here(); }

Entered enter(NameId call, bool launch) {
  Thread &thread = this_thread();
  const uint32_t now = thread.unrecorded ? 0 : epoch();
  if (!now) return {};
  if (const ContextId ours = launch ? thread.kernel() : 0) return {now, ours, 0, now_ns()};
  const ContextId entered = thread.enter(Kind::api, call);
  if (launch) thread.add_announced(entered);
  return {now, entered, entered, thread.began_ns()};
}

void leave(ContextId context) { this_thread().leave(context); }

void leave_unseen(ContextId context, uint64_t since_ns) {
  this_thread().leave_unseen(context, since_ns);
}

ContextId path_of(NameId call) { return this_thread().path_of(Kind::api, call); }

bool unrecorded() { return this_thread().unrecorded; }

void set_unrecorded(bool on) { this_thread().unrecorded = on; }

} // namespace tileprof::host
