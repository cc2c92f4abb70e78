// The state of the calling thread without its thread-local variables, which take a call each time in
// a library that is loaded late.
//
// States are never freed, so any thread may look whose one is. The thread that a state belongs to
// writes itself into it, and takes itself out before it ends; only then may another thread have its
// pointer or the state. So a state with a thread's own pointer is its own. A forked child has the
// thread that made it alone: states of the others are told by the count of forks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tileprof {

// The address of what the system keeps of a thread: no other one has it meanwhile. 0: not known.
inline uintptr_t thread_pointer() {
  uintptr_t pointer = 0;
#if defined(__x86_64__)
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return pointer;
}

// Whose a state is.
struct OfThread {
  std::atomic<uintptr_t> pointer{0};  // of the thread while it lasts, 0: nobody's
  std::atomic<uint32_t> forks{0};     // how often the process was forked when that was written

  void let_go() { pointer.store(0, std::memory_order_relaxed); }
};

// States of the threads that asked last, of those that share a place.
template <typename State> class OwnStates {
public:
  // The calling thread's, nullptr where it is not known here.
  __attribute__((always_inline)) State *find(uint32_t forks) const {
    const uintptr_t pointer = thread_pointer();
    State *const state = places_[place_of(pointer)].load(std::memory_order_acquire);
    const bool own = pointer && state &&
                     state->pointer.load(std::memory_order_relaxed) == pointer &&
                     state->forks.load(std::memory_order_relaxed) == forks;
    return own ? state : nullptr;
  }
  void put(State &state, uint32_t forks) {
    const uintptr_t pointer = thread_pointer();
    state.forks.store(forks, std::memory_order_relaxed);
    state.pointer.store(pointer, std::memory_order_relaxed);
    places_[place_of(pointer)].store(&state, std::memory_order_release);
  }

private:
  static constexpr size_t kPlaces = 256;
  std::atomic<State *> places_[kPlaces] = {};

  static size_t place_of(uintptr_t pointer) { return (pointer >> 12 ^ pointer >> 23) % kPlaces; }
};

} // namespace tileprof
