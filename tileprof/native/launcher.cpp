// A warm call of a kernel without Python: arguments are compared with those of an earlier call, and
// where nothing but addresses and plain scalars differs, the kernel is launched at once.
//
// In: `Plan`s, which runtime/cuda_native.py makes of calls that have succeeded.  Out: a Python
// function that takes the tuple of arguments and gives the outputs, or NotImplemented where no plan
// fits.  Tensors are read through DLPack's C exchange API, of which dlpack.h 1.3 is the statement.
//
// The functions of Python that are used belong to its stable ABI and are declared here, so that
// none of its headers has to be installed.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <unordered_map>
#include <vector>

// -- Python

struct PyObject;
typedef intptr_t Py_ssize_t;
struct PyMethodDef {
  const char *name;
  PyObject *(*function)(PyObject *self, PyObject *argument);
  int flags;
  const char *doc;
};
extern "C" {
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
PyObject *PyObject_Type(PyObject *);
int PyObject_RichCompareBool(PyObject *, PyObject *, int);
PyObject *PyObject_CallObject(PyObject *, PyObject *);
PyObject *PyTuple_New(Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyDict_GetItem(PyObject *, PyObject *);
long long PyLong_AsLongLong(PyObject *);
PyObject *PyLong_FromLong(long);
PyObject *PyLong_FromUnsignedLongLong(unsigned long long);
unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
double PyFloat_AsDouble(PyObject *);
PyObject *PyErr_Occurred(void);
void PyErr_Clear(void);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
}
static const int kEqual = 2, kOneArgument = 0x0008;
static const char *const kName = "tileprof.launcher";

// -- DLPack

struct Tensor {
  void *data;
  int32_t device_type, device;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  uint64_t address() const { return (uint64_t)data + byte_offset; }
};
struct ExchangeApi {
  uint32_t major, minor;
  void *previous;
  void *allocate, *managed_from, *managed_to;
  int (*tensor_from)(void *object, Tensor *out);
  int (*current_stream)(int32_t device_type, int32_t device, void **out);
};

// -- what Python hands over (runtime/cuda_native.py)

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned attribute_count;
};
enum ArgumentKind { kByValue, kTensor, kInteger, kFloat };
enum FieldKind { kPointerField, kIntegerField, kFloatField, kCounterField };
struct Field {
  int32_t kind, slot, offset, size;
};
struct Map {
  int32_t slot, offset, type, rank, swizzle;
  uint32_t box[5];
  uint64_t shape[5], strides[5];
};
struct Overlap {
  int32_t a, b;
  int64_t a_bytes, b_bytes;
};
struct LaunchRecipe {
  void *function;
  const LaunchConfig *config;
  const uint8_t *bytes;
  const int32_t *offsets;
  const Field *fields;
  const Map *maps;
  int32_t size, count, field_count, map_count;
};
struct Recipe {
  PyObject *arguments;  // of the call that succeeded
  PyObject *failed;     // raises what a code of the driver stands for
  const int32_t *kinds;
  PyObject *counter;                 // gives the address of the counter of a launch on a stream
  PyObject *scope, *names, *values;  // globals that the kernel was compiled with
  PyObject *const *allocators;       // make the outputs, which take the slots after the arguments
  const int32_t *returned;
  const Overlap *overlaps;
  const LaunchRecipe *launches;
  void *context;
  int32_t output_count, returned_count, overlap_count, launch_count, device_type, device;
};
struct Environment {
  const ExchangeApi *api;
  int (*launch)(const LaunchConfig *, void *, void **, void **);
  int (*encode)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                const uint32_t *, int, int, int, int);
  int (*current)(void **);
  PyObject *missed, *none;  // NotImplemented and None
  PyObject *tensor, *parameter, *integer, *real, *text, *boolean;  // types
};

// -- plans

static const int kSlots = 64, kMostBytes = 4000, kMostPlans = 32, kMostMaps = 4096;

class Held {  // a reference
 public:
  Held(PyObject *object = nullptr) : object_(object) {
    if (object) Py_IncRef(object);
  }
  Held(const Held &other) : Held(other.object_) {}
  Held &operator=(const Held &) = delete;
  ~Held() {
    if (object_) Py_DecRef(object_);
  }
  operator PyObject *() const { return object_; }

