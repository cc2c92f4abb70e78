// The thread pool of the cpu device without Python, under a sanitizer: threads launch at once with
// changing numbers of workers, blocks fail, print, record and are sampled, and the process forks.
//
// Usage: pool_stress SECONDS LAUNCHES FORKS. Ends after SECONDS and so many launches of each thread.
// Prints the launches, those whose results were wrong, and the children that did not end well.
//
// The including file has the structures of records before this one (instrument/records.py).
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "base.h"
#include "pool.h"

namespace {

constexpr int64_t kMostBlocks = 300, kMostWorkers = 6, kStates = 3, kRecords = 16;
constexpr uint64_t kArena = 2048;

// What one launch does, and what it has done.
struct Work {
  int64_t blocks, fails;  // the lowest block that fails; `blocks`: none
  bool prints;
  std::vector<int64_t> out;
};

int body(const void *frame, TpWorker *worker, int64_t block) {
  Work &work = **static_cast<Work *const *>(frame);
  if (worker->state) __atomic_store_n(worker->state, 1, __ATOMIC_RELAXED);
  int64_t *held = reinterpret_cast<int64_t *>(worker->arena);
  for (uint64_t i = 0; i < kArena / 8; ++i) held[i] = block + int64_t(i);
  if (worker->records) tp_note(static_cast<TpHeader *>(worker->records), 1, uint32_t(block), 0);
  if (block >= work.fails && block % 7 == work.fails % 7) return tp_fail(worker, 5, block);
  if (work.prints && block % 50 == 0) {
    if (void *message = worker->run->begin_print(worker->run, block, 2, 8)) {
      __builtin_memcpy(message, &block, 8);
      worker->run->end_print(worker->run);
    }
  }
  work.out[size_t(block)] += held[kArena / 8 - 1];
  return 0;
}

int entry(const uint64_t *words, TpRun *run) {
  const Work *work = reinterpret_cast<const Work *>(words[0]);
  const int64_t grid[3] = {work->blocks, 1, 1};
  run->launch(run, body, &work, grid, kArena);
  return 0;
}

struct Buffers {
  alignas(64) char samples[kMostWorkers][TP_SAMPLE_HEAD + 64];
  struct {
    TpHeader head;
    TpRecord records[kRecords];
  } records[kMostWorkers];
  void *places[kMostWorkers];
};

// One launch; whether it did what it was to.
bool launch_one(std::mt19937 &random, Buffers &buffers) {
  auto drawn = [&](int64_t below) { return int64_t(random() % uint64_t(below)); };
  Work work{drawn(kMostBlocks), 0, drawn(8) == 0, {}};
  work.fails = drawn(4) ? work.blocks : drawn(work.blocks + 1);
  work.out.assign(size_t(work.blocks), 0);
  int64_t grids[3] = {};
  TpRun run = {};
  run.workers = 1 + drawn(kMostWorkers);
  run.grids = grids;
  if (drawn(2)) {
    __builtin_memset(buffers.samples, 0, sizeof buffers.samples);
    run.samples = &buffers.samples[0][0];
    run.sample_bytes = sizeof buffers.samples[0];
    run.states = kStates;
    run.period_ns = 50'000;
  }
  if (drawn(2)) {
    for (int64_t w = 0; w < kMostWorkers; ++w) {
      buffers.records[w].head = {};
      buffers.records[w].head.capacity = kRecords;
      buffers.places[w] = &buffers.records[w];
    }
    run.records = buffers.places;
  }
  const uint64_t words[] = {reinterpret_cast<uint64_t>(&work)};
  tp_pool_run(entry, words, &run);
  bool right = (run.failure.place >= 0) == (work.fails < work.blocks);
  // Blocks below the lowest that fails have run, whatever threads did.
  for (int64_t block = 0; block < work.fails; ++block)
    right &= work.out[size_t(block)] == block + int64_t(kArena / 8) - 1;
  if (run.failure.place >= 0) right &= run.failure.block == work.fails;
  tp_pool_free(run.printed);
  return right;
}

bool child_launches(uint32_t seed) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::mt19937 random(seed);
    static Buffers buffers;
    bool right = true;
    for (int i = 0; i < 20; ++i) right &= launch_one(random, buffers);
    _exit(right ? 0 : 3);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (status) fprintf(stderr, "a child ended with status %#x\n", unsigned(status));
  return status == 0;
}

} // namespace

int main(int, char **arguments) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(int64_t(1000 * atof(arguments[1])));
  const int64_t least = atoll(arguments[2]), forks = atoll(arguments[3]);
  tp_pool_start();
  std::atomic<int64_t> launched{0}, wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      auto buffers = std::make_unique<Buffers>();
      for (int64_t i = 0; i < least || std::chrono::steady_clock::now() < until; ++i) {
        wrong += !launch_one(random, *buffers);
        ++launched;
      }
    });
  int64_t bad = 0;
  for (int64_t i = 0; i < forks; ++i) bad += !child_launches(uint32_t(100 + i));
  for (auto &thread : threads) thread.join();
  printf("%lld %lld %lld\n", (long long)launched, (long long)wrong, (long long)bad);
  return 0;
}
