// Open operations, ranges and driver calls of each thread, and their time.
//
// In: `enter` and `leave` by an observer of a framework, by NVTX, by callbacks of the driver.  Out:
// `here()`, the calling context of this moment, host time by context, and a timeline where one is
// wanted.  All of it belongs to the calling thread and takes no lock; what others read (times,
// forward passes, the timeline) is atomic.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "host/clock.h"
#include "host/contexts.h"
#include "host/entry.h"
#include "host/frames.h"
#include "host/host_timeline.h"
#include "host/observer_api.h"
#include "host/thread_pointer.h"
#include "stacks/stack.h"

namespace tileprof {

// Host time at a context; cumulative, written by one thread, read by any. Small, for contexts are
// numbered in the order in which the program came to them: what follows is in memory already.
struct HostTime {
  std::atomic<uint64_t> count{0}, own_ns{0};
};

// Flops and bytes of operations by how many flops they do a byte, in octaves: the least time of
// several operations is the sum of each one's at its own limit, arithmetic or memory, and not that
// of their sums. Below the first bound memory limits on every device, from the last one on
// arithmetic does.
struct WorkKinds {
  static constexpr int kLowest = 1, kOctaves = 11;
  std::atomic<double> flops[kOctaves], bytes[kOctaves];

  // Number of the octave of an operation.
  static int octave_of(double flops, double bytes) {
    if (!(flops > 0)) return 0;
    const double octave = bytes > 0 ? std::ilogb(flops / bytes) : kLowest + kOctaves;
    return int(std::clamp<double>(octave - kLowest, 0, kOctaves - 1));
  }
  // Lower bound of an octave, in flops per byte; the first one begins at 0.
  static int least_of(int octave) { return octave ? 1 << (kLowest + octave) : 0; }
};

// Numbers that few contexts have.
struct HostWork {
  HostWork() = default;
  HostWork(const HostWork &) = delete;
  ~HostWork() { delete kinds.load(); }

