// PyTorch's operations, passed from its own observer to the recorder.
//
// In: the beginning and the end of operations, of nodes of the backward pass, and of user's ranges
// (at::RecordFunction).  Out: calls of the recorder's table.  Compiled on the machine where it runs
// against the headers of the PyTorch that is installed (profiler/frameworks/observer.py); plain C at
// its border, and it stays loaded once it is.
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#else
#include <torch/csrc/autograd/function.h>
#endif

#include <type_traits>
#include <unordered_set>

#include "calls.h"
#include "work.h"

namespace tileprof {
namespace {

using at::RecordFunction;
using at::RecordScope;

// State of the backward pass that a thread works for: where it was asked for, and whether the
// operations inside its nodes are observed. PyTorch hands it on to the threads that work for this
// one.
struct Pass : c10::DebugInfoBase {
  Pass(uint32_t root, bool operations) : root(root), operations(operations) {}
  const uint32_t root;
  const bool operations;
};
constexpr std::string_view kPassName = "TILEPROF_BACKWARD";

template <typename Kind> Kind pass_kind() {
  // Before PyTorch 2.12 kinds were an enumeration, with two that PyTorch itself does not use.
  if constexpr (std::is_enum_v<Kind>)
    return Kind::TEST_INFO_2;
  else
    return Kind(&kPassName);
}

const Pass *this_pass() {
  return static_cast<const Pass *>(c10::ThreadLocalDebugInfo::get(pass_kind<c10::DebugInfoKind>()));
}

uint32_t root_of(const Pass *pass) { return pass ? pass->root : 0; }

// Operations inside a node of the backward pass are two thirds of all in training, and the engine
// makes a name for each node while they are observed. So they are only where that is asked for,
// where the pass is differentiated itself, and in nodes of Python, which may run a forward pass.
std::atomic<bool> everything{false};
bool observes_inside(const Pass *pass) {
  return everything.load(std::memory_order_relaxed) || (pass && pass->operations);
}
// Whether operations are observed in all threads, or in those that asked for it.
std::atomic<bool> all_threads{false};
std::atomic<bool> observing{false};

// -- operations

uint32_t enter_backward(Thread &in, uint32_t name, uint64_t sequence, uint64_t thread,
                        const Pass *pass, const RecordFunction &function) {
  // Nodes that no operation made have the largest number there is.
  return calls().enter_backward(in.recorded, name, int64_t(sequence), thread, root_of(pass),
                                &function);
}

void step(Thread &thread, uint32_t context);

std::unique_ptr<at::ObserverContext> enter_operation(Thread &thread, const NameOf &known,
                                                     const RecordFunction &function) {
  thread.inside = calls().enter(thread.recorded, known.id, function.seqNr(), function.threadId(),
                                &function);
  thread.latest = &function;
  step(thread, thread.inside);
  return std::unique_ptr<at::ObserverContext>(&entered);
}

// What the engine does besides running a node, as sums of gradients, is passed over where operations
// are observed in all threads. A node of Python within is observed again.
std::unique_ptr<at::ObserverContext> begin_evaluation(Thread &thread, const NameOf &known,
                                                      const RecordFunction &function) {
  const Pass *pass = this_pass();
  if (!observes_inside(pass)) {
    std::unique_ptr<Open> open(new (thread) Open);
    open->thread = &thread;
    open->was_quiet = std::exchange(thread.quiet, true);
    return open;
  }
  const auto node = torch::autograd::get_current_node();
  if (!node) return enter_operation(thread, known, function);
  thread.inside = enter_backward(thread, known.id, node->sequence_nr(), node->thread_id(), pass,
                                 function);
  thread.latest = &function;
  step(thread, thread.inside);
  return std::unique_ptr<at::ObserverContext>(&entered);
}

std::unique_ptr<at::ObserverContext> begin_function(const RecordFunction &function) {
  if (!observing.load(std::memory_order_relaxed)) return nullptr;
  Thread &thread = this_thread();
  if (thread.quiet) return nullptr;
  const NameOf &known = thread.names.of(function);
  if (known.evaluation) [[unlikely]] return begin_evaluation(thread, known, function);
  return enter_operation(thread, known, function);
}

// Begins an operation for the callback that a thread asked for.
std::unique_ptr<at::ObserverContext> begin_in_thread(const RecordFunction &function) {
  if (all_threads.load(std::memory_order_relaxed)) return nullptr;
  return begin_function(function);
}

void end(const RecordFunction &function, at::ObserverContext *context);

// -- which threads' operations

using Begin = at::RecordFunctionCallback::StartCallback;

// The callback that the calling thread has with this beginning, its own or one that it took over
// with a task; 0: none.
at::CallbackHandle of_thread(Begin begin = begin_in_thread) {
  for (const auto &entry : at::get_record_function_tls_().sorted_tls_callbacks_)
    if (entry.callback_.start() == begin) return entry.handle_;
  return 0;
}

// -- samples of operations' tensors

void end_sample(const RecordFunction &function, at::ObserverContext *context);
std::unique_ptr<at::ObserverContext> begin_sample(const RecordFunction &function);

// Has the tensors of the calling thread's operations handed over, or no longer.
void sample_functions(Thread &thread, bool now) {
  thread.sampling.change(now);
  const at::CallbackHandle handle = of_thread(begin_sample);
  if (!now && handle) at::removeCallback(handle);
  if (!now || handle) return;
  at::RecordFunctionCallback callback(begin_sample, end_sample);
  callback.scopes({RecordScope::FUNCTION}).needsInputs(true).needsOutputs(true);
  at::addThreadLocalCallback(callback);
}

std::unique_ptr<at::ObserverContext> begin_sample(const RecordFunction &function) {
  Thread &thread = this_thread();
  if (!thread.sampling.on || !observing.load(std::memory_order_relaxed)) {
    // It was taken over with a task, or stayed when the observer left.
    if (const at::CallbackHandle handle = of_thread(begin_sample)) at::removeCallback(handle);
    return nullptr;
  }
  thread.sampling.unheard = 0;
  if (thread.latest != &function || !thread.inside) return nullptr;
  const moved::Signature &signature = thread.signatures.of(function);
  moved::Moved moved;
  if (!moved::add_arguments(signature, function.inputs(), moved)) return nullptr;
  std::unique_ptr<Sample> sample(new (thread) Sample);
  sample->thread = &thread;
  sample->context = thread.inside;
  sample->results = signature.results;
  sample->result_count = signature.result_count;
  sample->moved = moved;
  const size_t count = signature.arguments.size();
  const auto arguments = function.inputs().slice(function.inputs().size() - count);
  facts::add_facts(signature.question, arguments, thread.tables, sample->visit);
  return sample;
}

void end_sample(const RecordFunction &function, at::ObserverContext *context) {
  if (!context) return;
  Sample &sample = *static_cast<Sample *>(context);
  if (sample.thread != known_thread()) return;
  if (!moved::add_results(sample.results, sample.result_count, function.outputs(), sample.moved))
    return;
  sample.visit.bytes = sample.moved.bytes;
  calls().sample(sample.context, &sample.visit);
}

// Another operation has begun.
void step(Thread &thread, uint32_t context) {
  Sampling &sampling = thread.sampling;
  // The engine puts its own callbacks in place of ours with each node.
  const bool lost = sampling.on && ++sampling.unheard > 2;
  if (!sampling.changes(context) && !lost) [[likely]] return;
  sample_functions(thread, lost || !sampling.on);
}

// Lets the calling thread's operations be observed from here on; whether that is new.
bool observe_functions() {
  if (all_threads.load(std::memory_order_relaxed) || of_thread()) return false;
  at::RecordFunctionCallback callback(begin_in_thread, end);
  callback.scopes({RecordScope::FUNCTION});
  at::addThreadLocalCallback(callback);
  return true;
}

// Whether they were observed.
bool ignore_functions() {
  const at::CallbackHandle handle = of_thread();
  if (handle) at::removeCallback(handle);
  if (Thread *thread = known_thread(); thread && thread->sampling.on)
    sample_functions(*thread, false);
  return handle;
}

// -- nodes of the backward pass, ranges

void begin_node(const RecordFunction &function, Thread &thread, Open &open) {
  const NameOf &known = thread.names.of(function);
  const Pass *pass = this_pass();
  open.thread = &thread;
  open.node = true;
  thread.inside = enter_backward(thread, known.id, uint64_t(function.seqNr()),
                                 function.forwardThreadId(), pass, function);
  const bool observed = known.python || observes_inside(pass);
  open.was_quiet = std::exchange(thread.quiet, !observed);
  open.observes = observed && observe_functions();
}

std::unique_ptr<at::ObserverContext> begin(const RecordFunction &function) {
  const RecordScope scope = function.scope();
  if (scope != RecordScope::BACKWARD_FUNCTION && scope != RecordScope::USER_SCOPE)
    return begin_function(function);
  Thread &thread = this_thread();
  std::unique_ptr<Open> open(new (thread) Open);
  if (scope == RecordScope::USER_SCOPE)
    open->range = calls().open_range(thread.names.of(function).id, &open->opened_by);
  else
    begin_node(function, thread, *open);
  return open;
}

void leave(Thread &thread, const RecordFunction &function) {
  thread.inside = calls().leave(thread.recorded, &function);
}

void end(const RecordFunction &function, at::ObserverContext *context) {
  if (!context) return;
  if (context == &entered) [[likely]] return leave(this_thread(), function);
  const Open &open = *static_cast<Open *>(context);
  if (open.range) return calls().close_range(open.range, open.opened_by);
  if (!open.thread || open.thread != known_thread()) return;
  if (open.node) leave(this_thread(), function);
  open.thread->quiet = open.was_quiet;
  if (open.observes) ignore_functions();
}

} // namespace
} // namespace tileprof

