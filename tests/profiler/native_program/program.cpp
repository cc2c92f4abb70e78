// A program without Python that launches kernels on the played driver, and uses NVTX.
//
//   program HOW    exit (with code 3), kill (by SIGTERM), fork, nothing (no call of the driver),
//                  spawn (another one that does all of it)
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "host/nvtx_api.h"

#include "../../native/fake_cupti/fake.h"
#include "../../native/stacks/chain.cpp"

namespace nvtx = tileprof::nvtx;

namespace {

void *library(const char *variable) {
  const char *path = getenv(variable);
  void *found = path ? dlopen(path, RTLD_NOW) : nullptr;
  if (path && !found) std::fprintf(stderr, "%s\n", dlerror());
  return found;
}

// What each program has of NVTX: pointers that its tool sets.
nvtx::Function slots[17];
nvtx::Function *table[17];

int functions(int module, nvtx::Function ***into, unsigned *entries) {
  if (module != nvtx::kCore) return 0;
  for (unsigned i = 0; i < 17; ++i) table[i] = &slots[i];
  *into = table, *entries = 17;
  return 1;
}

const void *get_table(uint32_t which) {
  static const nvtx::CallbackTable callbacks{sizeof(callbacks), functions};
  return which == nvtx::kCallbacks ? &callbacks : nullptr;
}

void begin_nvtx() {
  void *tool = library("NVTX_INJECTION64_PATH");
  if (!tool) return;
  auto begin = reinterpret_cast<int (*)(nvtx::GetTable)>(dlsym(tool, "InitializeInjectionNvtx2"));
  if (!begin || !begin(get_table)) std::fprintf(stderr, "NVTX took no tool\n");
}

struct Range {
  explicit Range(const char *name) {
    if (slots[nvtx::kRangePushA])
      reinterpret_cast<int (*)(const char *)>(slots[nvtx::kRangePushA])(name);
  }
  ~Range() {
    if (slots[nvtx::kRangePop]) reinterpret_cast<int (*)()>(slots[nvtx::kRangePop])();
  }
};

// As the driver does when it is initialised.
void begin_driver() {
  void *tool = library("CUDA_INJECTION64_PATH");
  if (tool) reinterpret_cast<int (*)()>(dlsym(tool, "InitializeInjection"))();
}

struct Driver {
  void *played = library("TILEPROF_CUPTI");
  Launch launch = reinterpret_cast<Launch>(dlsym(played, "fake_call"));

  void record(const char *name, uint64_t start, uint64_t end) {
    FakeKernel kernel = {};
    kernel.start = start, kernel.end = end, kernel.correlation = chain_launched();
    for (int i = 0; i < 3; ++i) kernel.grid[i] = kernel.block[i] = 1;
    reinterpret_cast<void (*)(const char *, const FakeKernel *)>(dlsym(played, "fake_kernel"))(
        name, &kernel);
  }

  // Device memory, by cuMemAlloc.
  void allocate(uint64_t bytes) {
    constexpr uint32_t kAllocation = 1, kOfDevice = 3;
    const uint64_t now = reinterpret_cast<uint64_t (*)()>(dlsym(played, "fake_clock"))();
    reinterpret_cast<decltype(&fake_memory)>(dlsym(played, "fake_memory"))(
        launch(243), kAllocation, kOfDevice, 0x1000, bytes, 0, now);
  }
};

} // namespace

__attribute__((noinline)) void inside(Driver &driver) {
  chain_run(driver.launch);
  driver.record("gemm", 1000, 1600);
}

__attribute__((noinline)) void step(Driver &driver) {
  Range range("step");
  inside(driver);
  chain::done = chain::done + 1;
}

__attribute__((noinline)) void prepare(Driver &driver) {
  driver.allocate(4096);
  chain::done = chain::done + 1;
}

int main(int, char **arguments) {
  const char *how = arguments[1];
  if (!strcmp(how, "spawn")) {
    if (!fork()) execl(arguments[0], arguments[0], "exit", nullptr);
    int status = 0;
    wait(&status);
    return WEXITSTATUS(status);
  }
  Driver driver;
  if (driver.played) reinterpret_cast<void (*)()>(dlsym(driver.played, "fake_reset"))();
  begin_nvtx();
  if (!strcmp(how, "nothing")) return 0;
  begin_driver();
  prepare(driver);
  for (int i = 0; i < 3; ++i) step(driver);
  chain_thread(driver.launch);
  driver.record("copy", 2000, 2100);
  reinterpret_cast<void (*)()>(dlsym(driver.played, "fake_deliver"))();
  std::printf("done, %s\n", setlocale(LC_ALL, nullptr));
  std::fflush(stdout);
  if (!strcmp(how, "kill")) {
    raise(SIGTERM);
    for (;;) pause();
  }
  if (!strcmp(how, "fork")) {
    const pid_t child = fork();
    if (!child) exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  return 3;
}
