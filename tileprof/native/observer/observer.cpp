// PyTorch's operations, as its own observer sees them, told to the recorder.
//
// In: the beginning and the end of operations, of the backward pass's too, and of user's ranges
// (at::RecordFunction).  Out: calls of the recorder's table.  Compiled on the machine where it runs
// against the headers of the PyTorch that is installed (profiler/observer.py); plain C at its
// border, and it stays loaded once it is.
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#else
#include <torch/csrc/autograd/function.h>
#endif

#include <type_traits>

#include "calls.h"
#include "work.h"

namespace tileprof {
namespace {

using at::RecordFunction;
using at::RecordScope;

// Where the backward pass that a thread works for was asked for. PyTorch hands it on to the threads
// that work for this one.
struct Root : c10::DebugInfoBase {
  explicit Root(uint32_t context) : context(context) {}
  const uint32_t context;
};
constexpr std::string_view kRootName = "TILEPROF_BACKWARD";

template <typename Kind> Kind root_kind() {
  // Before PyTorch 2.12 kinds were an enumeration, with two that PyTorch itself does not use.
  if constexpr (std::is_enum_v<Kind>)
    return Kind::TEST_INFO_2;
  else
    return Kind(&kRootName);
}

uint32_t backward_root() {
  auto *info = c10::ThreadLocalDebugInfo::get(root_kind<c10::DebugInfoKind>());
  return info ? static_cast<const Root *>(info)->context : 0;
}

uint32_t enter_backward(uint32_t name, uint64_t sequence, uint64_t thread) {
  // Nodes that no operation made have the largest number there is.
  const int64_t number = int64_t(sequence);
  return calls().enter_backward(name, number, thread, backward_root());
}

uint32_t enter_function(const RecordFunction &function, Thread &thread) {
  const char *name = function.name();
  const NameOf &known = thread.names.of(name);
  if (known.evaluation)
    if (const auto node = torch::autograd::get_current_node())
      return enter_backward(known.id, node->sequence_nr(), node->thread_id());
  const int64_t sequence = function.seqNr();
  // Asked for only where it is looked at: most operations are inside others, and have no number.
  const uint64_t number = sequence < 0 ? 0 : RecordFunction::currentThreadId();
  return calls().enter(known.id, sequence, number);
}

uint32_t enter(const RecordFunction &function, Thread &thread) {
  if (function.scope() == RecordScope::BACKWARD_FUNCTION)
    return enter_backward(thread.names.of(function.name()).id, uint64_t(function.seqNr()),
                          function.forwardThreadId());
  return enter_function(function, thread);
}

std::unique_ptr<at::ObserverContext> begin(const RecordFunction &function) {
  Thread &thread = this_thread();
  std::unique_ptr<Open> open(new (thread) Open);
  if (function.scope() == RecordScope::USER_SCOPE) {
    open->range = calls().open_range(thread.names.of(function.name()).id, &open->opened_by);
  } else {
    open->thread = &thread;
    open->context = enter(function, thread);
    open->around = thread.inside;
    thread.inside = open->context;
  }
  return open;
}

void end(const RecordFunction &, at::ObserverContext *context) {
  if (!context) return;
  const Open &open = *static_cast<Open *>(context);
  if (open.range) {
    calls().close_range(open.range, open.opened_by);
  } else if (open.thread == thread_if_any) {
    calls().leave(open.context);
    open.thread->inside = open.around;
  }
}

} // namespace
} // namespace tileprof

extern "C" {

// A handle for `tileprof_observer_stop`; 0 where PyTorch takes no observer.
__attribute__((visibility("default"))) uint64_t
tileprof_observer_start(const TileprofObserver *table) {
  using namespace tileprof;
  if (table->version != TILEPROF_OBSERVER_VERSION) return 0;
  set_calls(table);
  at::RecordFunctionCallback callback(begin, end);
  // Those that torch.profiler sees in a PyTorch as it is built for Python. Each further one takes
  // 50 ns of each node of a backward pass: the engine sets up its callbacks anew for each.
  callback.scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION,
                   RecordScope::TORCHSCRIPT_FUNCTION, RecordScope::USER_SCOPE});
  try {
    return at::addGlobalCallback(callback);
  } catch (...) {
    return 0;
  }
}

__attribute__((visibility("default"))) void tileprof_observer_stop(uint64_t handle) {
  try {
    at::removeCallback(handle);
  } catch (...) {
  }
}

// How many kinds of operations have their work counted from here on, in all threads.
__attribute__((visibility("default"))) int32_t tileprof_observer_count_work() {
  try {
    return tileprof::work::begin_counting();
  } catch (...) {
    return 0;
  }
}

// Around a call of the engine: what has no forward path belongs to this context.
__attribute__((visibility("default"))) void tileprof_backward_begin(uint32_t context) {
  using namespace tileprof;
  try {
    c10::ThreadLocalDebugInfo::_push(root_kind<c10::DebugInfoKind>(),
                                     std::make_shared<Root>(context));
  } catch (...) {
  }
}

__attribute__((visibility("default"))) void tileprof_backward_end() {
  using namespace tileprof;
  try {
    c10::ThreadLocalDebugInfo::_pop(root_kind<c10::DebugInfoKind>());
  } catch (...) {
    // What was put on top of it since, by a hook that began another profiler, stays.
  }
}
}
