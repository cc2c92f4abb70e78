#include "host/recorder.h"

#include <pthread.h>

namespace tileprof {

ContextId Recorder::frame(ContextId parent, const Frame &frame) {
  const uint64_t code = uint64_t(reinterpret_cast<uintptr_t>(frame.code));
  const uint64_t offset = uint64_t(frame.offset);
  if (const ContextId known = contexts.find(parent, Kind::frame, code, offset)) return known;
  // Held before it is named, so that no context ever names a code object that is gone.
  return hold(frame.code) ? contexts.child(parent, Kind::frame, code, offset) : parent;
}

Thread &Recorder::add_thread() {
  std::lock_guard lock(mutex_);
  const uint64_t ident = uint64_t(pthread_self());  // as `threading.get_ident()` counts
  if (ended_.size() > kEnded) {
    Thread &again = *ended_.front();
    ended_.pop_front();
    std::erase_if(by_number_, [&](const auto &known) { return known.second == &again; });
    naming_.fetch_add(1, std::memory_order_release);
    again.begin(ident);
    return again;
  }
  threads_.push_back(std::make_unique<Thread>(ident));
  return *threads_.back();
}

void Recorder::end_thread(Thread &thread) {
  thread.let_go();
  std::lock_guard lock(mutex_);
  ended_.push_back(&thread);
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
  naming_.fetch_add(1, std::memory_order_release);
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
  unwinder().after_fork();
  for (auto &thread : threads_) thread.release();
  threads_.clear();
  ended_.clear();
  by_number_.clear();
  naming_.fetch_add(1);
  generation_.fetch_add(1);
}

} // namespace tileprof