  // Time of entries right in a scope, which is not the scope's own.
  std::atomic<uint64_t> claimed_ns{0};
  // Work of the operations, from their shapes.
  std::atomic<double> flops{0}, bytes{0};
  // The same by octave; made for operations that have work, by the thread that does it.
  std::atomic<WorkKinds *> kinds{nullptr};
  // What sampled operations are (see TileprofVisit), and how many visits these samples stand for.
  std::atomic<double> sampled_bytes{0}, table{0}, rows{0}, shared{0}, slots{0}, padding{0};
  std::atomic<uint64_t> sampled_visits{0};
};

template <typename T> void add(std::atomic<T> &to, T what) {
  to.store(to.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
}

struct Free {
  void operator()(void *pages) const { std::free(pages); }
};

// The context of each operation of the forward pass, by the sequence number it shares with its
// backward; the newest `kSlots` are known.
class ForwardPasses {
public:
  void put(int64_t sequence, ContextId context);
  ContextId find(int64_t sequence) const;
  void forget();

private:
  static constexpr uint32_t kSlots = 1u << 20;
  std::unique_ptr<std::atomic<uint64_t>[], Free> slots_;
  uint64_t least_ = UINT64_MAX, most_ = 0;  // of the numbers that were put
  std::atomic<std::atomic<uint64_t> *> ready_{nullptr};
};

// Number of some frames, from the innermost, that were called since a time at which the frames were
// others: outer ones are shared, and so is the first that has gone on to another line.
size_t called_since(const std::vector<Frame> &then, const std::vector<Frame> &now);
size_t called_since(const std::vector<NativeFrame> &then, const NativeStack &now);

// The state of Python in a thread, at one event.
struct Moment {
  const PythonScope &scope;
  const void *frame;  // the innermost
  _ts *thread;
};

class Thread : public OfThread {
public:
  explicit Thread(uint64_t ident);
  // Becomes another thread's, when its own has ended: times stay, they are added up over all.
  void begin(uint64_t ident);

  // The context of this moment; without frames if the recorder is set so.
  ContextId here();
  // The same without waiting for the GIL, for callers that hold a lock: where frames or scopes are
  // new since the thread's last event, the innermost context around that is known.
  ContextId known_here();

  // `function` is the observer's object for an operation. Where it is on the stack, it belongs to
  // the native frame that the operation ends with.
  ContextId enter(Kind kind, NameId name, uint64_t b = 0, const void *function = nullptr);
  // `enter` of an operation that an observer tells by `function`, inline (entries.h).
  ContextId enter_operation(NameId name, const void *function);
  // Enters under a given context instead of the path that leads here.
  ContextId enter_under(ContextId parent, Kind kind, NameId name, uint64_t b = 0,
                        const void *function = nullptr);
  // Leaves the innermost entry that had this context; operations above it are left too.
  void leave(ContextId context);
  // Leaves the operation of an observer's object, if it is open in this thread, inline; the context
  // of the innermost operation that is open then.
  ContextId leave_operation(const void *function);
  // The same where nobody saw how it ended: time after `since_ns` is in no entry.
  void leave_unseen(ContextId context, uint64_t since_ns);
  // The context that `enter` would give.
  ContextId path_of(Kind kind, NameId name);

  // A range has no lasting frame: what is called later is recognised by the frames that it shares.
  // Its number is the thread's own; 0: too much is open, and it is left out.
  uint64_t open_range(NameId name, NameId domain);
  void close_range(uint64_t range);
  // Another thread ended it; this one closes it when it comes by.
  void ended_elsewhere(uint64_t range);

  ContextId child(ContextId parent, Kind kind, uint64_t a, uint64_t b = 0) {
    const Context key{parent, kind, a, b};
    const ContextId id = next_known(key);
    return id ? id : known_child(key);
  }

  uint64_t ident() const { return ident_.load(std::memory_order_relaxed); }
  // Host time in operations and calls, cumulative; one that is open counts until now.
  uint64_t claimed_ns() const;
  // Called by a sampler, in a thread that holds the GIL: the context of a frame of this thread, if
  // it is in a range that is inside the scope of that identity; else 0.
  ContextId sampled(const void *frame, const void *scope);
  // Whether an entry is open that is inside the innermost scope of Python's.
  bool inside();
  Blocks<HostTime> &times() { return times_; }
  Blocks<HostWork> &works() { return works_; }
  // When the innermost entry began, 0 where there is none.
  uint64_t began_ns() const { return entries_.empty() ? 0 : entries_.back().began_ns; }
  // Puts something of this thread on the timeline, if one is wanted.
  void trace(ContextId context, uint64_t start, uint64_t end);
  void trace_scope(uint64_t node, uint64_t start, uint64_t end);
  // Called by another thread, one at a time: the newest entries; how many were overwritten before.
  uint64_t take_traced(std::vector<HostEvent> &into);
  void add_work(ContextId context, double flops, double bytes);
  // What a visit of an operation was, and so is taken to have been since the last sample.
  void add_sample(ContextId context, const TileprofVisit &visit);
  // Work of the kernel that this thread launches next, as its author tells; `add_announced` adds it
  // to that launch.
  // Lets open entries begin anew: the time until now is counted where they are, or, without
  // `count`, nowhere. Their visits are counted when they end.
  void split(bool count);
  void announce_work(double flops, double bytes) { announced_[0] = flops, announced_[1] = bytes; }
  void add_announced(ContextId context) {
    if (!announced_[0] && !announced_[1]) return;
    add_work(context, announced_[0], announced_[1]);
    announce_work(0, 0);
  }
  ForwardPasses &forward() { return forward_; }
  // The framework's number of this thread; 0 if unknown.
  uint64_t number() const { return number_; }
  void set_number(uint64_t number) { number_ = number; }
  // The thread with a number of the framework's, nullptr where it is unknown. Takes no lock while it
  // is asked for the same one.
  Thread *named(uint64_t number);
  bool has_frames() const { return innermost_frame() != nullptr; }
  // The context of the kernel of ours that is being launched, 0 where there is none.
  ContextId kernel() const {
    return entries_.empty() || entries_.back().kind != Kind::kernel ? 0 : entries_.back().context;
  }
  // Whether what the thread does is the measurement's own, and is not recorded.
  bool unrecorded = false;
  // Whether the innermost entry is of that kind and has called nothing in Python.
  bool is_right_in(Kind kind) const;

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
  struct Ended {
    uint64_t range, ns;
    Ended *next;
  };
  // The innermost range, for the sampler.
  struct Published {
    ContextId context = 0;
    const void *scope = nullptr;
    std::vector<Frame> frames;
  };
  static constexpr size_t kKnown = 4096, kChains = 8, kDeepest = 256, kStacks = 4096;
  struct KnownStack {
    uint64_t hash = 0;
    ContextId context = 0;
  };

  std::atomic<uint64_t> ident_;
  uint64_t number_ = 0;
  // What `named` returned last.
  struct Named {
    uint64_t number = 0;
    Thread *thread = nullptr;  // nullptr: ask again
    uint32_t naming = 0;
  };
  Named named_;
  double announced_[2] = {0, 0};
  Entries entries_;
  uint64_t ranges_ = 0;
  std::atomic<Ended *> ended_{nullptr};
  // Operations and calls that are open, ranges not counted.
  uint32_t operations_ = 0;
  ContextId inside_ = 0;  // of the innermost operation that is open, 0 where none is
  std::atomic<uint64_t> claimed_ns_{0}, open_since_{0};
  std::vector<Frame> met_;
  std::unique_ptr<Known[], Free> known_;
  // Contexts of Python's frames under a base, by the places at which the frames stand.
  struct KnownPath {
    uint64_t number = 0;  // see number_of_places
    ContextId context = 0;
  };
  static constexpr size_t kPaths = 4096;
  std::unique_ptr<KnownPath[], Free> paths_;
  ContextId last_ = 0;  // that was asked for
  // The context of the last scope, by whether it is apart. Kept here, because asking for it between
  // others would spoil the order of numbers.
  struct KnownScope {
    uint64_t number = 0;
    ContextId context = 0;
  };
  KnownScope scopes_[2];
  Chain chains_[kChains];
  std::unique_ptr<KnownStack[]> stacks_;  // made when it is first needed
  ScopeReader scope_;
  Blocks<HostTime> times_;
  Blocks<HostWork> works_;
  ForwardPasses forward_;
  uint64_t recording_ = 0;
  std::mutex published_mutex_;
  Published published_;
  // Replaced by the thread, under the lock; what is in it is written without.
  std::mutex ring_mutex_;
  std::shared_ptr<HostRing> ring_;

  ContextId through_frames(ContextId base, size_t count, size_t chain);
  // The two places at which a path may be kept, the newer one first.
  KnownPath *paths_of(uint64_t number) { return &paths_[(number >> 40) % kPaths & ~size_t(1)]; }
  ContextId known_frames(ContextId base, size_t count) const;
  ContextId frame_child(ContextId parent, const Frame &frame);
  ContextId next_known(const Context &key);
  ContextId known_child(const Context &key);
  Known &place_of(const Context &key) { return known_[HashContext()(key) % kKnown]; }
  const Entry *innermost(const PythonScope &scope) const;
  ContextId scope_context(const PythonScope &scope, bool apart);
  ContextId new_scope_context(uint64_t number, bool apart);
  Moment moment();
  // Whether nothing in Python has changed since the innermost entry began, an operation: what begins
  // now is right in it.
  bool is_still_in_operation() const;
  ContextId path(const Moment &moment, bool known_only = false);
  ContextId outside_of_python() const;
  // The context of the native frames that were called since, below a base.
  ContextId through_native(ContextId base, const Moment &moment,
                           std::vector<NativeFrame> *met = nullptr);
  ContextId native_chain(ContextId base, const NativeFrame *innermost, size_t count);
  uintptr_t native_limit(const Moment &moment) const;
  ContextId parent_of(Kind kind, const Moment &moment);
  // Adds an entry, without the time of its begin.
  Entry &put(Kind kind, ContextId context, ContextId under, ContextId claims, const void *scope,
             const void *stop, const void *function);
  Entry &push(Kind kind, ContextId context, ContextId under, const Moment &moment,
              const void *function = nullptr);
  // Begins the time of the entry that was pushed last.
  void begin(Entry &entry);
  ContextId enter_within(Kind kind, NameId name, uint64_t b, const void *function);
  void pop(uint64_t now);
  void count(const Entry &entry, HostTime &time, Entry *around);
  void close(size_t at, uint64_t now);
  ContextId past(ContextId context, const Entry &gone);
  size_t find_entered(ContextId context) const;
  size_t find_function(const void *function) const;
  size_t find_range(uint64_t range) const;
  // Sees to what has changed since the thread's last event: a new recording, ranges that another
  // thread ended.
  void settle();
  void begin_recording(uint64_t recording);
  void settle_ended();
  void publish();
  void count_in(const Entry &entry);
  void count_out(const Entry &entry, uint64_t now);
};

// The calling thread's state; inline (recorder.h).
Thread &this_thread();
// The same by thread-local variables, made if it is new.
Thread &find_thread();

// The table that an observer of a framework calls (ops.cpp).
const TileprofObserver *observer_table();

} // namespace tileprof
