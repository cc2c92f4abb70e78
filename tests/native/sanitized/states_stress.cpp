// Threads that begin and end, each with a state of its own that another one has when it has ended.
//
// Usage: states_stress ROUNDS. Prints how often a state was used, and how often one that was found
// was not the calling thread's.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "host/thread_pointer.h"

namespace {

struct State : tileprof::OfThread {
  uint64_t used = 0;  // written without a lock: a second thread at it is a race
};

constinit tileprof::OwnStates<State> own_states;
std::mutex mutex;
std::vector<State *> all, ended;
std::atomic<uint64_t> wrong{0};

State &take() {
  std::lock_guard lock(mutex);
  if (ended.empty()) {
    all.push_back(new State);
    return *all.back();
  }
  State &again = *ended.back();
  ended.pop_back();
  return again;
}

void live() {
  State &own = take();
  own_states.put(own, 0);
  for (int i = 0; i < 200; ++i) {
    State *found = own_states.find(0);
    // Others that share the place may have asked meanwhile.
    if (!found) own_states.put(*(found = &own), 0);
    wrong += found != &own;
    ++found->used;
  }
  wrong += own_states.find(1) != nullptr;
  own.let_go();
  wrong += own_states.find(0) != nullptr;
  std::lock_guard lock(mutex);
  ended.push_back(&own);
}

} // namespace

int main(int, char **arguments) {
  const int rounds = std::atoi(arguments[1]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([rounds] {
      for (int i = 0; i < rounds; ++i) std::thread(live).join();
    });
  for (std::thread &each : threads) each.join();
  uint64_t used = 0;
  for (const State *each : all) used += each->used;
  std::printf("%llu %llu\n", (unsigned long long)used, (unsigned long long)wrong.load());
}
