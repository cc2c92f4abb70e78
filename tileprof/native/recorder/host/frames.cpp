#define Py_BUILD_CORE 1
#include <Python.h>
// The headers of the interpreter's own are C, and trip over this macro of the C++ build.
#undef _PyGC_FINALIZED
#include <internal/pycore_context.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_hamt.h>
#undef Py_BUILD_CORE

#include <bit>
#include <utility>

#include "host/frames.h"

namespace tileprof {
namespace {

using Interpreted = _PyInterpreterFrame;

PyObject *scope_variable = nullptr;

// Places in an open scope's entry, and attributes (profiler/host/entries.py).
constexpr Py_ssize_t kNode = 2, kThread = 3, kStop = 4;

Interpreted *innermost(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe->current_frame;
#endif
}

PyCodeObject *code_of(Interpreted *frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return (PyCodeObject *)frame->f_executable;
#else
  return frame->f_code;
#endif
}

// Whether it has begun to run its code: frames under construction and those of C have no place.
bool stands(Interpreted *frame) { return !_PyFrame_IsIncomplete(frame); }

// The same of a frame that has called another: it has begun, so its code need not be read, which no
// cache may hold.
bool calls(Interpreted *frame) {
#if PY_VERSION_HEX >= 0x030C0000
  return frame->owner != FRAME_OWNED_BY_CSTACK;
#else
  return frame != nullptr;
#endif
}

int offset_of(Interpreted *frame) {
  return _PyInterpreterFrame_LASTI(frame) * int(sizeof(_Py_CODEUNIT));
}

// Adds a frame and its callers up to `stop`; whether that was met.
bool collect(Interpreted *frame, const void *stop, std::vector<Frame> &into) {
  auto add = [&](Interpreted *each) { into.push_back({each, code_of(each), offset_of(each)}); };
  while (frame && frame != stop && !stands(frame)) frame = frame->previous;
  if (frame && frame != stop) add(frame), frame = frame->previous;
  for (; frame && frame != stop; frame = frame->previous)
    if (calls(frame)) add(frame);
  return frame == stop;
}

// The address of the instruction at which a frame stands, in its code object or just before.
uintptr_t place_of(Interpreted *frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return reinterpret_cast<uintptr_t>(frame->instr_ptr);
#else
  return reinterpret_cast<uintptr_t>(frame->prev_instr);
#endif
}

bool ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() || !Py_IsInitialized();
#else
  return _Py_IsFinalizing() || !Py_IsInitialized();
#endif
}

} // namespace

PyThreadState *python_thread() { return PyGILState_GetThisThreadState(); }

const void *innermost_frame(PyThreadState *thread) {
  if (!thread) return nullptr;
  Interpreted *frame = innermost(thread);
  while (frame && !stands(frame)) frame = frame->previous;
  return frame;
}

uintptr_t interpreter_on_stack(PyThreadState *thread) {
  if (!thread) return 0;
#if PY_VERSION_HEX >= 0x030D0000
  // Each call of the loop begins with a frame of its own, which is one of its variables.
  Interpreted *frame = innermost(thread);
  while (frame && frame->owner != FRAME_OWNED_BY_CSTACK) frame = frame->previous;
  return reinterpret_cast<uintptr_t>(frame);
#else
  return thread->cframe == &thread->root_cframe ? 0 : reinterpret_cast<uintptr_t>(thread->cframe);
#endif
}

bool collect_frames(PyThreadState *thread, const void *stop, std::vector<Frame> &into) {
  if (!thread) return stop == nullptr;
  return collect(innermost(thread), stop, into);
}

uint64_t number_of_places(PyThreadState *thread, const void *stop, bool &met) {
  Interpreted *frame = thread ? innermost(thread) : nullptr;
  uint64_t number = 0;
  const auto add = [&number](uint64_t place) {
    number = (std::rotl(number, 23) ^ place) * 0x9E3779B97F4A7C15u;
  };
  while (frame && frame != stop && !stands(frame)) frame = frame->previous;
  if (frame && frame != stop) add(place_of(frame)), frame = frame->previous;
  for (; frame && frame != stop; frame = frame->previous)
    if (calls(frame)) add(place_of(frame));
  met = frame == stop;
  return number;
}

void collect_frames_from(const void *innermost, std::vector<Frame> &into) {
  collect(static_cast<Interpreted *>(const_cast<void *>(innermost)), nullptr, into);
}

const void *frame_behind(PyObject *frame) {
  return frame && frame != Py_None ? ((struct _frame *)frame)->f_frame : nullptr;
}

bool hold(PyCodeObject *code) {
  if (ending()) return false;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_INCREF(code);
  PyGILState_Release(state);
  return true;
}

void set_scope_variable(PyObject *variable) {
  Py_XINCREF(variable);
  scope_variable = variable;
}

// The context variables of a thread, nullptr where it has none.
static PyObject *variables_of(PyThreadState *thread) {
  if (!thread || !thread->context) return nullptr;
  return (PyObject *)((PyContext *)thread->context)->ctx_vars;
}

const PythonScope &ScopeReader::read(PyThreadState *thread) {
  PyObject *variables = variables_of(thread);
  if (variables != variables_) resolve(variables);
  return scope_;
}

bool ScopeReader::unchanged(PyThreadState *thread, const void *frame) const {
  return innermost(thread) == frame && variables_of(thread) == variables_;
}

const void *ScopeReader::stop() const {
  if (scope_.elsewhere) return nullptr;
  // Read again each time: a scope that another task closes lets go of its frame.
  return entry_ ? frame_behind(PyList_GET_ITEM(entry_, kStop)) : nullptr;
}

void ScopeReader::resolve(PyObject *variables) {
  if (ending()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *entry = nullptr;
  if (variables && scope_variable) PyContextVar_Get(scope_variable, nullptr, &entry);
  if (entry && !adopt(entry)) Py_CLEAR(entry);
  if (!entry) scope_ = PythonScope{};
  PyErr_Clear();
  // Holding the variables, no later ones can have their address; the entry holds its frame.
  Py_XINCREF(variables);
  std::swap(variables, variables_);
  std::swap(entry, entry_);
  Py_XDECREF(variables);
  Py_XDECREF(entry);
  PyGILState_Release(state);
}

// Takes a scope over; false where it is one of a recording that has ended.
bool ScopeReader::adopt(PyObject *entry) {
  if (!PyList_CheckExact(entry) || PyList_GET_SIZE(entry) <= kStop) return false;
  PyObject *owner = PyObject_GetAttrString(PyList_GET_ITEM(entry, kThread), "ident");
  PyObject *number = PyObject_GetAttrString(PyList_GET_ITEM(entry, kNode), "index");
  const long ident = owner && number ? PyLong_AsLong(owner) : -1;
  if (ident != -1) {
    scope_.node = PyLong_AsUnsignedLong(number);
    scope_.elsewhere = ident != long(PyThread_get_thread_ident());
    // Outside of all scopes is the same for a thread that was never in one.
    scope_.identity = scope_.node && !scope_.elsewhere ? entry : nullptr;
  }
  Py_XDECREF(owner);
  Py_XDECREF(number);
  return ident != -1;
}

void ScopeReader::forget() {
  variables_ = entry_ = nullptr;
  scope_ = PythonScope{};
}

} // namespace tileprof
