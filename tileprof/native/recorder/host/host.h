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

// The calling thread's context.
ContextId here();
ContextId known_here();  // without waiting for the GIL; see Thread::known_here
// What is recorded now where a call into the driver begins (0: nothing, or the call is the
// measurement's own), where what it starts belongs, what `leave` wants (0: nothing was entered), and
// when the call began.
struct Entered {
  uint32_t epoch;
  ContextId context, entry;
  uint64_t began_ns;
};
// Enters a call into the driver, and leaves it: now, or at a time since which its end was not seen.
// A launch gets the work that was announced for it. That of a kernel of ours has announced itself,
// and has a node: nothing is entered.
Entered enter(NameId call, bool launch);
void leave(ContextId context);
void leave_unseen(ContextId context, uint64_t since_ns);
// The context that entering a call would give, without entering it.
ContextId path_of(NameId call);
// Whether what the calling thread does is the measurement's own, and is not recorded.
bool unrecorded();
void set_unrecorded(bool on);

} // namespace host
} // namespace tileprof
