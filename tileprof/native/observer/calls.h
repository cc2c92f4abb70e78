// Data that a thread of the observed program keeps between operations: numbers of names,
// places for what is open. Nothing here takes a lock or allocates once it is warm.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>

#include "../recorder/host/observer_api.h"
#include "../recorder/host/thread_pointer.h"
#include "moved.h"

namespace tileprof {

inline std::atomic<const TileprofObserver *> the_calls{nullptr};
inline const TileprofObserver &calls() { return *the_calls.load(std::memory_order_relaxed); }
inline void set_calls(const TileprofObserver *table) { the_calls.store(table); }

// The engine's own bracket around a node of the backward pass, and around what it does besides:
// sums of gradients that were broadcast, hooks.
inline constexpr std::string_view kEvaluation = "autograd::engine::evaluate_function: ";

struct NameOf {
  uint32_t id;
  bool evaluation;  // whether it is the engine's bracket around a node
  bool python;      // whether it is that of a node of Python; those of PyTorch end with a number
};

// Numbers of names. That of an operator stays where it is, so its address tells it, if what is there
// begins as it did; others, as of nodes of the backward pass, are made for the moment and told by
// their text.
class Names {
public:
  const NameOf &of(const at::RecordFunction &function) {
    const char *text = function.name();
    Place *const set = &places_[(uintptr_t(text) >> 3) % kPlaces & ~size_t(1)];
    if (set[0].is_of(text)) [[likely]] return set[0].known->second;
    if (set[1].is_of(text)) return set[1].known->second;
    if (!function.operator_name().has_value()) return of(text);
    const Known::value_type &known = by_text(text);
    // Two have a place, or programs in which two names share one would look them up by text each time.
    set[1] = set[0];
    set[0] = Place(text, known);
    return known.second;
  }
  const NameOf &of(std::string_view text) {
    const Known::value_type *&met = met_[hash(text) % kMet];
    if (!met || met->first != text) met = &by_text(text);
    return met->second;
  }

private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Known = std::unordered_map<std::string, NameOf, Hash, std::equal_to<>>;
  struct Place {
    const char *text = nullptr;
    const Known::value_type *known = nullptr;
    char start[16] = {};

    Place() = default;
    Place(const char *text, const Known::value_type &known) : text(text), known(&known) {
      std::memcpy(start, text, sizeof(start));
    }
    // All names are in strings of the standard library, of which so much can always be read.
    bool is_of(const char *other) const {
      if (text != other) return false;
      uint64_t words[2], now[2];
      std::memcpy(words, start, sizeof(words));
      std::memcpy(now, other, sizeof(now));
      return words[0] == now[0] && words[1] == now[1];
    }
  };
  // A program that never repeats its names starts learning again.
  static constexpr size_t kPlaces = 1024, kMet = 512, kMost = 10'000;

  Place places_[kPlaces];
  const Known::value_type *met_[kMet] = {};
  Known known_;

  // Of the length and the ends of a name, in which those of nodes differ.
  static uint64_t hash(std::string_view text) {
    uint64_t first = 0, last = 0;
    const size_t size = std::min(text.size(), sizeof(first));
    std::memcpy(&first, text.data(), size);
    std::memcpy(&last, text.data() + text.size() - size, size);
    const uint64_t mixed = (first ^ text.size()) * 0x9E3779B97F4A7C15u + last;
    return mixed * 0xC2B2AE3D27D4EB4Fu >> 32;
  }

  const Known::value_type &by_text(std::string_view text) {
    auto found = known_.find(text);
    if (found != known_.end()) return *found;
    if (known_.size() >= kMost) {
      known_.clear();
      for (Place &place : places_) place = {};
      for (const Known::value_type *&met : met_) met = nullptr;
    }
    const std::string whole(text);
    const NameOf name{calls().name(whole.c_str()), text.starts_with(kEvaluation),
                      text.ends_with("Backward")};
    return *known_.emplace(whole, name).first;
  }
};

// Of which operations a thread looks at the tensors: of all where contexts are new, and in bursts
// later on, for it takes PyTorch a third of a microsecond to hand them over.
struct Sampling {
  // Lengths, in operations: after a new context; of a burst, and from the end of one to the next on
  // average.
  static constexpr int64_t kFresh = 2048, kBurst = 32, kApart = 2048;
  // Programs that never repeat themselves may spend so many operations, and this part of those that
  // are not sampled.
  static constexpr int64_t kMost = 100'000, kPart = 16;

  bool on = false;
  int64_t left = 1;         // operations until it goes on, or off
  int64_t credit = kMost;
  uint32_t newest = 0;      // context; they are numbered in the order of their making
  uint32_t unheard = 0;     // operations since the last that was sampled
  uint64_t random = 0x9E3779B97F4A7C15u;

