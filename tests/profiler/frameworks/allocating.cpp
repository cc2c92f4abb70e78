// Preloaded: calls the played driver wherever 4 KB or more are allocated, so also in operations.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

using Launch = uint32_t (*)(uint32_t);

static Launch launch = nullptr;

extern "C" void allocating_launch(Launch with) { launch = with; }

extern "C" int posix_memalign(void **memory, size_t alignment, size_t size) {
  static const auto original =
      reinterpret_cast<int (*)(void **, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (launch && size >= 4096) launch(307);
  return original(memory, alignment, size);
}
