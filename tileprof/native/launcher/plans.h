// Plans, and whether one fits a call: its arguments are compared with those of the call that the
// plan was made of.
#pragma once

#include <string.h>

#include <unordered_map>
#include <utility>
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
  // What PyTorch's own object has to say of a tensor that is read there; see `compare`.
  bool direct = false;
  uint64_t keys = 0, bits = 0;
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
struct Output {
  Held allocate;
  std::vector<int64_t> shape, strides;
  int32_t dtype, device_type, device;
};
struct Plan {
  std::vector<Expected> arguments;
  Held failed, counter, noted, lent, scope;
  const volatile int32_t *word;
  std::vector<Dependency> depends;
  std::vector<Output> outputs;
  std::vector<int32_t> returned;
  std::vector<Overlap> overlaps;
  bool overlapping;
  std::vector<Launch> launches;
  std::unordered_map<uint64_t, uint64_t> counters;  // by the number of a stream
  // The last stream, by PyTorch's number and by its handle.
  bool knows_stream = false;
  int64_t stream_number = 0;
  void *stream = nullptr;
  void *context;
  int32_t device_type, device;
  bool notes;
  int users = 0;  // changed by who holds the GIL, which an atomic count would ask for in vain

  explicit Plan(const Recipe &r)
      : failed(r.failed), counter(r.counter), noted(r.noted), lent(r.lent), scope(r.scope) {}
};

class PlanReference {
 public:
  explicit PlanReference(Plan *plan) : plan_(plan) { ++plan->users; }
  PlanReference(const PlanReference &other) : PlanReference(other.plan_) {}
  PlanReference &operator=(PlanReference other) {
    std::swap(plan_, other.plan_);
    return *this;
  }
  ~PlanReference() {
    if (--plan_->users == 0) delete plan_;
  }
  Plan &operator*() const { return *plan_; }

 private:
  Plan *plan_;
};

template <typename Value>
static Value &at_offset(const void *object, int64_t offset) {
  return *(Value *)((uint8_t *)object + offset);
}

// The type of an object; types of arguments outlive the call.
static PyObject *type_of(const Environment &env, PyObject *object) {
  return at_offset<PyObject *>(object, env.layout.type_at);
}

static bool is_tensor(const Environment &env, PyObject *type) {
  return type == env.tensor || type == env.parameter;
}
static bool read_tensor(const Environment &env, PyObject *object, Tensor *out) {
  if (env.api->tensor_from(object, out) == 0 && out->lanes == 1) return true;
  PyErr_Clear();
  return false;
}

static const uint8_t *impl_of(const Environment &env, PyObject *tensor) {
  return at_offset<const uint8_t *>(tensor, env.layout.impl_at);
}

// Whether a kernel would leave something out: PyTorch records what is done with the tensor, or its
// elements have other signs than its memory.
static bool is_recorded(const Environment &env, const uint8_t *impl) {
  if (at_offset<uint64_t>(impl, env.layout.keys_at) & env.layout.negative) return true;
  return env.requires_grad(impl) && env.grad_enabled();
}

// The power of two that divides a tensor's address, 16 at most: kernels for 16 bytes are others, and
// with less some accesses are refused.
static uint64_t alignment_of(const Tensor &t) {
  const uint64_t held = t.address() | 16;
  return held & (0 - held);
}

// -- tensors, read from PyTorch's own objects

static const int kMostDirect = 5;  // extents that lie in the object itself
enum Likeness { kSame, kOther, kUnknown };

// Compare a tensor with that of a plan, and read its address.  Unknown where this is up to DLPack:
// its kind is another one, so that its fields may mean something else.
static Likeness compare(const Environment &env, const Expected &wanted, PyObject *object,
                        Tensor *out) {
  const ObjectLayout &layout = env.layout;
  const uint8_t *impl = impl_of(env, object);
  if (at_offset<uint64_t>(impl, layout.keys_at) != wanted.keys ||
      (at_offset<uint64_t>(impl, layout.kind_at) & layout.kind_bits) != wanted.bits)
    return kUnknown;
  const void *storage = at_offset<void *>(impl, layout.storage_at);
  if (!storage || at_offset<uint8_t>(storage, layout.guarded_at)) return kUnknown;
  const int64_t *sizes = &at_offset<int64_t>(impl, layout.sizes_at);
  const int64_t *strides = &at_offset<int64_t>(impl, layout.strides_at);
  if (sizes[0] != wanted.tensor.rank) return kOther;
  for (int d = 0; d < wanted.tensor.rank; d++)
    if (sizes[1 + d] != wanted.shape[d] ||
        (wanted.shape[d] != 1 && strides[d] != wanted.strides[d]))
      return kOther;
  out->data = at_offset<uint8_t *>(storage, layout.data_at) +
              at_offset<int64_t>(impl, layout.first_at) * (wanted.tensor.bits / 8);
  out->byte_offset = 0;
  if (alignment_of(*out) != wanted.alignment || is_recorded(env, impl)) return kOther;
  return kSame;
}

