// What each thread is in: operations, ranges and driver calls that are open, and their time.
//
// In: `enter` and `leave` by an observer of a framework, by NVTX, by callbacks of the driver.  Out:
// `here()`, the calling context of this moment, and host time by context.  All of it belongs to the
// calling thread and takes no lock; what others read (times, forward passes) is atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "contexts.h"
#include "frames.h"

namespace tileprof {

inline constexpr int64_t kNoSequence = -1;

uint64_t now_ns();  // CLOCK_MONOTONIC, as time.perf_counter_ns

// Host time at a context; cumulative, written by one thread, read by any.
struct HostTime {
  std::atomic<uint64_t> count{0}, own_ns{0};
  // Of those that no other entry of this module encloses: what the scope around them loses.
  std::atomic<uint64_t> outermost_ns{0};
  // What the operations worked on, as their shapes tell.
  std::atomic<double> flops{0}, bytes{0};

  template <typename T> static void add(std::atomic<T> &to, T what) {
    to.store(to.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
  }
};

// Something open: an operation, a range, a call.
struct Entry {
  ContextId context;
  const void *stop;   // innermost frame when it began
  const void *scope;  // identity of Python's scope then
  uint64_t began_ns;
  uint64_t inside_ns;   // time of entries within
  bool by_frames;       // whether what is called in it can be told by `stop`; else by `frames`
  std::vector<Frame> frames;  // of a range: where it began, innermost first
};

// Which context each operation of the forward pass had, by the sequence number it shares with its
// backward; the newest `kSlots` are known.
class ForwardPasses {
public:
  void put(int64_t sequence, ContextId context);
  ContextId find(int64_t sequence) const;

private:
  static constexpr uint32_t kSlots = 1u << 20;
  std::unique_ptr<std::atomic<uint64_t>[]> slots_;
  std::atomic<std::atomic<uint64_t> *> ready_{nullptr};
};

class Thread {
public:
  explicit Thread(uint64_t ident) : ident_(ident) {}

  // The context of this moment; frames are left out where the recorder is told so.
  ContextId here();

  ContextId enter(Kind kind, NameId name, uint64_t b = 0);
  // Enters under a given context instead of the path that leads here.
  ContextId enter_under(ContextId parent, Kind kind, NameId name, uint64_t b = 0);
  // Leaves the innermost entry, which must be of that context; others above it are left too.
  void leave(ContextId context);
  // A range has no frame that lasts: what is called later is told by the frames that it shares.
  ContextId push_range(NameId name, NameId domain);
  void pop_range(NameId domain);

  ContextId child(ContextId parent, Kind kind, uint64_t a, uint64_t b = 0);

  uint64_t ident() const { return ident_; }
  size_t depth() const { return depth_.load(std::memory_order_relaxed); }
  Blocks<HostTime> &times() { return times_; }
  void add_work(ContextId context, double flops, double bytes);
  ForwardPasses &forward() { return forward_; }
  // What a framework calls this thread; 0 where it has not said.
  uint64_t number() const { return number_; }
  void set_number(uint64_t number) { number_ = number; }
  bool has_frames() const { return innermost_frame() != nullptr; }

private:
  struct Known {
    Context key{};
    ContextId id = 0;
  };
  // The chain of frames that was last met under a base, outermost first.
  struct Chain {
    ContextId base = 0;
    std::vector<Frame> frames;
    std::vector<ContextId> contexts;
  };
  static constexpr size_t kKnown = 4096, kChains = 8;

  const uint64_t ident_;
  uint64_t number_ = 0;
  std::vector<Entry> entries_;
  std::atomic<size_t> depth_{0};
  std::vector<Frame> met_;
  Known known_[kKnown];
  Chain chains_[kChains];
  ScopeReader scope_;
  Blocks<HostTime> times_;
  ForwardPasses forward_;

  ContextId through_frames(ContextId base, size_t count, size_t chain);
  ContextId frame_child(ContextId parent, const Frame &frame);
  size_t beyond(const Entry &entry) const;
  ContextId push(Entry entry);
  void pop();
};

Thread &this_thread();

} // namespace tileprof
