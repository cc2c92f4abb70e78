// Stacks that are switched by hand: a call that comes back when somebody switches back.
#pragma once
#include <stddef.h>

namespace tp_emulator {

// A suspended point of execution.
struct Fiber {
  void *at = nullptr;
};

// Suspend here into `from` and go on at `to`.
void switch_fiber(Fiber &from, Fiber &to);
// A fiber that starts in `entry` on this stack and never returns from it.
Fiber make_fiber(void *stack, size_t bytes, void (*entry)());

}  // namespace tp_emulator
