// Services of the host's side for the recorder of GPUs: contexts, names, thread, time.
#pragma once

#include <cstdint>

#include "host/clock.h"
#include "host/contexts.h"

namespace tileprof {
namespace host {

Contexts &contexts();
Names &names();
uint32_t epoch();

// The calling thread's context; the kernel of ours that it is launching, 0 for none.
ContextId here();
ContextId known_here();  // without waiting for the GIL; see Thread::known_here
ContextId kernel();
// Enters a call into the driver, and leaves it: now, or at a time since which its end was not seen.
ContextId enter(NameId call);
void leave(ContextId context);
void leave_unseen(ContextId context, uint64_t since_ns);
// The context that entering a call would give, without entering it.
ContextId path_of(NameId call);
// Whether what the calling thread does is the measurement's own, and is not recorded.
bool unrecorded();
void set_unrecorded(bool on);
// When the innermost call was entered.
uint64_t began_ns();
// Adds the work that was announced for the next launch to the context that launches.
void add_announced(ContextId context);

} // namespace host
} // namespace tileprof
