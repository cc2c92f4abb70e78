// Known chains of calls that end in one of the played driver.
#include <alloca.h>

#include <thread>

#ifndef EXPORTED
#define EXPORTED
#endif

using Launch = unsigned (*)(unsigned);

namespace chain {

// Something happens after each call, so that none is the last thing that a function does.
volatile unsigned done, launched;

__attribute__((noinline)) void innermost(Launch launch) {
  launched = launch(307);  // launch
  done = done + 1;
}

inline __attribute__((always_inline)) void inlined(Launch launch) {
  innermost(launch);  // inlined
  done = done + 1;
}

template <typename T> struct Box {
  __attribute__((noinline)) void middle(Launch launch, T more) {
    inlined(launch);  // middle
    done = done + more;
  }
};

// Frames that are aligned anew, and frames whose size is known when they run.
__attribute__((noinline)) void aligned(Launch launch) {
  alignas(64) volatile char room[64];
  room[0] = 1;
  Box<int>().middle(launch, 2);
  done = done + room[0];
}

__attribute__((noinline)) void sized(Launch launch, unsigned bytes) {
  volatile char *room = static_cast<volatile char *>(alloca(bytes));
  room[0] = 1;
  aligned(launch);
  done = done + room[0];
}

__attribute__((noinline)) void deep(Launch launch, unsigned depth) {
  if (depth) deep(launch, depth - 1);
  else innermost(launch);
  done = done + 1;
}

} // namespace chain

extern "C" EXPORTED void chain_run(Launch launch) {
  chain::sized(launch, 100 + chain::done % 2);
  chain::done = chain::done + 1;
}

extern "C" EXPORTED void chain_thread(Launch launch) {
  std::thread([launch] {
    chain_run(launch);
    chain::done = chain::done + 1;
  }).join();
}

extern "C" EXPORTED void chain_deep(Launch launch, unsigned depth) {
  chain::deep(launch, depth);
  chain::done = chain::done + 1;
}

// The number of the last launch.
extern "C" EXPORTED unsigned chain_launched() { return chain::launched; }

// The same on a stack of the program's own.
#include <ucontext.h>

namespace chain {
Launch switched;
ucontext_t outside, inside;
void on_own_stack() {
  chain_run(switched);
  done = done + 1;
}
} // namespace chain

extern "C" EXPORTED void chain_switched(Launch launch) {
  static char stack[256 * 1024];
  chain::switched = launch;
  getcontext(&chain::inside);
  chain::inside.uc_stack.ss_sp = stack;
  chain::inside.uc_stack.ss_size = sizeof(stack);
  chain::inside.uc_link = &chain::outside;
  makecontext(&chain::inside, chain::on_own_stack, 0);
  swapcontext(&chain::outside, &chain::inside);
}
