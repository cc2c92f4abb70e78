#include "host/host.h"

#include "host/recorder.h"

namespace tileprof::host {

static thread_local bool is_unrecorded = false;

Contexts &contexts() { return recorder().contexts; }

Names &names() { return recorder().names; }

uint32_t epoch() { return recorder().epoch.load(std::memory_order_relaxed); }

ContextId here() { return this_thread().here(); }

ContextId known_here() { return this_thread().known_here(); }

ContextId kernel() { return this_thread().kernel(); }

ContextId enter(NameId call) { return this_thread().enter(Kind::api, call); }

void leave(ContextId context) { this_thread().leave(context); }

void leave_unseen(ContextId context, uint64_t since_ns) {
  this_thread().leave_unseen(context, since_ns);
}

ContextId path_of(NameId call) { return this_thread().path_of(Kind::api, call); }

bool unrecorded() { return is_unrecorded; }

void set_unrecorded(bool on) { is_unrecorded = on; }

uint64_t began_ns() { return this_thread().began_ns(); }

void add_announced(ContextId context) { this_thread().add_announced(context); }

} // namespace tileprof::host
