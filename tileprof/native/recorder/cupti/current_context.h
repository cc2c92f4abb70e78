// A context that is the thread's while this lives, by the driver that the program has loaded.
#pragma once

#include <dlfcn.h>

namespace tileprof {

class CurrentContext {
public:
  explicit CurrentContext(void *context) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return;
    auto push = reinterpret_cast<int (*)(void *)>(dlsym(driver, "cuCtxPushCurrent_v2"));
    pop_ = reinterpret_cast<int (*)(void **)>(dlsym(driver, "cuCtxPopCurrent_v2"));
    if (!push || !pop_ || push(context) != 0) pop_ = nullptr;
  }
  ~CurrentContext() {
    void *former = nullptr;
    if (pop_) pop_(&former);
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;

private:
  int (*pop_)(void **) = nullptr;
};

} // namespace tileprof
