// The call of a framework that runs a backward pass, with the context it is made in told before.
//
// A function in C has no frame: it shows neither on call paths nor in tracebacks.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "recorder.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

using Begin = void (*)(uint32_t context);
using End = void (*)();

// `begin` and `end` are addresses in the framework's observer, or 0.
nb::object around_backward(nb::object engine, uintptr_t begin, uintptr_t end) {
  return nb::cpp_function([=](nb::args args, nb::kwargs kwargs) {
    Recorder &shared = recorder();
    if (!shared.epoch.load(std::memory_order_relaxed)) return engine(*args, **kwargs);
    const ContextId here = this_thread().here();
    shared.backward_root.store(here, std::memory_order_relaxed);
    struct Guard {
      End end;
      ~Guard() {
        if (end) end();
      }
    } guard{reinterpret_cast<End>(end)};
    if (begin) reinterpret_cast<Begin>(begin)(here);
    return engine(*args, **kwargs);
  });
}

} // namespace

void bind_backward(nb::module_ &m) { m.def("around_backward", around_backward); }

} // namespace tileprof
