// The Python frames of the calling thread, read without the GIL.
//
// That is safe because a thread that is in C changes none of its own frames, and no other thread
// does: others at most attach a frame object. Code objects are alive as long as their frames are;
// a context that names one holds it for ever, so its address means it for ever.
#pragma once

#include <cstdint>
#include <vector>

#include "host/contexts.h"

struct PyCodeObject;
struct _object;
struct _ts;

namespace tileprof {

struct Frame {
  const void *id;  // the interpreter's frame: the same while the call lasts
  PyCodeObject *code;
  int offset;  // of the instruction, in bytes

  bool same_place(const Frame &other) const { return code == other.code && offset == other.offset; }
};

// The scope of Python's that is innermost for the calling thread, as far as it is known.
struct PythonScope {
  const void *identity = nullptr;  // of the open scope, nullptr outside of all
  uint64_t node = 0;  // its number in Python's tree; 0: outside of all
  bool elsewhere = false;  // opened in another thread, whose context this one runs in a copy of
};

// The interpreter's state of the calling thread, nullptr where it has none. Asked for once for each
// event: a thread may get another one.
_ts *python_thread();
// The innermost frame of the calling thread, nullptr where it runs no Python.
const void *innermost_frame(_ts *thread);
inline const void *innermost_frame() { return innermost_frame(python_thread()); }
// Something on the C stack that belongs to the innermost call of the interpreter's loop; 0 where there
// is none. What was called since lies below it.
uintptr_t interpreter_on_stack(_ts *thread);
// Appends the frames of the calling thread, whose state is `thread`, from the innermost out to
// `stop`, which is not one of them; whether it was met.
bool collect_frames(_ts *thread, const void *stop, std::vector<Frame> &into);
// A number for the places at which these frames stand: equal for the same instructions in the same
// order, and for others once in 2^64. `met` says whether `stop` was met. A place has its number as
// long as its code object is alive, so a context of these frames, which hold theirs, has it for ever.
uint64_t number_of_places(_ts *thread, const void *stop, bool &met);
// The same frames as `collect_frames` gives, from a frame of another thread, which must hold still: the caller has the GIL.
void collect_frames_from(const void *innermost, std::vector<Frame> &into);
// The interpreter's frame behind a frame object, nullptr for None.
const void *frame_behind(_object *frame);
// Holds a code object for ever; takes the GIL.
bool hold(PyCodeObject *code);

// Finds the innermost scope; keeps what it found while the thread's context variables stay as they
// are. Takes the GIL only when they have changed.
class ScopeReader {
public:
  const PythonScope &read(_ts *thread);
  const PythonScope &read() { return read(python_thread()); }
  // Whether `read` would find what it found last and `frame` is still the innermost one; false too
  // where that takes more than a look. Takes no GIL.
  bool unchanged(_ts *thread, const void *frame) const;
  // What was read last; the thread may have opened or closed scopes since.
  const PythonScope &last() const { return scope_; }
  // The frame that opened the scope last read, nullptr where there is none any more.
  const void *stop() const;
  void forget();

private:
  _object *variables_ = nullptr;
  _object *entry_ = nullptr;
  PythonScope scope_;

  void resolve(_object *variables);
  bool adopt(_object *entry);
};

// The context variable that holds Python's open scopes (profiler/host/entries.py), and its layout.
void set_scope_variable(_object *variable);

} // namespace tileprof
