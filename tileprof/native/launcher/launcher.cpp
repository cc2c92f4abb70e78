// A warm call of a kernel without Python: arguments are compared with those of an earlier call, and
// where nothing but addresses and plain scalars differs, the kernel is launched at once.
//
// In: `Plan`s, which runtime/cuda/native_launcher.py makes of calls that have succeeded.  Out: a Python
// function that takes the tuple of arguments and gives the outputs, or NotImplemented where no plan
// fits; and a type for the kernels that users call, whose instances are called so by Python at once.

#include <unistd.h>

#include <vector>

#include "gate.h"
#include "launching.h"

static const char *const kName = "tileprof.launcher";
static const int kMostPlans = 32;

// Whether the environment asks for another device or for plain Python.  It may change at any time,
// and then one of its pointers does: only after that its texts are read again.  An array of pointers
// that stays where it is has room for those that it had.
class Settings {
 public:
  bool ask_for_more() {
    if (!environ) return false;
    if (environ != array_ || memcmp(environ, seen_.data(), seen_.size() * sizeof(char *))) read();
    return more_;
  }

 private:
  void read() {
    array_ = environ;
    seen_.clear();
    more_ = false;
    for (char **each = environ; *each; each++) {
      seen_.push_back(*each);
      for (const char *name : {"TILEPROF_DEVICE=", "TILEPROF_DEBUG="})
        if (!strncmp(*each, name, strlen(name))) more_ = true;
    }
    seen_.push_back(nullptr);
  }
  char **array_ = nullptr;
  std::vector<const char *> seen_;
  bool more_ = false;
};

struct Launcher {
  Environment env;
  std::vector<Held> objects;
  std::vector<PlanReference> plans;
};

// The type of capsules, and where their pointers lie in them, in bytes; 0 where that is not known.
static PyObject *capsule_type;
static int64_t type_at, pointer_at;

// Read the pointer without a comparison of names: objects of the types made here have no others.
static Launcher *launcher_of(PyObject *capsule) {
  if (pointer_at && capsule && at_offset<PyObject *>(capsule, type_at) == capsule_type)
    return at_offset<Launcher *>(capsule, pointer_at);
  return (Launcher *)PyCapsule_GetPointer(capsule, kName);
}

static void find_pointer(PyObject *capsule, const Environment &env, const Launcher *held) {
  type_at = env.layout.type_at;
  capsule_type = type_of(env, capsule);
  for (int64_t at = type_at + 8; at <= type_at + 32 && !pointer_at; at += 8)
    if (at_offset<const Launcher *>(capsule, at) == held) pointer_at = at;
}

// Whether somebody wants to see every call, or has chosen another device for it.
static bool is_watched(const Environment &env) {
  static Settings settings;
  if (PyDict_GetItemWithError(env.hooks, env.listener) != env.none || settings.ask_for_more()) return true;
  if (!*env.ever_chosen) return false;
  PyObject *chosen = nullptr;
  if (env.value_of(env.chosen, env.none, &chosen)) PyErr_Clear();
  if (chosen) Py_DecRef(chosen);
  return chosen != env.none;
}

static PyObject *launch(Launcher *launcher, PyObject *arguments) {
  const Environment &env = launcher->env;
  if (is_watched(env)) return missed(env);
  Given given(env, arguments);
  if (given.count >= kSlots) return missed(env);
  auto &plans = launcher->plans;
  for (size_t at = 0; at < plans.size(); at++) {
    if (!fits(*plans[at], given)) continue;
    if (at) std::swap(plans[at], plans[0]);
    const PlanReference plan = plans[0];
    return run(env, *plan, given);
  }
  return missed(env);
}

static PyObject *call(PyObject *self, PyObject *arguments) {
  Launcher *launcher = launcher_of(self);
  return launcher ? launch(launcher, arguments) : nullptr;
}

// -- calls of an object

static int64_t capsule_at;  // in the objects of all types that are made here

// The arguments in the order of the parameters, with defaults; null where names do not fit, which
// the whole way says.
static PyObject *in_order(const Environment &env, PyObject *arguments, PyObject *named) {
  const Py_ssize_t given = PyTuple_Size(arguments), count = PyTuple_Size(env.names);
  if (given > count) return nullptr;
  PyObject *made = PyTuple_New(count);
  Py_ssize_t used = 0;
  for (Py_ssize_t at = 0; made && at < count; at++) {
    PyObject *value = at < given ? PyTuple_GetItem(arguments, at)
                                 : PyDict_GetItem(named, PyTuple_GetItem(env.names, at));
    if (at >= given && value) used++;
    if (!value) value = PyTuple_GetItem(env.defaults, at);
    Py_IncRef(value);
    PyTuple_SetItem(made, at, value);
  }
  if (made && used == PyDict_Size(named)) return made;
  if (made)
    Py_DecRef(made);
  else
    PyErr_Clear();
  return nullptr;
}

static PyObject *call_whole(const Environment &env, PyObject *self, PyObject *arguments,
                            PyObject *named) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  PyObject *whole = PyObject_GetAttrString(env.kind, "__call__");
  PyObject *all = whole ? PyTuple_New(count + 1) : nullptr;
  if (!all) {
    if (whole) Py_DecRef(whole);
    return nullptr;
  }
  for (Py_ssize_t at = 0; at <= count; at++) {
    PyObject *each = at ? PyTuple_GetItem(arguments, at - 1) : self;
    Py_IncRef(each);
    PyTuple_SetItem(all, at, each);
  }
  PyObject *made = PyObject_Call(whole, all, named);
  Py_DecRef(all);
  Py_DecRef(whole);
  return made;
}

