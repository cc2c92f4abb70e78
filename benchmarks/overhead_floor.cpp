// An observer of PyTorch's operations that does nothing: what PyTorch itself takes to tell of them.
//
// Observes what `tileprof run` does: operations of the threads that ask for it, nodes of backward
// passes everywhere.  Compiled by overhead_floor.py.
#include <ATen/record_function.h>

namespace {

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &) { return nullptr; }
void end(const at::RecordFunction &, at::ObserverContext *) {}

at::RecordFunctionCallback callback() { return at::RecordFunctionCallback(begin, end); }

} // namespace

#pragma GCC visibility push(default)
extern "C" {

void floor_observe_nodes() {
  using at::RecordScope;
  at::addGlobalCallback(callback().scopes({RecordScope::BACKWARD_FUNCTION, RecordScope::USER_SCOPE,
                                           RecordScope::TORCHSCRIPT_FUNCTION}));
}

uint64_t floor_observe_operations() {
  return at::addThreadLocalCallback(callback().scopes({at::RecordScope::FUNCTION}));
}

void floor_ignore_operations(uint64_t handle) { at::removeCallback(handle); }
}
#pragma GCC visibility pop