 private:
  PyObject *object_;
};

struct Expected {
  int32_t kind = kByValue;
  Held value, type;
  Tensor tensor = {};
  bool aligned = false;
  std::vector<int64_t> shape, strides;
};
struct alignas(64) EncodedMap {
  uint8_t bytes[128];
};
struct Launch {
  void *function;
  LaunchConfig config;
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets;
  std::vector<Field> fields;
  std::vector<Map> maps;
  std::vector<std::unordered_map<uint64_t, EncodedMap>> encoded;
};
struct Dependency {
  Held name, value;
};
struct Plan {
  std::vector<Expected> arguments;
  Held failed, counter, scope;
  std::vector<Dependency> depends;
  std::vector<Held> allocators;
  std::vector<int32_t> returned;
  std::vector<Overlap> overlaps;
  bool overlapping;
  std::vector<Launch> launches;
  void *context;
  int32_t device_type, device;

  Plan(const Held &f, const Held &c, const Held &s) : failed(f), counter(c), scope(s) {}
};
struct Launcher {
  Environment env;
  std::vector<Held> types;
  std::vector<std::shared_ptr<Plan>> plans;
};

// The type of an object; types of arguments outlive the call.
static PyObject *type_of(PyObject *object) {
  PyObject *type = PyObject_Type(object);
  Py_DecRef(type);
  return type;
}
static bool is_tensor(const Environment &env, PyObject *type) {
  return type == env.tensor || type == env.parameter;
}
static bool read_tensor(const Environment &env, PyObject *object, Tensor *out) {
  if (env.api->tensor_from(object, out) == 0 && out->lanes == 1) return true;
  PyErr_Clear();
  return false;
}

// -- comparison

// Arguments of a call; tensors are read when a plan first asks.
struct Given {
  const Environment &env;
  PyObject *tuple;
  Py_ssize_t count;
  Tensor tensors[kSlots];
  uint64_t known = 0;

  Given(const Environment &e, PyObject *t) : env(e), tuple(t), count(PyTuple_Size(t)) {}
  PyObject *object(int at) { return PyTuple_GetItem(tuple, at); }
  const Tensor *tensor(int at) {
    if (!(known >> at & 1)) {
      if (!is_tensor(env, type_of(object(at))) || !read_tensor(env, object(at), &tensors[at]))
        return nullptr;
      known |= 1ull << at;
    }
    return &tensors[at];
  }
};

static bool same_tensor(const Expected &wanted, const Tensor *given) {
  const Tensor &t = wanted.tensor;
  if (!given || given->rank != t.rank || given->code != t.code || given->bits != t.bits ||
      given->device_type != t.device_type || given->device != t.device)
    return false;
  for (int d = 0; d < t.rank; d++) {
    if (given->shape[d] != wanted.shape[d]) return false;
    if (given->strides && wanted.shape[d] != 1 && given->strides[d] != wanted.strides[d])
      return false;
  }
  return (given->address() % 16 == 0) == wanted.aligned;
}

static bool same_value(const Environment &env, const Expected &wanted, PyObject *given) {
  if (given == wanted.value) return true;
  PyObject *type = type_of(given);
  if (type != wanted.type) return false;
  if (type != env.integer && type != env.real && type != env.text && type != env.boolean)
    return false;
  return PyObject_RichCompareBool(given, wanted.value, kEqual) == 1;
}

static bool same_argument(const Expected &wanted, Given &given, int at) {
  switch (wanted.kind) {
    case kTensor: return same_tensor(wanted, given.tensor(at));
    case kInteger: return type_of(given.object(at)) == given.env.integer;
    case kFloat: {
      PyObject *type = type_of(given.object(at));
      return type == given.env.real || type == given.env.integer;
    }
    default: return same_value(given.env, wanted, given.object(at));
  }
}

static bool overlapping(const std::vector<Overlap> &pairs, const Tensor *slots) {
  for (const Overlap &pair : pairs) {
    const uint64_t a = slots[pair.a].address(), b = slots[pair.b].address();
    if (a < b + pair.b_bytes && b < a + pair.a_bytes) return true;
  }
  return false;
}

