// Plans, and whether one fits a call: its arguments are compared with those of the call that the
// plan was made of.
#pragma once

#include <string.h>

#include <unordered_map>
#include <vector>

#include "recipes.h"

static const int kSlots = 64;
static const int kMostBytes = 4000, kMostOfPlan = 16384, kAlignment = 64;

struct Expected {
  int32_t kind = kByValue;
  Held value, type;
  Tensor tensor = {};
  uint64_t alignment = 0;
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

  // Bytes of the parameters, up to where those of the next launch begin.
  size_t room() const { return (bytes.size() + kAlignment - 1) / kAlignment * kAlignment; }
};
struct Dependency {
  Held name, value;
};
struct Plan {
  std::vector<Expected> arguments;
  Held failed, counter, noted, lent, scope;
  const volatile int32_t *word;
  std::vector<Dependency> depends;
  std::vector<Held> allocators;
  std::vector<int32_t> returned;
  std::vector<Overlap> overlaps;
  bool overlapping;
  std::vector<Launch> launches;
  std::unordered_map<uint64_t, uint64_t> counters;  // by the number of a stream
  void *context;
  int32_t device_type, device;
  bool notes;

  explicit Plan(const Recipe &r)
      : failed(r.failed), counter(r.counter), noted(r.noted), lent(r.lent), scope(r.scope) {}
};

static bool is_tensor(const Environment &env, PyObject *type) {
  return type == env.tensor || type == env.parameter;
}
static bool read_tensor(const Environment &env, PyObject *object, Tensor *out) {
  if (env.api->tensor_from(object, out) == 0 && out->lanes == 1) return true;
  PyErr_Clear();
  return false;
}

// Whether a kernel would leave something out: PyTorch records what is done with the tensor, or its
// elements have other signs than its memory.
static bool is_recorded(const Environment &env, PyObject *tensor) {
  const uint8_t *object = *(const uint8_t *const *)((const uint8_t *)tensor + env.object_at);
  if (*(const uint64_t *)(object + env.keys_at) & env.negative) return true;
  return env.requires_grad(object) && env.grad_enabled();
}

// The power of two that divides a tensor's address, 16 at most: kernels for 16 bytes are others, and
// with less some accesses are refused.
static uint64_t alignment_of(const Tensor &t) {
  const uint64_t held = t.address() | 16;
  return held & (0 - held);
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
    made.alignment = alignment_of(t);
  }
  return made;
}

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
      if (!is_tensor(env, type_of(object(at))) || !read_tensor(env, object(at), &tensors[at]) ||
          is_recorded(env, object(at)))
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
  return alignment_of(*given) == wanted.alignment;
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