static PyObject *call_object(PyObject *self, PyObject *arguments, PyObject *named) {
  Launcher *launcher = launcher_of(at_offset<PyObject *>(self, capsule_at));
  if (!launcher) return nullptr;
  const Environment &env = launcher->env;
  PyObject *ordered = nullptr, *made = env.missed;
  if (!named || !PyDict_Size(named)) {
    made = launch(launcher, arguments);
  } else if ((ordered = in_order(env, arguments, named))) {
    made = launch(launcher, ordered);
    Py_DecRef(ordered);
  } else {
    Py_IncRef(made);
  }
  if (made != env.missed) return made;
  Py_DecRef(made);
  return call_whole(env, self, arguments, named);
}

// -- the way in

static void forget(PyObject *capsule) {
  delete launcher_of(capsule);
}

#define TP_EXPORT extern "C" __attribute__((visibility("default")))

#ifndef TP_SOURCES
#define TP_SOURCES ""
#endif
// Digests of the sources that an installed library was made of, in the order of their names.
TP_EXPORT const char *tp_launcher_sources(void) { return TP_SOURCES; }

// A new launcher in a capsule, without plans.
TP_EXPORT PyObject *tp_launcher(const Environment *env) {
  Launcher *made = new Launcher{*env, {}, {}};
  for (PyObject *held :
       {env->missed, env->none, env->tensor, env->parameter, env->integer, env->real, env->text,
        env->boolean, env->kind, env->names, env->defaults, env->hooks, env->listener, env->chosen})
    made->objects.emplace_back(held);
  PyObject *capsule = PyCapsule_New(made, kName, forget);
  if (capsule) find_pointer(capsule, *env, made);
  return capsule;
}

// The Python function of a launcher: from the tuple of arguments to the outputs.
TP_EXPORT PyObject *tp_launcher_function(PyObject *capsule) {
  static PyMethodDef method = {"launch", call, kOneArgument, "Launch on these arguments."};
  return PyCFunction_NewEx(&method, capsule, nullptr);
}

// The Python function of an operator's gate.
TP_EXPORT PyObject *tp_launcher_gate(const GateRecipe *recipe) {
  static PyMethodDef method = {"pass", pass, kOneArgument, "Ask who hears of a call."};
  PyObject *capsule = PyCapsule_New(new Gate(*recipe), kGateName, forget_gate);
  PyObject *made = PyCFunction_NewEx(&method, capsule, nullptr);
  Py_DecRef(capsule);
  return made;
}

// A type like `base` whose instances, each with the capsule of a launcher at an offset, call that
// before the function of `base`.
TP_EXPORT PyObject *tp_launcher_type(PyObject *base, const char *name, int64_t offset) {
  capsule_at = offset;
  PyType_Slot slots[] = {{kCallSlot, (void *)call_object}, {0, nullptr}};
  PyType_Spec spec = {name, 0, 0, kDefaultFlags, slots};
  PyObject *bases = PyTuple_New(1);
  Py_IncRef(base);
  PyTuple_SetItem(bases, 0, base);
  PyObject *made = PyType_FromSpecWithBases(&spec, bases);
  Py_DecRef(bases);
  return made;
}

static Launch launch_of(const LaunchRecipe &from) {
  Launch made = {from.function, *from.config};
  made.bytes.assign(from.bytes, from.bytes + from.size);
  made.offsets.assign(from.offsets, from.offsets + from.count);
  made.fields.assign(from.fields, from.fields + from.field_count);
  made.maps.assign(from.maps, from.maps + from.map_count);
  made.encoded.resize(from.map_count);
  return made;
}

// Keep a plan; 1, or 0 where its arguments cannot be compared here.
TP_EXPORT int tp_launcher_add(PyObject *capsule, const Recipe *from) {
  Launcher *launcher = launcher_of(capsule);
  const Py_ssize_t count = PyTuple_Size(from->arguments);
  if (count + from->output_count >= kSlots) return 0;
  Plan *plan = new Plan(*from);
  PlanReference reference(plan);
  Tensor slots[kSlots] = {};
  bool ok = true;
  size_t room = 0;
  for (int at = 0; at < count; at++) {
    PyObject *object = PyTuple_GetItem(from->arguments, at);
    plan->arguments.push_back(expected(launcher->env, object, from->kinds[at], &ok));
    slots[at] = plan->arguments.back().tensor;
  }
  if (!ok) return 0;
  for (int at = 0; at < from->launch_count; at++) {
    if (from->launches[at].size > kMostBytes || from->launches[at].count > kMostBytes / 8) return 0;
    plan->launches.push_back(launch_of(from->launches[at]));
    room += plan->launches.back().room();
  }
  if (room > (size_t)kMostOfPlan) return 0;
  for (Py_ssize_t at = 0; at < PyTuple_Size(from->names); at++)
    plan->depends.push_back(
        {Held(PyTuple_GetItem(from->names, at)), Held(PyTuple_GetItem(from->values, at))});
  for (int at = 0; at < from->output_count; at++) {
    const OutputRecipe &each = from->outputs[at];
    plan->outputs.push_back({Held(each.allocate),
                             {each.shape, each.shape + each.rank},
                             {each.strides, each.strides + each.rank},
                             each.dtype,
                             each.device_type,
                             each.device});
  }
  plan->returned.assign(from->returned, from->returned + from->returned_count);
  plan->overlaps.assign(from->overlaps, from->overlaps + from->overlap_count);
  plan->overlapping = overlapping(plan->overlaps, slots);
  plan->context = from->context;
  plan->device_type = from->device_type;
  plan->device = from->device;
  plan->word = from->word;
  plan->notes = from->notes;
  if (launcher->plans.size() >= (size_t)kMostPlans) launcher->plans.pop_back();
  launcher->plans.insert(launcher->plans.begin(), reference);
  return 1;
}
