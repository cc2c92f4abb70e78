// What is open in a thread: operations, ranges, calls of the driver, the innermost last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "host/contexts.h"
#include "host/frames.h"
#include "stacks/stack.h"

namespace tileprof {

// Where a range began, innermost first: Python frames and, where there are none, native ones.
struct RangeStart {
  std::vector<Frame> frames;
  std::vector<NativeFrame> native;
};

// Something open. Fields that an operation mostly has as 0 stand together: they are set at once.
struct Entry {
  ContextId context = 0;        // moves where a range around it ends first
  ContextId entered = 0;        // what it was when it began
  ContextId under = 0;          // what led to it
  ContextId around = 0;         // of the innermost operation that was open when it began; 0: none
  const void *scope = nullptr;  // identity of Python's scope when it began
  const void *stop = nullptr;   // innermost frame when it began
  // State of the interpreter in which an operation began, nullptr for others. An operation ends
  // before its thread gives that state up.
  _ts *python = nullptr;
  const void *function = nullptr;  // of an observed operation: the observer's object for it
  uint64_t began_ns = 0;
  NameId operation = 0;         // of an operation: its name's number and 1
  Kind kind = Kind::root;
  bool again = false;           // whether it has been counted
  ContextId claims = 0;         // context of the scope around, if nothing else encloses the entry
  uint32_t entries = 0;         // how many began right in it
  uint64_t inside_ns = 0;       // time of entries within
  uint64_t range = 0;           // number of a range; 0: an operation or a call
  // Native frames around this address on the stack belong to what led to the entry; 0: not known,
  // as for calls and ranges, which are within those of the next entry around that has one.
  uintptr_t on_stack = 0;
  ContextId twin = 0;           // context of the last that began in it, if it is of the same name
  std::shared_ptr<const RangeStart> start;  // of a range; what others call is told by `stop`
};

// A stack of entries. Those beyond its end stay as they were, but for `start`, so that adding one
// writes each field once.
class Entries {
public:
  Entries() : entries_(new Entry[kFirst]), end_(entries_.get()), limit_(end_ + kFirst) {}

  bool empty() const { return end_ == entries_.get(); }
  size_t size() const { return size_t(end_ - entries_.get()); }
  Entry &back() { return end_[-1]; }
  const Entry &back() const { return end_[-1]; }
  Entry &operator[](size_t at) { return entries_[at]; }
  const Entry &operator[](size_t at) const { return entries_[at]; }
  const Entry *begin() const { return entries_.get(); }
  const Entry *end() const { return end_; }
  // Another one, whose fields are to be written.
  Entry &add() {
    if (end_ == limit_) [[unlikely]] grow();
    return *end_++;
  }
  void push_back(Entry &&entry) { add() = std::move(entry); }
  void pop_back() {
    if (end_[-1].start) [[unlikely]] end_[-1].start.reset();
    --end_;
  }
  void clear() {
    while (!empty()) pop_back();
  }

private:
  static constexpr size_t kFirst = 64;
  std::unique_ptr<Entry[]> entries_;
  Entry *end_, *limit_;

  __attribute__((noinline)) void grow() {
    const size_t held = size();
    std::unique_ptr<Entry[]> more(new Entry[2 * held]);
    std::move(entries_.get(), end_, more.get());
    entries_ = std::move(more);
    end_ = entries_.get() + held;
    limit_ = end_ + held;
  }
};

} // namespace tileprof
