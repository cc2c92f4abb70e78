// Crashes: the profile is written before the process dies of SIGSEGV, SIGABRT and the like.
//
// The thread that crashed does nothing that may block or allocate. It rings the bell that the Python
// side listens to (profiler/endings/termination.py), lets go of the GIL where it holds it, and sleeps until
// the other threads have written the files, `limit` at most. Then what handled the signal before is
// put back, and the signal comes again: faulthandler's traceback and core dumps are as ever.
#include <Python.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iterator>
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include "bindings/bindings.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
constexpr size_t kCount = std::size(kSignals);
constexpr long kNapNs = 2'000'000;
constexpr int kCrash = 0x80;
constexpr size_t kStackBytes = 64 * 1024;

struct sigaction before[kCount];
bool installed[kCount];
std::atomic<int> bell{-1};
std::atomic<pid_t> owner{0};
std::atomic<bool> crashed{false};
std::atomic<bool> written{false};
std::atomic<long> limit_naps{0};

void put_back(int number) {
  for (size_t i = 0; i < kCount; ++i) {
    if (kSignals[i] == number) sigaction(number, &before[i], nullptr);
  }
}

void on_crash(int number, siginfo_t *info, void *) {
  // A second crash, in the threads that write or beside them, ends the process at once.
  const int fd = bell.load();
  if (owner.load() == getpid() && fd >= 0 && !crashed.exchange(true)) {
    // Python's own handlers ring with the number alone.
    const unsigned char byte = static_cast<unsigned char>(number | kCrash);
    if (write(fd, &byte, 1) == 1) {
      if (PyGILState_Check()) PyEval_SaveThread();
      const timespec nap{0, kNapNs};
      for (long naps = limit_naps.load(); naps > 0 && !written.load(); --naps) {
        nanosleep(&nap, nullptr);
      }
    }
  }
  put_back(number);
  // A fault happens again when the instruction is executed again; what was sent is sent again.
  if (info->si_code <= 0 || number == SIGABRT) pthread_kill(pthread_self(), number);
}

// Gives the calling thread a stack for handlers, for its own may have overflowed.
void give_stack() {
  static unsigned char room[kStackBytes];
  stack_t now;
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  std::memset(&now, 0, sizeof now);
  now.ss_sp = room;
  now.ss_size = sizeof room;
  sigaltstack(&now, nullptr);
}

// Watches for crashes where nobody else does, or faulthandler alone; returns whether for any.
bool watch_crashes(int fd, double seconds, bool others) {
  bell = fd;
  owner = getpid();
  crashed = written = false;
  limit_naps = static_cast<long>(seconds * 1e9 / kNapNs);
  give_stack();
  bool any = false;
  for (size_t i = 0; i < kCount; ++i) {
    if (installed[i]) {
      any = true;
      continue;
    }
    struct sigaction now;
    if (sigaction(kSignals[i], nullptr, &now) != 0) continue;
    const bool is_default = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
    if (!is_default && !others) continue;
    struct sigaction ours;
    std::memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_crash;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    if (sigaction(kSignals[i], &ours, &before[i]) == 0) installed[i] = any = true;
  }
  return any;
}

// Puts back what was there, unless somebody else has taken a signal since.
void forget_crashes() {
  bell = -1;
  for (size_t i = 0; i < kCount; ++i) {
    struct sigaction now;
    if (!installed[i] || sigaction(kSignals[i], nullptr, &now) != 0) continue;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_crash) {
      sigaction(kSignals[i], &before[i], nullptr);
      installed[i] = false;
    }
  }
}

} // namespace

void bind_crashes(nb::module_ &m) {
  m.def("watch_crashes", &watch_crashes, nb::arg("fd"), nb::arg("seconds"), nb::arg("others"));
  m.def("forget_crashes", &forget_crashes);
  m.def("crash_written", [] { written = true; });
}

} // namespace tileprof
