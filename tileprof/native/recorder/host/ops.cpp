#include "host/entries.h"
#include "host/recorder.h"

namespace tileprof {
namespace {

// Ranges of a framework's own, as NVTX has domains.
constexpr std::string_view kRangeDomain = "framework";

uint32_t name(const char *text) { return recorder().names.intern(text); }

void *thread() { return &this_thread(); }

uint32_t enter(void *in, uint32_t name, int64_t sequence, uint64_t number,
               const void *function) {
  if (!recorder().epoch.load(std::memory_order_relaxed)) return 0;
  Thread &thread = *static_cast<Thread *>(in);
  const ContextId context = thread.enter_operation(name, function);
  if (sequence >= 0) {
    // Of nested operations with one number the innermost comes last, and it is the one whose
    // backward has that number.
    if (thread.number() != number) {
      thread.set_number(number);
      recorder().name_thread(number, thread);
    }
    thread.forward().put(sequence, context);
  }
  return context;
}

// The parent of a backward operation: its forward operation, or for a gradient that no operation
// made the call that asked for the backward pass; 0: the path that leads here.
ContextId origin_of(Thread &thread, int64_t sequence, uint64_t forward_thread, uint32_t root) {
  ContextId forward = 0;
  if (sequence >= 0)
    if (Thread *origin = thread.named(forward_thread))
      forward = origin->forward().find(sequence);
  if (forward) return forward;
  if (!root && !thread.has_frames()) root = recorder().backward_root.load(std::memory_order_relaxed);
  return root;
}

uint32_t enter_backward(void *in, uint32_t name, int64_t sequence, uint64_t forward_thread,
                        uint32_t root, const void *function) {
  if (!recorder().epoch.load(std::memory_order_relaxed)) return 0;
  Thread &thread = *static_cast<Thread *>(in);
  // The framework's own brackets around one another, all of the same operation.
  if (thread.is_right_in(Kind::backward)) return thread.enter(Kind::backward, name, 0, function);
  if (const ContextId origin = origin_of(thread, sequence, forward_thread, root))
    return thread.enter_under(origin, Kind::backward, name, 0, function);
  return thread.enter(Kind::backward, name, 0, function);
}

uint32_t find_backward(uint32_t name, int64_t sequence, uint64_t forward_thread, uint32_t root) {
  if (!recorder().epoch.load(std::memory_order_relaxed)) return 0;
  Thread &thread = this_thread();
  return thread.child(origin_of(thread, sequence, forward_thread, root), Kind::backward, name);
}

uint32_t leave(void *in, const void *function) {
  return static_cast<Thread *>(in)->leave_operation(function);
}

uint64_t open_range(uint32_t name, void **in) {
  Recorder &shared = recorder();
  if (!shared.epoch.load(std::memory_order_relaxed)) return 0;
  Thread &thread = this_thread();
  *in = &thread;
  return thread.open_range(name, shared.names.intern(kRangeDomain));
}

void close_range(uint64_t range, void *in) {
  Thread *thread = static_cast<Thread *>(in);
  if (thread == &this_thread())
    thread->close_range(range);
  else
    thread->ended_elsewhere(range);
}

void work(uint32_t context, double flops, double bytes) {
  if (context) this_thread().add_work(context, flops, bytes);
}

void sample(uint32_t context, const TileprofVisit *visit) {
  if (context) this_thread().add_sample(context, *visit);
}

} // namespace

const TileprofObserver *observer_table() {
  static const TileprofObserver table = {
      TILEPROF_OBSERVER_VERSION, name,          thread, recorder().forks(), enter,
      enter_backward,            find_backward, leave,  open_range,         close_range,
      work,                      sample};
  return &table;
}

} // namespace tileprof
