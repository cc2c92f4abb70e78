// The native frames of the calling thread: return addresses from here out to a limit on the stack.
//
// What leads from a return address to its caller is read once and kept, so that a frame costs a
// lookup. Where that needs more than the two registers that are followed here, the whole stack is
// left to the unwinder of the compiler's runtime library (`_Unwind_Backtrace`).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "stacks/cfi.h"
#include "stacks/modules.h"

namespace tileprof {

struct NativeFrame {
  uintptr_t returns;  // the address that the call in it returns to
  uintptr_t end;      // of the frame: the stack pointer before it was called
};

struct NativeStack {
  // Of deeper stacks the innermost frames are kept, so that recursion cannot eat the memory.
  static constexpr uint32_t kDeepest = 128;
  NativeFrame frames[kDeepest];  // innermost first
  uint32_t count = 0;
};

class Unwinder {
public:
  Unwinder();
  Modules modules;

  // Frames that lie below `limit` on the stack, which is the address of something on it: of the
  // frame that holds it and those around it, none. The first frame is the caller's of the function
  // that `frame` (`__builtin_frame_address(0)`) belongs to.
  void walk(const void *frame, uintptr_t limit, NativeStack &into);
  // Whether an address is on the calling thread's stack, and in use.
  static bool on_stack(const void *address);
  void after_fork() { modules.after_fork(); }
  // How many stacks were left to the library.
  uint64_t slow() const { return slow_.load(std::memory_order_relaxed); }

private:
  // A rule in two words, the first one the key and the rule at once (exclusive or): two that were
  // written by different threads do not fit together.
  struct Slot {
    std::atomic<uint64_t> check, rule;
  };
  static constexpr unsigned kSlotBits = 16;
  // Zeroed pages that are touched only as rules are needed.
  Slot *slots_;
  std::atomic<uint64_t> slow_{0};

  Rule rule(uintptr_t returns, uint32_t generation);
  bool step_through(const void *frame, uintptr_t limit, NativeStack &into);
};

Unwinder &unwinder();  // never destroyed: launches may come until the very end

} // namespace tileprof
