// A warm call of a kernel without Python: arguments are compared with those of an earlier call, and
// where nothing but addresses and plain scalars differs, the kernel is launched at once.
//
// In: `Plan`s, which runtime/cuda/native_launcher.py makes of calls that have succeeded.  Out: a Python
// function that takes the tuple of arguments and gives the outputs, or NotImplemented where no plan
// fits.

#include <stdlib.h>

#include <memory>
#include <vector>

#include "launching.h"

static const char *const kName = "tileprof.launcher";
static const int kMostPlans = 32;

struct Launcher {
  Environment env;
  std::vector<Held> types;
  std::vector<std::shared_ptr<Plan>> plans;
};

static PyObject *call(PyObject *self, PyObject *arguments) {
  Launcher *launcher = (Launcher *)PyCapsule_GetPointer(self, kName);
  if (!launcher) return nullptr;
  const Environment &env = launcher->env;
  // Both change what a call means; they are looked at in each.
  if (getenv("TILEPROF_DEVICE") || getenv("TILEPROF_DEBUG")) return missed(env);
  Given given(env, arguments);
  if (given.count >= kSlots) return missed(env);
  auto &plans = launcher->plans;
  for (size_t at = 0; at < plans.size(); at++) {
    if (!fits(*plans[at], given)) continue;
    std::shared_ptr<Plan> plan = plans[at];
    plans[at] = plans[0];
    plans[0] = plan;
    return run(env, *plan, given);
  }
  return missed(env);
}

// -- the way in

static void forget(PyObject *capsule) {
  delete (Launcher *)PyCapsule_GetPointer(capsule, kName);
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
  for (PyObject *held : {env->missed, env->none, env->tensor, env->parameter, env->integer,
                         env->real, env->text, env->boolean})
    made->types.emplace_back(held);
  return PyCapsule_New(made, kName, forget);
}

// The Python function of a launcher: from the tuple of arguments to the outputs.
TP_EXPORT PyObject *tp_launcher_function(PyObject *capsule) {
  static PyMethodDef method = {"launch", call, kOneArgument, "Launch on these arguments."};
  return PyCFunction_NewEx(&method, capsule, nullptr);
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
  Launcher *launcher = (Launcher *)PyCapsule_GetPointer(capsule, kName);
  const Py_ssize_t count = PyTuple_Size(from->arguments);
  if (count + from->output_count >= kSlots) return 0;
  auto plan = std::make_shared<Plan>(*from);
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
  for (int at = 0; at < from->output_count; at++) plan->allocators.emplace_back(from->allocators[at]);
  plan->returned.assign(from->returned, from->returned + from->returned_count);
  plan->overlaps.assign(from->overlaps, from->overlaps + from->overlap_count);
  plan->overlapping = overlapping(plan->overlaps, slots);
  plan->context = from->context;
  plan->device_type = from->device_type;
  plan->device = from->device;
  plan->word = from->word;
  plan->notes = from->notes;
  if (launcher->plans.size() >= (size_t)kMostPlans) launcher->plans.pop_back();
  launcher->plans.insert(launcher->plans.begin(), plan);
  return 1;
}
