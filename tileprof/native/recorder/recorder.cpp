#include "recorder.h"

#include <pthread.h>

namespace tileprof {

Thread &Recorder::add_thread() {
  std::lock_guard lock(mutex_);
  // As `threading.get_ident()` counts threads.
  threads_.push_back(std::make_unique<Thread>(uint64_t(pthread_self())));
  return *threads_.back();
}

std::vector<Thread *> Recorder::threads() {
  std::lock_guard lock(mutex_);
  std::vector<Thread *> all;
  for (const auto &thread : threads_) all.push_back(thread.get());
  return all;
}

void Recorder::name_thread(uint64_t framework_number, Thread &thread) {
  std::lock_guard lock(mutex_);
  by_number_[framework_number] = &thread;
}

Thread *Recorder::named_thread(uint64_t framework_number) {
  std::lock_guard lock(mutex_);
  auto found = by_number_.find(framework_number);
  return found == by_number_.end() ? nullptr : found->second;
}

void Recorder::after_fork() {
  // The parent's threads are not here, and another one of them may have held the lock.
  new (&mutex_) std::mutex;
  contexts.after_fork();
  names.after_fork();
  for (auto &thread : threads_) thread.release();
  threads_.clear();
  by_number_.clear();
  generation_.fetch_add(1);
}

Recorder &recorder() {
  static Recorder *one = new Recorder;
  return *one;
}

} // namespace tileprof
