// State that all parts of the recorder share: contexts, names, threads, and who is recording.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "host/contexts.h"
#include "host/threads.h"

namespace tileprof {

class Recorder {
public:
  Contexts contexts;
  Names names;

  // Numbers what is recorded now: a change of sessions begins a new epoch. 0: nobody listens.
  std::atomic<uint32_t> epoch{0};
  // Counts the recordings of this process, in the upper half of a number: each has a tree of its
  // own, whose nodes it numbers from 0.
  std::atomic<uint64_t> recording{0};
  uint64_t numbered(uint64_t node) const {
    return recording.load(std::memory_order_relaxed) | node;
  }
  // Whether contexts hold Python frames.
  std::atomic<bool> frames{true};
  // Whether contexts hold the native frames that lead to calls of the driver.
  std::atomic<bool> native{false};
  // The frame that runs the user's program and its thread: the program's path ends there.
  std::atomic<const void *> base_frame{nullptr};
  std::atomic<uint64_t> base_thread{0};
  // The last call of a backward pass: for gradients that no operation made (accumulation).
  std::atomic<ContextId> backward_root{0};
  // The framework's word on what a thread does that is in nothing that was entered and has no
  // frames: its context, or 0.
  std::atomic<ContextId (*)()> besides{nullptr};
  // Room for the threads' timelines.
  HostRoom room;

  // The context of a frame, made if it is new; its code is held. At the end of the interpreter,
  // which holds nothing any more, `parent`. A new one takes the GIL.
  ContextId frame(ContextId parent, const Frame &frame);

  Thread &add_thread();
  // Keeps the state of a thread that ends for one that begins later.
  void end_thread(Thread &thread);
  std::vector<Thread *> threads();
  // The thread that a framework knows under a number of its own (PyTorch counts its threads).
  void name_thread(uint64_t framework_number, Thread &thread);
  Thread *named_thread(uint64_t framework_number);
  // Counts the changes of what `named_thread` returns.
  uint32_t naming() const { return naming_.load(std::memory_order_acquire); }
  void after_fork();
  OwnStates<Thread> own_states;
  // Counts the processes from which this one is forked.
  uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }
  // The same for readers in C.
  const uint32_t *forks() const {
    static_assert(sizeof(generation_) == sizeof(uint32_t));
    return reinterpret_cast<const uint32_t *>(&generation_);
  }

private:
  std::mutex mutex_;
  // Threads stay when they end: their times are wanted later, and so may be their forward passes.
  // So the state of one that has ended is used again only after some others have.
  static constexpr size_t kEnded = 32;
  std::deque<Thread *> ended_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::unordered_map<uint64_t, Thread *> by_number_;
  std::atomic<uint32_t> generation_{0}, naming_{0};
};

// One in a process, never destroyed. Made when the library is loaded, because each operation asks
// for it several times and a static variable of a function is checked each time.
inline Recorder *const the_recorder = new Recorder;
inline Recorder &recorder() { return *the_recorder; }
inline Thread &this_thread() {
  Thread *const found = recorder().own_states.find(recorder().generation());
  return found ? *found : find_thread();
}
// Here, because each event begins with it.
inline void Thread::settle() {
  const uint64_t recording = recorder().recording.load(std::memory_order_relaxed);
  if (recording_ != recording) begin_recording(recording);
  if (ended_.load(std::memory_order_relaxed)) settle_ended();
}
// The context that was made after the last one asked for, 0 if it is another one. A program that
// repeats itself asks in the order in which it asked first, which is the order of the numbers.
inline ContextId Thread::next_known(const Context &key) {
  const Contexts &all = recorder().contexts;
  const ContextId next = last_ + 1;
  return next < all.size() && all.at(next) == key ? last_ = next : 0;
}
// Whether native frames are recorded; all that others pay for them.
inline bool wants_native() { return recorder().native.load(std::memory_order_relaxed); }

} // namespace tileprof