static bool fits(const Plan &plan, Given &given) {
  if (given.count != (Py_ssize_t)plan.arguments.size()) return false;
  for (int at = 0; at < given.count; at++)
    if (!same_argument(plan.arguments[at], given, at)) return false;
  for (const Dependency &each : plan.depends)
    if (PyDict_GetItem(plan.scope, each.name) != each.value) return false;
  return overlapping(plan.overlaps, given.tensors) == plan.overlapping;
}

// -- launching

static bool write_scalar(uint8_t *to, const Field &field, PyObject *value) {
  if (field.kind == kIntegerField) {
    const long long held = PyLong_AsLongLong(value);
    memcpy(to, &held, field.size);
  } else {
    const double held = PyFloat_AsDouble(value);
    const float single = (float)held;
    memcpy(to, field.size == 8 ? (const void *)&held : (const void *)&single, field.size);
  }
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

static const EncodedMap *encode(const Environment &env, Launch &launch, int number, uint64_t at) {
  auto &known = launch.encoded[number];
  auto found = known.find(at);
  if (found != known.end()) return &found->second;
  if (known.size() >= (size_t)kMostMaps) known.clear();
  const Map &map = launch.maps[number];
  const uint32_t steps[5] = {1, 1, 1, 1, 1};
  EncodedMap made;
  if (env.encode(&made, map.type, map.rank, (void *)at, map.shape, map.strides, map.box, steps, 0,
                 map.swizzle, 3, 0))
    return nullptr;
  return &known.emplace(at, made).first->second;
}

// The counter that the next launch on a stream uses: the driver is asked anew in each call, since
// the stream may be recorded into a graph.
static bool write_counter(uint8_t *to, PyObject *counter, void *stream) {
  PyObject *held = PyTuple_New(1);
  PyTuple_SetItem(held, 0, PyLong_FromUnsignedLongLong((uint64_t)stream));
  PyObject *made = PyObject_CallObject(counter, held);
  Py_DecRef(held);
  const uint64_t address = made ? PyLong_AsUnsignedLongLong(made) : 0;
  if (made)
    Py_DecRef(made);
  else
    PyErr_Clear();
  memcpy(to, &address, 8);
  return address != 0;
}

// The parameters of one launch, in `bytes`.
static bool fill(const Environment &env, const Plan &plan, Launch &launch, const Tensor *slots,
                 Given &given, void *stream, uint8_t *bytes) {
  memcpy(bytes, launch.bytes.data(), launch.bytes.size());
  for (const Field &field : launch.fields) {
    if (field.kind == kPointerField) {
      const uint64_t address = slots[field.slot].address();
      memcpy(bytes + field.offset, &address, 8);
    } else if (field.kind == kCounterField) {
      if (!write_counter(bytes + field.offset, plan.counter, stream)) return false;
    } else if (!write_scalar(bytes + field.offset, field, given.object(field.slot))) {
      return false;
    }
  }
  for (size_t at = 0; at < launch.maps.size(); at++) {
    const Map &map = launch.maps[at];
    const EncodedMap *made = encode(env, launch, (int)at, slots[map.slot].address());
    if (!made) return false;
    memcpy(bytes + map.offset, made, sizeof *made);
  }
  return true;
}

enum Outcome { kDone, kMissed, kFailed };
static Outcome start(const Environment &env, const Plan &plan, Launch &launch, const Tensor *slots,
                     Given &given, void *stream, int *code) {
  alignas(64) uint8_t bytes[kMostBytes];
  void *pointers[kMostBytes / 8];
  if (!fill(env, plan, launch, slots, given, stream, bytes)) return kMissed;
  for (size_t at = 0; at < launch.offsets.size(); at++) pointers[at] = bytes + launch.offsets[at];
  LaunchConfig config = launch.config;
  config.stream = stream;
  // A full queue makes the driver wait: other threads go on meanwhile.
  void *thread = PyEval_SaveThread();
  *code = env.launch(&config, launch.function, pointers, nullptr);
  PyEval_RestoreThread(thread);
  return *code ? kFailed : kDone;
}

// References to the outputs of one call.
struct Outputs {
  PyObject *held[kSlots];
  int count = 0;
  ~Outputs() {
    for (int at = 0; at < count; at++) Py_DecRef(held[at]);
  }
};

static PyObject *result(const Environment &env, const Plan &plan, Outputs &outputs) {
  const int first = (int)plan.arguments.size();
  auto output = [&](int32_t slot) {
    PyObject *object = outputs.held[slot - first];
    Py_IncRef(object);
    return object;
  };
  if (plan.returned.size() == 1) return output(plan.returned[0]);
  if (plan.returned.empty()) {
    Py_IncRef(env.none);
    return env.none;
  }
  PyObject *all = PyTuple_New((Py_ssize_t)plan.returned.size());
  for (size_t at = 0; all && at < plan.returned.size(); at++)
    PyTuple_SetItem(all, (Py_ssize_t)at, output(plan.returned[at]));
  return all;
}

static PyObject *missed(const Environment &env) {
  Py_IncRef(env.missed);
  return env.missed;
}

static PyObject *run(const Environment &env, Plan &plan, Given &given) {
  void *context = nullptr, *stream = nullptr;
  if (env.current(&context) || context != plan.context) return missed(env);
  if (env.api->current_stream(plan.device_type, plan.device, &stream)) {
    PyErr_Clear();
    return missed(env);
  }
  Outputs outputs;
  int slot = (int)given.count;
  for (const Held &allocate : plan.allocators) {
    PyObject *made = PyObject_CallObject(allocate, nullptr);
    if (!made) return nullptr;
    outputs.held[outputs.count++] = made;
    if (!read_tensor(env, made, &given.tensors[slot++])) return missed(env);
  }
  bool first = true;
  for (Launch &launch : plan.launches) {
    int code = 0;
    const Outcome outcome = start(env, plan, launch, given.tensors, given, stream, &code);
    if (outcome == kMissed && first) return missed(env);
    if (outcome != kDone) {
      PyObject *held = PyTuple_New(1);
      PyTuple_SetItem(held, 0, PyLong_FromLong(code));
      PyObject *nothing = PyObject_CallObject(plan.failed, held);
      Py_DecRef(held);
      if (nothing) Py_DecRef(nothing);
      return nullptr;
    }
    first = false;
  }
  return result(env, plan, outputs);
}

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

static Expected expected(const Environment &env, PyObject *object, int32_t kind, bool *ok) {
  // A tensor is known by its extents; to hold it would keep its memory.
  Expected made = {kind, Held(kind == kTensor ? nullptr : object), Held(type_of(object))};
  if (kind == kTensor) {
    Tensor &t = made.tensor;
    if (!is_tensor(env, made.type) || !read_tensor(env, object, &t) || (t.rank && !t.strides)) {
      *ok = false;
      return made;
    }
    made.shape.assign(t.shape, t.shape + t.rank);
    made.strides.assign(t.strides, t.strides + t.rank);
    made.aligned = t.address() % 16 == 0;
  }
  return made;
}

#define TP_EXPORT extern "C" __attribute__((visibility("default")))

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
  auto plan = std::make_shared<Plan>(Held(from->failed), Held(from->counter), Held(from->scope));
  Tensor slots[kSlots] = {};
  bool ok = true;
  for (int at = 0; at < count; at++) {
    PyObject *object = PyTuple_GetItem(from->arguments, at);
    plan->arguments.push_back(expected(launcher->env, object, from->kinds[at], &ok));
    slots[at] = plan->arguments.back().tensor;
  }
  if (!ok) return 0;
  for (int at = 0; at < from->launch_count; at++) {
    if (from->launches[at].size > kMostBytes || from->launches[at].count > kMostBytes / 8) return 0;
    plan->launches.push_back(launch_of(from->launches[at]));
  }
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
  if (launcher->plans.size() >= (size_t)kMostPlans) launcher->plans.pop_back();
  launcher->plans.insert(launcher->plans.begin(), plan);
  return 1;
}
