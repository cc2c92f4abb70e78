// Timelines of threads: switched on, given Python's scopes, handed over.
#include "bindings/bindings.h"
#include "bindings/columns.h"
#include "host/recorder.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

struct Traced {
  std::vector<HostEvent> events;
  uint64_t overwritten = 0;  // events that gave way to these
};

Traced take_all() {
  Traced all;
  for (Thread *thread : recorder().threads()) all.overwritten += thread->take_traced(all.events);
  return all;
}

// Called by one thread at a time.
nb::dict host_drain() {
  const Traced all = without_gil([] { return take_all(); });
  const size_t n = all.events.size();
  nb::dict d;
  d["overwritten"] = all.overwritten;
  d["start"] = column<uint64_t>(n, [&](size_t i) { return all.events[i].start; });
  d["end"] = column<uint64_t>(n, [&](size_t i) { return all.events[i].end; });
  d["epoch"] = column<uint32_t>(n, [&](size_t i) { return all.events[i].epoch; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return all.events[i].context; });
  d["thread"] = column<uint64_t>(n, [&](size_t i) { return all.events[i].thread; });
  return d;
}

} // namespace

void bind_timeline(nb::module_ &m) {
  m.def("host_limit_timeline", [](size_t most) { recorder().room.limit(most); });
  m.def("trace_scope", [](uint64_t node, uint64_t start, uint64_t end) {
    this_thread().trace_scope(node, start, end);
  });
  m.def("host_drain", host_drain);
}

} // namespace tileprof
