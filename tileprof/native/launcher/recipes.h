// Input from Python (runtime/cuda/native_launcher.py): successful calls, and what the process
// has for all of them.
#pragma once

#include "python_abi.h"

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
struct OutputRecipe {
  PyObject *allocate;  // makes one
  const int64_t *shape, *strides;
  int32_t rank, dtype, device_type, device;  // as PyTorch numbers them; dtype -1 where not known
};
struct Recipe {
  PyObject *arguments;  // of the call that succeeded
  PyObject *failed;     // raises what a code of the driver stands for
  const int32_t *kinds;
  PyObject *counter;                 // gives the address of the counter of a launch on a stream
  PyObject *noted;                   // raises what an earlier launch has noted
  PyObject *lent;                    // keeps the reports whose addresses stand in the launches
  const volatile int32_t *word;      // of the device: not 0 where something was noted
  PyObject *scope, *names, *values;  // globals that the kernel was compiled with
  const OutputRecipe *outputs;       // take the slots after the arguments
  const int32_t *returned;
  const Overlap *overlaps;
  const LaunchRecipe *launches;
  void *context;
  int32_t output_count, returned_count, overlap_count, launch_count, device_type, device,
      notes;  // whether some launch has a lent report
};
// Where things lie in objects of Python and PyTorch, in bytes (runtime/cuda/object_layout.py).
struct ObjectLayout {
  int64_t type_at, items_at;  // the type of an object, the items of a tuple
  int64_t impl_at;            // a tensor's pointer to its C++ object, a `TensorImpl`
  int64_t keys_at;            // there, the set of dispatch keys
  uint64_t negative;          // the key of a view whose elements have other signs than its memory
  // The rest is valid where `direct` is 1. In the `TensorImpl`: rank, extents and strides; the first
  // element in the storage; type and device, whose bits are `kind_bits`; the `StorageImpl`. In that:
  // its address; a byte that is not 0 where reading the address has to do more.
  int64_t direct, sizes_at, strides_at, first_at, kind_at, storage_at, data_at, guarded_at;
  uint64_t kind_bits;
};
// `c10::Stream`: a device, and a number that stands for one stream of it as long as the process runs.
struct StreamNumber {
  int8_t device_type, device;
  int64_t number;
};
struct Environment {
  const ExchangeApi *api;
  int (*launch)(const LaunchConfig *, void *, void **, void **);
  int (*encode)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                const uint32_t *, int, int, int, int);
  int (*current)(void **);
  int (*capturing)(void *stream, int *);
  int (*stream_number)(void *stream, uint64_t *);
  PyObject *missed, *none;  // NotImplemented and None
  PyObject *tensor, *parameter, *integer, *real, *text, *boolean;  // types
  PyObject *kind;             // the class with the function of a call that no plan fits
  PyObject *names, *defaults;  // of the parameters, for arguments by name
  PyObject *hooks, *listener;  // a dictionary, and the name in it of who listens to launches
  PyObject *chosen;            // a context variable with the device that a caller chose
  const volatile int32_t *ever_chosen;  // whether any caller did
  int (*value_of)(PyObject *variable, PyObject *instead, PyObject **value);  // PyContextVar_Get
  // PyTorch's functions, the first of a tensor's C++ object.
  bool (*requires_grad)(const void *);
  bool (*grad_enabled)();
  // New tensors by PyTorch's functions in C, null where it has them not; a handle points to a
  // pointer to a C++ object.
  int (*empty_strided)(int64_t rank, const int64_t *shape, const int64_t *strides, int32_t dtype,
                       int32_t device_type, int32_t device, void **handle);
  int (*forget)(void *handle);
  PyObject *(*wrap)(void *handle);
  // `c10::cuda::getCurrentCUDAStream`, null where it is not there.  A stream's handle, which DLPack
  // gives, takes two changes of the device besides.
  StreamNumber (*current_number)(int8_t device);
  ObjectLayout layout;
};