  // Takes note of an operation; whether it is to go on, or off.
  bool changes(uint32_t context) {
    if (context > newest) [[unlikely]] {
      newest = context;
      if (renew() && !on) return true;
    }
    return --left <= 0;
  }
  // What it does from here on; the caller sees to it that it does.
  void change(bool now) {
    if (now && !on) {
      if (left <= 0) left = kBurst, credit -= kBurst;
    } else if (!now) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      left = kApart / 2 + int64_t(random % kApart);
      credit = std::min(kMost, credit + left / kPart);
    }
    on = now;
    unheard = 0;
  }

private:
  bool renew() {
    const int64_t more = on ? kFresh - std::min(left, kFresh) : kFresh;
    if (credit < more) return false;
    credit -= more;
    left = kFresh;
    return true;
  }
};

struct Thread : OfThread {
  Names names;
  moved::Signatures signatures;
  facts::Tables tables;    // that got dense gradients
  Sampling sampling;
  const at::RecordFunction *latest = nullptr;  // operation that was entered last
  uint32_t inside = 0;     // context of the innermost operation that is open
  bool counting = false;   // whether an operation around has its work counted
  bool quiet = false;      // whether operations are passed over: it is in a node of a backward pass
  void *recorded = nullptr;  // the recorder's state of it
  struct Free {
    Free *next;
  } *free = nullptr;       // places for what opens

  // Becomes that of a thread that begins. What it knows of names stays.
  void begin_anew() {
    tables = {};
    sampling = {};
    latest = nullptr;
    recorded = nullptr;
    inside = 0;
    counting = quiet = false;
  }
};

// States of threads that have ended, for those that begin; none is freed (see thread_pointer.h).
// Nobody waits for the lock, which a thread may have held that is not there in a forked child.
class Ended {
public:
  Thread *take() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || threads_.empty()) return new Thread;
    Thread *again = threads_.back();
    threads_.pop_back();
    again->begin_anew();
    return again;
  }
  void put(Thread *thread) {
    thread->let_go();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) threads_.push_back(thread);
  }

private:
  std::mutex mutex_;
  std::vector<Thread *> threads_;
};
inline Ended &ended = *new Ended;

// The calling thread's, if it has one.
inline thread_local Thread *thread_if_any = nullptr;
inline thread_local bool thread_ends = false;

inline Thread &new_thread() {
  // First, so that what the recorder keeps of a thread ends after what is kept here.
  calls().thread();
  struct Owner {
    Thread *const thread = ended.take();
    ~Owner() {
      thread_if_any = nullptr;
      thread_ends = true;
      ended.put(thread);
    }
  };
  // Operations may still run in destructors of other thread-local objects.
  if (thread_ends) return *(thread_if_any = new Thread);
  thread_local Owner owner;
  return *(thread_if_any = owner.thread);
}

inline constinit OwnStates<Thread> own_states;
inline uint32_t forks() { return __atomic_load_n(calls().forks, __ATOMIC_RELAXED); }

// The calling thread's state by its own variables, with the recorder's.
__attribute__((noinline)) inline Thread &find_thread() {
  Thread &thread = thread_if_any ? *thread_if_any : new_thread();
  thread.recorded = calls().thread();
  // The recorder may hand the state of a thread that ends to another one.
  if (!thread_ends) own_states.put(thread, forks());
  return thread;
}

__attribute__((always_inline)) inline Thread &this_thread() {
  Thread *const found = own_states.find(forks());
  return found ? *found : find_thread();
}

inline Thread *known_thread() {
  Thread *const found = own_states.find(forks());
  return found ? found : thread_if_any;
}

// A place of a thread's for something that is open.
struct Pooled : at::ObserverContext {
  static constexpr size_t kSize = 112;

  static void *operator new(size_t, Thread &thread) {
    if (!thread.free) return ::operator new(kSize);
    return std::exchange(thread.free, thread.free->next);
  }
  static void operator delete(void *place) {
    // It may have been opened by another thread: places move to where they are left.
    Thread *thread = known_thread();
    if (!thread) return ::operator delete(place);
    thread->free = new (place) Thread::Free{thread->free};
  }
};

// An operation that was entered: all that is to be known of it, the recorder knows.
struct Entered final : at::ObserverContext {
  static void operator delete(Entered *, std::destroying_delete_t) {}
};
inline Entered &entered = *new Entered;

// Something else that is open: a node of a backward pass, what is passed over, a range of the user's.
struct Open final : Pooled {
  Thread *thread = nullptr;  // that passes over it; nullptr: it is a range
  uint64_t range = 0;
  void *opened_by = nullptr;  // the recorder's thread
  // Whether operations around it were skipped, and whether those of a node are observed because it
  // asked for that; whether it was entered.
  bool was_quiet = false, observes = false, node = false;
};
static_assert(sizeof(Open) <= Pooled::kSize);

// An operation whose tensors are looked at.
struct Sample final : Pooled {
  Thread *thread = nullptr;
  uint32_t context = 0;
  uint32_t results = 0, result_count = 0;
  moved::Moved moved;
  TileprofVisit visit{};
};
static_assert(sizeof(Sample) <= Pooled::kSize);

} // namespace tileprof
