// The parts of Python and of DLPack that the launcher uses.
//
// The functions of Python belong to its stable ABI and are declared here, so that none of its
// headers has to be installed; tensors are read through DLPack's C exchange API, of which dlpack.h
// 1.3 is the statement.
#pragma once

#include <stdint.h>

// -- Python

struct PyObject;
typedef intptr_t Py_ssize_t;
struct PyMethodDef {
  const char *name;
  PyObject *(*function)(PyObject *self, PyObject *argument);
  int flags;
  const char *doc;
};
struct PyType_Slot {
  int slot;
  void *function;
};
struct PyType_Spec {
  const char *name;
  int size, item_size;
  unsigned flags;
  PyType_Slot *slots;
};
extern "C" {
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
int PyObject_RichCompareBool(PyObject *, PyObject *, int);
PyObject *PyObject_CallObject(PyObject *, PyObject *);
PyObject *PyTuple_New(Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyDict_GetItem(PyObject *, PyObject *);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
Py_ssize_t PyDict_Size(PyObject *);
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
PyObject *PyType_FromSpecWithBases(PyType_Spec *, PyObject *);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
}
static const int kEqual = 2, kOneArgument = 0x0008, kCallSlot = 50;
static const unsigned kDefaultFlags = 1u << 18;

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