extern "C" {

// A handle for `tileprof_observer_stop`; 0 where PyTorch takes no observer. With `threads`
// operations are observed in all threads, else in those that call `tileprof_observer_thread`; with
// `all`, inside nodes of the backward pass too.
__attribute__((visibility("default"))) uint64_t
tileprof_observer_start(const TileprofObserver *table, int32_t threads, int32_t all) {
  using namespace tileprof;
  if (table->version != TILEPROF_OBSERVER_VERSION) return 0;
  set_calls(table);
  everything = all;
  all_threads = threads;
  // Those that torch.profiler sees in a PyTorch as it is built for Python. Each further one takes
  // 50 ns of each node of a backward pass: the engine sets up its callbacks again for each.
  std::unordered_set<RecordScope, std::hash<RecordScope>> scopes = {
      RecordScope::BACKWARD_FUNCTION, RecordScope::TORCHSCRIPT_FUNCTION, RecordScope::USER_SCOPE};
  if (threads) scopes.insert(RecordScope::FUNCTION);
  at::RecordFunctionCallback callback(begin, end);
  callback.scopes(scopes);
  try {
    const uint64_t handle = at::addGlobalCallback(callback);
    observing = true;
    return handle;
  } catch (...) {
    return 0;
  }
}

// Has the operations of the calling thread observed, until it stops the observer itself.
__attribute__((visibility("default"))) void tileprof_observer_thread() {
  using namespace tileprof;
  try {
    observe_functions();
  } catch (...) {
  }
}

__attribute__((visibility("default"))) void tileprof_observer_stop(uint64_t handle) {
  using namespace tileprof;
  observing = false;
  try {
    at::removeCallback(handle);
    // Those of other threads stay, and see nothing.
    ignore_functions();
  } catch (...) {
  }
}

// Around a forward pass that runs again within a node of the backward pass: its operations are
// observed. Returns what `tileprof_again_end` wants.
__attribute__((visibility("default"))) int32_t tileprof_again_begin() {
  using namespace tileprof;
  try {
    Thread &thread = this_thread();
    const bool was_quiet = std::exchange(thread.quiet, false);
    return int32_t(was_quiet) | (observe_functions() ? 2 : 0);
  } catch (...) {
    return 0;
  }
}

__attribute__((visibility("default"))) void tileprof_again_end(int32_t begun) {
  using namespace tileprof;
  try {
    if (begun & 2) ignore_functions();
    this_thread().quiet = begun & 1;
  } catch (...) {
  }
}

// Number of kinds of operations whose work is counted from here on, in all threads.
__attribute__((visibility("default"))) int32_t tileprof_observer_count_work() {
  try {
    return tileprof::work::begin_counting();
  } catch (...) {
    return 0;
  }
}

// Around a call of the engine: what has no forward path belongs to this context. With `again` the
// pass is differentiated itself, so that its operations are observed. Returns what
// `tileprof_backward_end` wants.
__attribute__((visibility("default"))) int32_t tileprof_backward_begin(uint32_t context,
                                                                       int32_t again) {
  using namespace tileprof;
  try {
    c10::ThreadLocalDebugInfo::_push(pass_kind<c10::DebugInfoKind>(),
                                     std::make_shared<Pass>(context, again != 0));
    // The engine's threads take over what is observed in this one.
    return !again && !everything.load(std::memory_order_relaxed) && ignore_functions();
  } catch (...) {
    return 0;
  }
}

__attribute__((visibility("default"))) void tileprof_backward_end(int32_t observes) {
  using namespace tileprof;
  try {
    if (observes) observe_functions();
    c10::ThreadLocalDebugInfo::_pop(pass_kind<c10::DebugInfoKind>());
  } catch (...) {
    // Anything put on top of it since, by a hook that began another profiler, stays.
  }
}

// The context of the node that the calling thread evaluates; 0 where it evaluates none. For what
// the engine does for a node besides running it: sums of gradients, for example.
__attribute__((visibility("default"))) uint32_t tileprof_backward_here() {
  using namespace tileprof;
  try {
    const auto node = torch::autograd::get_current_node();
    if (!node) return 0;
    const NameOf &known = this_thread().names.of(node->name());
    return calls().find_backward(known.id, int64_t(node->sequence_nr()), node->thread_id(),
                                 root_of(this_pass()));
  } catch (...) {
    return 0;
  }
}
}
