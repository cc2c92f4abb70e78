// Memory of NumPy's arrays, in the threads that ask for it: what is large lies in pages of its own.
//
// In: NumPy's table of functions.  Out: a handler of data memory (NEP 49) for the calling thread's
// context.  Threads of ours make the same arrays every few seconds, somewhat larger or smaller each
// time; from malloc each largest one yet would stay resident, in a heap that only they use.  The
// program's own threads keep what NumPy gives them.
#include <cstdlib>
#include <cstring>

#include "bindings/bindings.h"
#include "records/pages.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

constexpr size_t kLarge = 64u << 10;  // bytes; smaller ones are malloc's, which keeps their place

// Before each array's data. An array may be freed by any thread, and outlive the one that made it.
struct alignas(64) Header {
  size_t bytes;   // that were asked for
  size_t mapped;  // bytes of its pages; 0: it is malloc's
};

Header *header_of(void *data) { return static_cast<Header *>(data) - 1; }

void *make(size_t size, bool zeroed) {
  if (size > SIZE_MAX - sizeof(Header)) return nullptr;
  const size_t whole = size + sizeof(Header);
  const bool large = size >= kLarge;
  void *const held = large    ? take_pages(whole)
                     : zeroed ? std::calloc(1, whole)
                              : std::malloc(whole);
  if (!held) return nullptr;
  Header *const header = new (held) Header{size, large ? whole : 0};
  return header + 1;
}

void *make_array(void *, size_t size) { return make(size, false); }

void *make_zeroed(void *, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) return nullptr;
  return make(count * size, true);
}

// The size that NumPy tells is not asked: it may be that of a view.
void free_array(void *, void *data, size_t) {
  if (!data) return;
  Header *const header = header_of(data);
  if (header->mapped)
    munmap(header, header->mapped);
  else
    std::free(header);
}

void *resize_array(void *, void *data, size_t size) {
  void *const made = make(size, false);
  if (!made || !data) return made;
  const size_t before = header_of(data)->bytes;
  std::memcpy(made, data, before < size ? before : size);
  free_array(nullptr, data, before);
  return made;
}

// `PyDataMem_Handler` of NumPy's C interface, version 1.
struct Handler {
  char name[127] = "tileprof_pages";
  uint8_t version = 1;
  void *context = nullptr;
  void *(*malloc)(void *, size_t) = make_array;
  void *(*calloc)(void *, size_t, size_t) = make_zeroed;
  void *(*realloc)(void *, void *, size_t) = resize_array;
  void (*free)(void *, void *, size_t) = free_array;
};

// Places in NumPy's table, which stay the same from version to version.
constexpr size_t kFeatureVersion = 211, kSetHandler = 304;
constexpr unsigned kWithHandlers = 0xF;  // of NumPy 1.22

// Returns whether the calling thread has the handler now.
bool set_array_pages(nb::handle numpy) {
  void **const table = static_cast<void **>(PyCapsule_GetPointer(numpy.ptr(), nullptr));
  if (!table) {
    PyErr_Clear();
    return false;
  }
  const auto version = reinterpret_cast<unsigned (*)()>(table[kFeatureVersion]);
  if (version() < kWithHandlers) return false;
  static Handler handler;
  static PyObject *const capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  const auto set = reinterpret_cast<PyObject *(*)(PyObject *)>(table[kSetHandler]);
  PyObject *const before = capsule ? set(capsule) : nullptr;
  if (!before) throw nb::python_error();
  Py_DECREF(before);
  return true;
}

} // namespace

void bind_arrays(nb::module_ &m) { m.def("set_array_pages", set_array_pages, nb::arg("numpy")); }

} // namespace tileprof
