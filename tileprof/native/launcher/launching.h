// The launches of a plan that fits.
#pragma once

#include "plans.h"

static const int kMostMaps = 4096;

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

// Call a function with one argument, which it takes over.
static PyObject *call_with(PyObject *function, PyObject *argument) {
  PyObject *held = PyTuple_New(1);
  PyTuple_SetItem(held, 0, argument);
  PyObject *made = PyObject_CallObject(function, held);
  Py_DecRef(held);
  return made;
}

// The counter that the next launch on a stream uses, 0 where there is none: a stream keeps its own,
// and each launch that is recorded into a graph gets one.
static uint64_t counter_of(const Environment &env, Plan &plan, void *stream) {
  int capturing = 0;
  uint64_t number = 0;
  if (env.capturing(stream, &capturing)) return 0;
  if (!capturing) {
    if (env.stream_number(stream, &number)) return 0;
    const auto found = plan.counters.find(number);
    if (found != plan.counters.end()) return found->second;
  }
  PyObject *made = call_with(plan.counter, PyLong_FromUnsignedLongLong((uint64_t)stream));
  const uint64_t address = made ? PyLong_AsUnsignedLongLong(made) : 0;
  if (made)
    Py_DecRef(made);
  else
    PyErr_Clear();
  if (address && !capturing) plan.counters.emplace(number, address);
  return address;
}

// The parameters of one launch, in `bytes`.
static bool fill(const Environment &env, Plan &plan, Launch &launch, const Tensor *slots,
                 Given &given, void *stream, uint8_t *bytes) {
  memcpy(bytes, launch.bytes.data(), launch.bytes.size());
  for (const Field &field : launch.fields) {
    if (field.kind == kPointerField) {
      const uint64_t address = slots[field.slot].address();
      memcpy(bytes + field.offset, &address, 8);
    } else if (field.kind == kCounterField) {
      const uint64_t address = counter_of(env, plan, stream);
      if (!address) return false;
      memcpy(bytes + field.offset, &address, 8);
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

// Enqueue a launch whose parameters are in `bytes`; the code of the driver.
static int start(const Environment &env, Launch &launch, uint8_t *bytes, void *stream) {
  void *pointers[kMostBytes / 8];
  for (size_t at = 0; at < launch.offsets.size(); at++) pointers[at] = bytes + launch.offsets[at];
  LaunchConfig config = launch.config;
  config.stream = stream;
  // A full queue makes the driver wait: other threads go on meanwhile.
  void *thread = PyEval_SaveThread();
  const int code = env.launch(&config, launch.function, pointers, nullptr);
  PyEval_RestoreThread(thread);
  return code;
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

// Whether no earlier launch has noted what this call has to raise.
static bool is_quiet(const Plan &plan, void *stream) {
  if (!*plan.word) return true;
  PyObject *nothing = call_with(plan.noted, PyLong_FromUnsignedLongLong((uint64_t)stream));
  if (nothing) Py_DecRef(nothing);
  return nothing;
}

// Graphs keep their reports for ever, which Python sees to.
static bool needs_captured(const Environment &env, const Plan &plan, void *stream) {
  int capturing = 0;
  return plan.notes && (env.capturing(stream, &capturing) || capturing);
}

// A new tensor; null with an error where there is none.
static PyObject *allocated(const Environment &env, const Output &output) {
  void *handle = nullptr;
  if (env.wrap && output.dtype >= 0) {
    // To free memory for it may take until work on the device is over.
    void *thread = PyEval_SaveThread();
    if (env.empty_strided((int64_t)output.shape.size(), output.shape.data(), output.strides.data(),
                          output.dtype, output.device_type, output.device, &handle))
      handle = nullptr;
    PyEval_RestoreThread(thread);
  }
  // What was refused in C is refused here again, with an error of Python.
  if (!handle) return PyObject_CallObject(output.allocate, nullptr);
  PyObject *made = env.wrap(handle);
  env.forget(handle);
  return made;
}

// Read the address of a new tensor, which has its storage for itself.
static bool read_output(const Environment &env, PyObject *object, Tensor *out) {
  const ObjectLayout &layout = env.layout;
  if (!layout.direct || type_of(env, object) != env.tensor) return read_tensor(env, object, out);
  const void *storage = at_offset<void *>(impl_of(env, object), layout.storage_at);
  out->data = at_offset<void *>(storage, layout.data_at);
  out->byte_offset = 0;
  return true;
}

// Find PyTorch's current stream on the device of a plan.
static bool find_stream(const Environment &env, Plan &plan, void **stream) {
  const StreamNumber now =
      env.current_number ? env.current_number((int8_t)plan.device) : StreamNumber{};
  if (!env.current_number || !plan.knows_stream || now.number != plan.stream_number) {
    if (env.api->current_stream(plan.device_type, plan.device, &plan.stream)) {
      PyErr_Clear();
      return plan.knows_stream = false;
    }
    plan.knows_stream = true;
    plan.stream_number = now.number;
  }
  *stream = plan.stream;
  return true;
}

static PyObject *run(const Environment &env, Plan &plan, Given &given) {
  void *context = nullptr, *stream = nullptr;
  if (env.current(&context) || context != plan.context) return missed(env);
  if (!find_stream(env, plan, &stream)) return missed(env);
  if (!is_quiet(plan, stream)) return nullptr;
  if (needs_captured(env, plan, stream)) return missed(env);
  Outputs outputs;
  int slot = (int)given.count;
  for (const Output &output : plan.outputs) {
    PyObject *made = allocated(env, output);
    if (!made) return nullptr;
    outputs.held[outputs.count++] = made;
    if (!read_output(env, made, &given.tensors[slot++])) return missed(env);
  }
  // All are made ready before one starts: the call can go the whole way until then.
  alignas(kAlignment) uint8_t bytes[kMostOfPlan];
  uint8_t *at = bytes;
  for (Launch &launch : plan.launches) {
    if (!fill(env, plan, launch, given.tensors, given, stream, at)) return missed(env);
    at += launch.room();
  }
  at = bytes;
  for (Launch &launch : plan.launches) {
    if (const int code = start(env, launch, at, stream)) {
      PyObject *nothing = call_with(plan.failed, PyLong_FromLong(code));
      if (nothing) Py_DecRef(nothing);
      return nullptr;
    }
    at += launch.room();
  }
  return result(env, plan, outputs);
}
