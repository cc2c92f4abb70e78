// Preloaded: waits in the played driver wherever 4 KB or more are allocated, so also in operations.
// A launch would be waited for at the end, because no device has a record of it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

using Call = uint32_t (*)(uint32_t);

static Call call = nullptr;

extern "C" void call_at_allocations(Call with) { call = with; }

extern "C" int posix_memalign(void **memory, size_t alignment, size_t size) {
  static const auto original =
      reinterpret_cast<int (*)(void **, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (call && size >= 4096) call(126);
  return original(memory, alignment, size);
}
