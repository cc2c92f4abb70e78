// Stacks in which the played driver's call is made many times, and other unwinders beside it.
//
// Preloaded, so that it can stand in an operation of PyTorch: where it allocates its result.
#include <dlfcn.h>
#include <execinfo.h>
#include <unwind.h>

#include <cstdint>
#include <ctime>

using Launch = uint32_t (*)(uint32_t);

namespace {

volatile uint32_t done;

struct Asked {
  Launch launch = nullptr;
  uint64_t count = 0;
  double *took = nullptr;  // ns a launch, a stack with backtrace(), one with _Unwind_Backtrace, frames
} asked;

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

template <typename Work> double each(uint64_t count, Work work) {
  const double began = cpu_ns();
  for (uint64_t i = 0; i < count; ++i) work();
  return (cpu_ns() - began) / double(count);
}

_Unwind_Reason_Code count_frame(_Unwind_Context *, void *into) {
  ++*static_cast<int *>(into);
  return _URC_NO_REASON;
}

__attribute__((noinline)) void measure() {
  const Asked now = asked;
  asked = {};
  now.took[0] = each(now.count, [&] { done = now.launch(307); });
  void *addresses[256];
  now.took[1] = each(now.count / 10, [&] { done = uint32_t(backtrace(addresses, 256)); });
  int frames = 0;
  now.took[2] = each(now.count / 10, [&] {
    frames = 0;
    _Unwind_Backtrace(count_frame, &frames);
  });
  now.took[3] = frames;
}

template <int kDepth> __attribute__((noinline)) void nested() {
  if constexpr (kDepth > 0)
    nested<kDepth - 1>();
  else
    measure();
  done = done + 1;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The next allocation of 4 KB or more, or `frames_nested`, measures.
EXPORTED void frames_ask(Launch launch, uint64_t count, double *took) {
  asked = {launch, count, took};
}

EXPORTED void frames_nested_0() { nested<0>(); }
EXPORTED void frames_nested_10() { nested<10>(); }
EXPORTED void frames_nested_20() { nested<20>(); }
EXPORTED void frames_nested_40() { nested<40>(); }

EXPORTED int posix_memalign(void **memory, size_t alignment, size_t size) {
  static const auto original =
      reinterpret_cast<int (*)(void **, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (asked.launch && size >= 4096) measure();
  return original(memory, alignment, size);
}
