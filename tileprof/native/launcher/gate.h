// The way into an operator of PyTorch: whether anybody but autograd hears of a call, and whether
// that does, which a call asks before it goes straight to its kernels.
//
// In: what `runtime/cuda/native_gate.py` says of the operator.  Out: a Python function that takes the
// tuple of arguments and gives whether gradients are recorded, or None where others hear of the call.
#pragma once

#include <vector>

#include "plans.h"

struct GateRecipe {
  PyObject *none, *yes, *no, *tensor, *parameter;
  PyObject *hooks, *listener;  // as in `Environment`
  // PyTorch's functions; a transform of functorch is told by a dispatch key.
  int64_t (*modes)();
  int64_t (*function_modes)();
  bool (*is_included)(uint16_t key);
  bool (*is_profiling)();
  bool (*requires_grad)(const void *);
  bool (*grad_enabled)();
  ObjectLayout layout;
  const int32_t *tensors;  // positions of the tensors among the arguments
  int32_t tensor_count, count, transforms;
};

static const char *const kGateName = "tileprof.gate";

struct Gate : GateRecipe {
  std::vector<int32_t> positions;
  std::vector<Held> objects;

  explicit Gate(const GateRecipe &r)
      : GateRecipe(r), positions(r.tensors, r.tensors + r.tensor_count) {
    for (PyObject *held : {none, yes, no, tensor, parameter, hooks, listener})
      objects.emplace_back(held);
  }
};

static void forget_gate(PyObject *capsule) {
  delete (Gate *)PyCapsule_GetPointer(capsule, kGateName);
}

static PyObject *pass(PyObject *self, PyObject *arguments) {
  const Gate *gate = (const Gate *)PyCapsule_GetPointer(self, kGateName);
  if (!gate) return nullptr;
  bool heard = PyTuple_Size(arguments) != gate->count ||
               PyDict_GetItemWithError(gate->hooks, gate->listener) != gate->none ||
               gate->modes() || gate->function_modes() ||
               gate->is_included((uint16_t)gate->transforms) || gate->is_profiling();
  bool differentiable = false;
  const bool recording = !heard && gate->grad_enabled();
  PyObject *const *items = &at_offset<PyObject *>(arguments, gate->layout.items_at);
  for (size_t at = 0; !heard && at < gate->positions.size(); at++) {
    PyObject *each = items[gate->positions[at]];
    PyObject *type = at_offset<PyObject *>(each, gate->layout.type_at);
    if (type != gate->tensor && type != gate->parameter)
      heard = each != gate->none;
    else if (recording)
      differentiable |=
          gate->requires_grad(at_offset<const void *>(each, gate->layout.impl_at));
  }
  PyObject *found = heard ? gate->none : differentiable ? gate->yes : gate->no;
  Py_IncRef(found);
  return found;
}
