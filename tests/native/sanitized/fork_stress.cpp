// Forks while other threads are in the middle of noting that their launches failed.
//
// Usage: fork_stress FORKS. Prints the children that did not end well; one that hangs is one of them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base.h"

namespace {

bool fails(int times) {
  const int64_t index[TP_MAX_INDICES] = {};
  bool right = true;
  for (int i = 0; i < times; ++i) {
    TpRun run = {};
    run.failure.place = -1;
    tp_fail(&run, 1, 3, index, TP_MAX_INDICES);
    right &= run.failure.place == 3;
  }
  return right;
}

} // namespace

int main(int, char **arguments) {
  std::atomic<bool> ended{false};
  auto fail = [&] {
    while (!ended) fails(100);
  };
  std::thread first(fail), second(fail);
  int bad = 0;
  for (int i = 0; i < atoi(arguments[1]); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      _exit(fails(10) ? 0 : 3);
    }
    int status = 0;
    bad += child < 0 || waitpid(child, &status, 0) != child || status;
    if (bad) break;
  }
  ended = true;
  first.join();
  second.join();
  printf("%d\n", bad);
  return 0;
}
