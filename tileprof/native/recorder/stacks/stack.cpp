#include "stacks/stack.h"

#include <pthread.h>
#include <unwind.h>

#include <algorithm>
#include <new>

#include <unistd.h>

// The end of the main thread's stack, as the dynamic linker of the C library found it.
extern "C" __attribute__((weak)) void *__libc_stack_end;

namespace tileprof {
namespace {

struct Range {
  uintptr_t low = 0, high = 0;
  bool holds(uintptr_t address) const { return address >= low && address < high; }
};

// The main thread's stack where the C library cannot say it, because /proc is not there. Linux maps
// nothing else in the 128 MB below its end (`MIN_GAP` in its mm/util.c).
Range stack_of_main() {
  if (gettid() != getpid() || !&__libc_stack_end) return {};
  const uintptr_t high = reinterpret_cast<uintptr_t>(__libc_stack_end);
  return {high - (128u << 20), high};
}

// Where the calling thread's stack lies; nothing where that is not known.
const Range &stack_of_thread() {
  thread_local const Range range = [] {
    Range found;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes)) return stack_of_main();
    void *low = nullptr;
    size_t size = 0;
    if (!pthread_attr_getstack(&attributes, &low, &size))
      found = {uintptr_t(low), uintptr_t(low) + size};
    pthread_attr_destroy(&attributes);
    return found;
  }();
  return range;
}

// Sanitizers would take what is around a function's variables for out of bounds.
#define ANYWHERE __attribute__((no_sanitize("address", "thread")))

ANYWHERE uintptr_t load(uintptr_t address) { return *reinterpret_cast<const uintptr_t *>(address); }

struct Tracing {
  NativeStack &into;
  uintptr_t start, limit;
  uintptr_t returns = 0;
  bool begun = false;
};

_Unwind_Reason_Code trace(_Unwind_Context *context, void *data) {
  Tracing &tracing = *static_cast<Tracing *>(data);
  NativeStack &into = tracing.into;
  // The library states where the frame that it called begins, which is where the last one ends.
  const uintptr_t end = _Unwind_GetCFA(context);
  if (tracing.begun) {
    if (end > tracing.limit) return _URC_NORMAL_STOP;
    into.frames[into.count++] = {tracing.returns, end};
    if (into.count == NativeStack::kDeepest) return _URC_NORMAL_STOP;
  }
  tracing.begun = tracing.begun || end >= tracing.start;
  tracing.returns = _Unwind_GetIP(context);
  return tracing.returns ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

} // namespace

Unwinder::Unwinder()
    : slots_(static_cast<Slot *>(std::calloc(size_t(1) << kSlotBits, sizeof(Slot)))) {
  if (!slots_) throw std::bad_alloc();
}

Unwinder &unwinder() {
  static Unwinder *const one = new Unwinder;
  return *one;
}

bool Unwinder::on_stack(const void *address) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  return at > reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) &&
         at < stack_of_thread().high;
}

Rule Unwinder::rule(uintptr_t returns, uint32_t generation) {
  const uint64_t key = returns ^ uint64_t(generation) << CodePlace::kBits;
  Slot &slot = slots_[key * 0x9E3779B97F4A7C15u >> (64 - kSlotBits)];
  const uint64_t packed = slot.rule.load(std::memory_order_relaxed);
  if ((slot.check.load(std::memory_order_relaxed) ^ packed) == key) [[likely]]
    return Rule::of(packed);
  const Rule found = rule_of(returns);
  slot.rule.store(found.packed(), std::memory_order_relaxed);
  slot.check.store(key ^ found.packed(), std::memory_order_relaxed);
  return found;
}

// Whether rules of the kind that is known here were enough.
ANYWHERE bool Unwinder::step_through(const void *frame, uintptr_t limit, NativeStack &into) {
#if defined(__x86_64__)
  const uint32_t generation = modules.generation();
  const uintptr_t start = reinterpret_cast<uintptr_t>(frame), top = stack_of_thread().high;
  if (!stack_of_thread().holds(start)) return false;
  uintptr_t fp = load(start), returns = load(start + 8), sp = start + 16;
  while (into.count < NativeStack::kDeepest) {
    const Rule rule = this->rule(returns, generation);
    uintptr_t end;
    switch (rule.step) {
    case Step::by_sp: end = sp + rule.end; break;
    case Step::by_fp: end = fp + rule.end; break;
    case Step::through_fp: {
      const uintptr_t at = fp + rule.end;
      if (at < sp || at > top - 8 || at % 8) return true;
      end = load(at);
      break;
    }
    case Step::outermost:  // what starts the program or a thread
    case Step::unknown: return true;
    default: return false;
    }
    // A rule of code that was unloaded may say anything: nothing outside of the stack is read.
    if (end <= sp || end > top || end % 8 || end > limit) return true;
    into.frames[into.count++] = {returns, end};
    const uintptr_t saved = (rule.saved == SavedFp::from_end ? end : fp) + rule.fp;
    returns = load(end - 8);
    if (rule.saved != SavedFp::no) {
      if (saved < sp || saved > top - 8 || saved % 8) return true;
      fp = load(saved);
    }
    sp = end;
    if (!returns) return true;
  }
  return true;
#else
  (void)frame, (void)limit, (void)into;
  return false;
#endif
}

void Unwinder::walk(const void *frame, uintptr_t limit, NativeStack &into) {
  modules.refresh();  // takes 14 ns where nothing has changed
  into.count = 0;
  if (step_through(frame, limit, into)) return;
  slow_.fetch_add(1, std::memory_order_relaxed);
  into.count = 0;
  // The limit is no place on a stack that the program switched to itself.
  const Range &stack = stack_of_thread();
  if (stack.high && !stack.holds(reinterpret_cast<uintptr_t>(frame))) limit = UINTPTR_MAX;
  Tracing tracing{into, reinterpret_cast<uintptr_t>(frame) + 16, limit};
  _Unwind_Backtrace(trace, &tracing);
}

} // namespace tileprof
