// The host's side without Python, for programs that run the recorder of GPUs alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "cupti/gpu.h"
#include "host/host.h"

// A call is a context, and has no callers.
namespace tileprof {
std::atomic<uint32_t> the_epoch{1};
namespace host {
Contexts &contexts() {
  static Contexts all;
  return all;
}
Names &names() {
  static Names all;
  return all;
}
uint32_t epoch() { return the_epoch; }
ContextId here() { return 0; }
ContextId known_here() { return 0; }
bool unrecorded() { return false; }
ContextId path_of(NameId call) { return contexts().child(0, Kind::api, call); }
Entered enter(NameId call, bool) {
  if (!epoch()) return {};
  const ContextId context = path_of(call);
  return {epoch(), context, context, now_ns()};
}
void leave(ContextId) {}
void leave_unseen(ContextId, uint64_t) {}
} // namespace host
} // namespace tileprof


// How long a program goes on: for so many seconds, and until so much is done, but not for ever.
class Enough {
public:
  Enough(const char *seconds, const char *least)
      : until_(Clock::now() + std::chrono::milliseconds(int64_t(1000 * atof(seconds)))),
        least_(strtoull(least, nullptr, 10)) {}
  bool is(uint64_t done) const {
    const auto now = Clock::now();
    return (now >= until_ && done >= least_) || now > until_ + std::chrono::seconds(60);
  }

private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until_;
  const uint64_t least_;
};
