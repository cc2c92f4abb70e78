// Ranges of a thread: unlike operations they need not nest, and any thread may end them.
//
// Entries open above a range that ends go on without it: its time so far stays where it was, and
// from then on its path is the one that leads past the range.
#include <algorithm>
#include <utility>

#include "host/entries.h"
#include "host/recorder.h"
#include "host/threads.h"

namespace tileprof {

uint64_t Thread::open_range(NameId name, NameId domain) {
  settle();
  // A program that never ends its ranges must not get slower and slower.
  if (entries_.size() >= kDeepest) return 0;
  const Moment now = moment();
  ContextId under = path(now);
  // Where there are Python frames they say where it is: of native frames, some have returned when
  // the range has begun.
  auto start = std::make_shared<RangeStart>();
  collect_frames(now.thread, nullptr, start->frames);
  if (wants_native() && !now.frame) under = through_native(under, now, &start->native);
  Entry &entry = push(Kind::range, child(under, Kind::range, name, domain), under, now);
  entry.stop = nullptr;
  entry.start = std::move(start);
  entry.range = ++ranges_;
  begin(entry);
  publish();
  return ranges_;
}

void Thread::close_range(uint64_t range) {
  settle();
  const size_t at = find_range(range);
  if (at < entries_.size()) close(at, now_ns());
  publish();
}

void Thread::ended_elsewhere(uint64_t range) {
  Ended *fresh = new Ended{range, now_ns(), ended_.load(std::memory_order_relaxed)};
  while (!ended_.compare_exchange_weak(fresh->next, fresh, std::memory_order_release)) {
  }
}

size_t Thread::find_range(uint64_t range) const {
  size_t at = entries_.size();
  while (at && entries_[at - 1].range != range) --at;
  return at ? at - 1 : entries_.size();
}

void Thread::settle_ended() {
  Ended *each = ended_.exchange(nullptr, std::memory_order_acquire);
  while (each) {
    const size_t at = find_range(each->range);
    if (at < entries_.size()) close(at, each->ns);
    delete std::exchange(each, each->next);
  }
  publish();
}

// Closes an entry. Ranges above it go on; operations above a range do too, but none outlasts the
// operation that it is in.
void Thread::close(size_t at, uint64_t now) {
  if (at + 1 == entries_.size()) return pop(now);
  const Entry gone = entries_[at];
  std::vector<Entry> above;
  for (size_t i = at + 1; i < entries_.size(); ++i)
    if (gone.range || entries_[i].range) above.push_back(entries_[i]);
  const ContextId inside = gone.range ? inside_ : gone.around;
  while (entries_.size() > at) pop(now);
  for (Entry &entry : above) {
    if (!gone.range) entry.around = inside;
    entry.context = past(entry.context, gone);
    entry.under = past(entry.under, gone);
    if (entries_.size() == at && entry.scope == gone.scope) entry.claims = gone.claims;
    entry.began_ns = std::max(entry.began_ns, now);
    entry.inside_ns = 0;
    entry.again = true;
    entries_.push_back(std::move(entry));
    count_in(entries_.back());
  }
  inside_ = inside;
}

void Thread::publish() {
  const Entry *range = nullptr;
  for (const Entry &entry : entries_)
    if (entry.range) range = &entry;
  std::lock_guard lock(published_mutex_);
  published_.context = range ? range->context : 0;
  if (!range) return;
  published_.scope = range->scope;
  published_.frames = range->start->frames;
}

ContextId Thread::sampled(const void *frame, const void *scope) {
  std::vector<Frame> frames;
  ContextId at;
  {
    std::lock_guard lock(published_mutex_);
    at = published_.context;
    if (!at || (scope && published_.scope != scope)) return 0;
    collect_frames_from(frame, frames);
    frames.resize(called_since(published_.frames, frames));
  }
  for (auto each = frames.rbegin(); each != frames.rend(); ++each)
    at = recorder().frame(at, *each);
  return at;
}

// A context without the entry that was on the way to it; itself where it was not.
ContextId Thread::past(ContextId context, const Entry &gone) {
  std::vector<Context> way;
  for (ContextId at = context; at != gone.context; at = way.back().parent) {
    if (!at) return context;
    way.push_back(recorder().contexts.at(at));
  }
  ContextId at = gone.under;
  for (auto each = way.rbegin(); each != way.rend(); ++each)
    at = child(at, each->kind, each->a, each->b);
  return at;
}

} // namespace tileprof
