// A framework's call that runs a backward pass, with the context in which it is made.
//
// A function in C has no frame: it shows neither on call paths nor in tracebacks.
#include <nanobind/nanobind.h>

#include "bindings/bindings.h"
#include "host/recorder.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

using Begin = int32_t (*)(uint32_t context, int32_t again);
using End = void (*)(int32_t begun);

// Whether the pass is differentiated itself: `create_graph`, the fourth argument of the engine.
bool goes_on(const nb::args &args, const nb::kwargs &kwargs) {
  if (args.size() > 3) return PyObject_IsTrue(args[3].ptr()) == 1;
  return kwargs.contains("create_graph") && PyObject_IsTrue(kwargs["create_graph"].ptr()) == 1;
}

// `begin` and `end` are addresses in the framework's observer, or 0.
nb::object around_backward(nb::object engine, uintptr_t begin, uintptr_t end) {
  return nb::cpp_function([=](nb::args args, nb::kwargs kwargs) {
    Recorder &shared = recorder();
    if (!shared.epoch.load(std::memory_order_relaxed)) return engine(*args, **kwargs);
    const ContextId here = this_thread().here();
    shared.backward_root.store(here, std::memory_order_relaxed);
    struct Guard {
      End end;
      int32_t begun;
      ~Guard() {
        if (end) end(begun);
      }
    } guard{reinterpret_cast<End>(end), 0};
    if (begin) guard.begun = reinterpret_cast<Begin>(begin)(here, goes_on(args, kwargs));
    return engine(*args, **kwargs);
  });
}

// `address` is that of a function of the framework's observer; 0: it has left.
void ask_besides(uintptr_t address) {
  recorder().besides = reinterpret_cast<ContextId (*)()>(address);
}

} // namespace

void bind_backward(nb::module_ &m) {
  m.def("around_backward", around_backward);
  m.def("ask_besides", ask_besides);
}

} // namespace tileprof