// Find out whether tensors like this one can be read so: this one gives what DLPack says of it.
static void look_at(const Environment &env, PyObject *object, Expected *made) {
  const ObjectLayout &layout = env.layout;
  const Tensor &t = made->tensor;
  if (!layout.direct || t.rank > kMostDirect || t.bits % 8) return;
  for (const int64_t extent : made->shape)
    if (!extent) return;  // which has no address
  const uint8_t *impl = impl_of(env, object);
  made->keys = at_offset<uint64_t>(impl, layout.keys_at);
  made->bits = at_offset<uint64_t>(impl, layout.kind_at) & layout.kind_bits;
  Tensor read = {};
  const int8_t index = (int8_t)(made->bits >> 24);
  if (index != t.device && index != -1) return;
  made->direct = compare(env, *made, object, &read) == kSame && read.data == (void *)t.address();
}

static Expected expected(const Environment &env, PyObject *object, int32_t kind, bool *ok) {
  // A tensor is known by its extents; to hold it would keep its memory.
  Expected made = {kind, Held(kind == kTensor ? nullptr : object), Held(type_of(env, object))};
  if (kind == kTensor) {
    Tensor &t = made.tensor;
    if (!is_tensor(env, made.type) || !read_tensor(env, object, &t) || (t.rank && !t.strides)) {
      *ok = false;
      return made;
    }
    made.shape.assign(t.shape, t.shape + t.rank);
    made.strides.assign(t.strides, t.strides + t.rank);
    made.alignment = alignment_of(t);
    look_at(env, object, &made);
  }
  return made;
}

// Arguments of a call; tensors are read by DLPack when a plan first asks.
struct Given {
  const Environment &env;
  PyObject **items;
  Py_ssize_t count;
  Tensor tensors[kSlots];
  uint64_t known = 0;

  Given(const Environment &e, PyObject *tuple)
      : env(e),
        items(&at_offset<PyObject *>(tuple, e.layout.items_at)),
        count(PyTuple_Size(tuple)) {}
  PyObject *object(int at) { return items[at]; }
  const Tensor *tensor(int at) {
    if (!(known >> at & 1)) {
      if (!read_tensor(env, object(at), &tensors[at]) ||
          is_recorded(env, impl_of(env, object(at))))
        return nullptr;
      known |= 1ull << at;
    }
    return &tensors[at];
  }
};

static bool same_tensor(const Expected &wanted, Given &given, int at) {
  const Tensor &t = wanted.tensor;
  if (!is_tensor(given.env, type_of(given.env, given.object(at)))) return false;
  if (wanted.direct) {
    const Likeness found = compare(given.env, wanted, given.object(at), &given.tensors[at]);
    // The address is right in any case, but the rest of what DLPack gave is not kept.
    if (found != kUnknown) return found == kSame;
  }
  const Tensor *held = given.tensor(at);
  if (!held || held->rank != t.rank || held->code != t.code || held->bits != t.bits ||
      held->device_type != t.device_type || held->device != t.device)
    return false;
  for (int d = 0; d < t.rank; d++) {
    if (held->shape[d] != wanted.shape[d]) return false;
    if (held->strides && wanted.shape[d] != 1 && held->strides[d] != wanted.strides[d])
      return false;
  }
  return alignment_of(*held) == wanted.alignment;
}

static bool same_value(const Environment &env, const Expected &wanted, PyObject *given) {
  if (given == wanted.value) return true;
  PyObject *type = type_of(env, given);
  if (type != wanted.type) return false;
  if (type != env.integer && type != env.real && type != env.text && type != env.boolean)
    return false;
  return PyObject_RichCompareBool(given, wanted.value, kEqual) == 1;
}

static bool same_argument(const Expected &wanted, Given &given, int at) {
  switch (wanted.kind) {
    case kTensor: return same_tensor(wanted, given, at);
    case kInteger: return type_of(given.env, given.object(at)) == given.env.integer;
    case kFloat: {
      PyObject *type = type_of(given.env, given.object(at));
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
