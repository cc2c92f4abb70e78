// Switching stacks: a few lines of assembly on x86-64, ucontext elsewhere.
#include "fibers.h"

#include <stdint.h>

#if defined(__x86_64__)
// Registers that a call preserves go on the stack; the stack pointer is the fiber.
asm(R"(
.text
.type tp_emulator_switch, @function
tp_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tp_emulator_switch, .-tp_emulator_switch
)");
extern "C" void tp_emulator_switch(void **save, void *load);

namespace tp_emulator {

void switch_fiber(Fiber &from, Fiber &to) { tp_emulator_switch(&from.at, to.at); }

Fiber make_fiber(void *stack, size_t bytes, void (*entry)()) {
  uintptr_t top = ((uintptr_t)stack + bytes) & ~(uintptr_t)63;
  void **slots = (void **)top - 8;
  for (int i = 0; i < 8; i++) slots[i] = nullptr;
  // Six registers, then where to return to: at entry the stack is 8 past a multiple of 16.
  slots[6] = (void *)entry;
  return Fiber{slots};
}

}  // namespace tp_emulator
#else
#include <ucontext.h>

namespace tp_emulator {

void switch_fiber(Fiber &from, Fiber &to) {
  ucontext_t here;
  from.at = &here;
  swapcontext(&here, (ucontext_t *)to.at);
}

Fiber make_fiber(void *stack, size_t bytes, void (*entry)()) {
  // The first context lives at the low end of its own stack.
  ucontext_t *made = (ucontext_t *)stack;
  getcontext(made);
  made->uc_stack.ss_sp = (char *)stack + sizeof(ucontext_t);
  made->uc_stack.ss_size = bytes - sizeof(ucontext_t);
  made->uc_link = nullptr;
  makecontext(made, entry, 0);
  return Fiber{made};
}

}  // namespace tp_emulator
#endif
