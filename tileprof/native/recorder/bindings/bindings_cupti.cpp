#include "bindings/bindings.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "cupti/gpu.h"
#include "host/recorder.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

nb::tuple told(const GpuStatus &status) { return nb::make_tuple(status.code, status.text); }

// -- totals

nb::dict totals_columns(const PageVector<Total> &totals) {
  const size_t n = totals.size();
  nb::dict d;
  d["epoch"] = column<uint32_t>(n, [&](size_t i) { return totals[i].key.epoch; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return totals[i].key.context; });
  d["what"] = column<uint8_t>(n, [&](size_t i) { return totals[i].key.what; });
  d["detail"] = column<uint32_t>(n, [&](size_t i) { return totals[i].key.detail; });
  d["count"] = column<uint64_t>(n, [&](size_t i) { return totals[i].count; });
  d["untimed"] = column<uint64_t>(n, [&](size_t i) { return totals[i].untimed; });
  d["sum"] = column<uint64_t>(n, [&](size_t i) { return totals[i].sum; });
  d["min"] = column<uint64_t>(n, [&](size_t i) { return totals[i].least; });
  d["max"] = column<uint64_t>(n, [&](size_t i) { return totals[i].most; });
  d["slack"] = column<uint64_t>(n, [&](size_t i) { return totals[i].slack; });
  d["bytes"] = column<uint64_t>(n, [&](size_t i) { return totals[i].bytes; });
  d["blocks"] = column<uint64_t>(n, [&](size_t i) { return totals[i].blocks; });
  d["grid_x"] = column<uint32_t>(n, [&](size_t i) { return totals[i].grid[0]; });
  d["grid_y"] = column<uint32_t>(n, [&](size_t i) { return totals[i].grid[1]; });
  d["grid_z"] = column<uint32_t>(n, [&](size_t i) { return totals[i].grid[2]; });
  return d;
}

// All sketches one after the other: entry i has those from starts[i] to starts[i + 1].
void add_sketches(const PageVector<Total> &totals, nb::dict &d) {
  std::vector<uint64_t> starts{0};
  PageVector<uint64_t> entries;
  size_t all = 0;
  for (const Total &total : totals) all += total.sketch.entries().size();
  starts.reserve(totals.size() + 1);
  entries.reserve(all);
  for (const Total &total : totals) {
    const Sketch::Entries &own = total.sketch.entries();
    entries.insert(entries.end(), own.begin(), own.end());
    starts.push_back(entries.size());
  }
  add_sketch_columns(starts, entries, d);
}

// All totals' parts by stream: of the total at `row`, on which device and stream, how many and how
// long.
nb::dict stream_columns(const PageVector<Total> &totals) {
  PageVector<uint32_t> rows;
  PageVector<StreamPart> parts;
  size_t all = 0;
  for (const Total &total : totals) all += total.streams.size();
  rows.reserve(all);
  parts.reserve(all);
  for (size_t i = 0; i < totals.size(); ++i)
    for (const StreamPart &part : totals[i].streams) {
      rows.push_back(uint32_t(i));
      parts.push_back(part);
    }
  const size_t n = parts.size();
  nb::dict d;
  d["row"] = column<uint32_t>(n, [&](size_t i) { return rows[i]; });
  d["device"] = column<uint32_t>(n, [&](size_t i) { return uint32_t(parts[i].stream >> 32); });
  d["stream"] = column<uint32_t>(n, [&](size_t i) { return uint32_t(parts[i].stream); });
  d["count"] = column<uint64_t>(n, [&](size_t i) { return parts[i].count; });
  d["sum"] = column<uint64_t>(n, [&](size_t i) { return parts[i].sum; });
  return d;
}

nb::dict timeline_columns(const Drained &drained) {
  const std::vector<TimelineEvent> &events = drained.timeline;
  const size_t n = events.size();
  nb::dict d;
  d["overwritten"] = drained.overwritten;
  d["start"] = column<uint64_t>(n, [&](size_t i) { return events[i].start; });
  d["end"] = column<uint64_t>(n, [&](size_t i) { return events[i].end; });
  d["epoch"] = column<uint32_t>(n, [&](size_t i) { return events[i].epoch; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return events[i].context; });
  d["what"] = column<uint8_t>(n, [&](size_t i) { return events[i].what; });
  d["detail"] = column<uint32_t>(n, [&](size_t i) { return events[i].detail; });
  d["device"] = column<uint16_t>(n, [&](size_t i) { return events[i].device; });
  d["stream"] = column<uint32_t>(n, [&](size_t i) { return events[i].stream; });
  d["launch"] = column<uint32_t>(n, [&](size_t i) { return events[i].launch; });
  d["launched"] = column<uint64_t>(n, [&](size_t i) { return events[i].launched; });
  return d;
}

// Of each long gap, from when to when it was, and the key of what ended it.
nb::dict gap_columns(const PageVector<Gap> &gaps) {
  const size_t n = gaps.size();
  nb::dict d;
  d["from"] = column<uint64_t>(n, [&](size_t i) { return gaps[i].from; });
  d["to"] = column<uint64_t>(n, [&](size_t i) { return gaps[i].to; });
  d["epoch"] = column<uint32_t>(n, [&](size_t i) { return gaps[i].key.epoch; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return gaps[i].key.context; });
  d["detail"] = column<uint32_t>(n, [&](size_t i) { return gaps[i].key.detail; });
  return d;
}

// Hands over all totals, and the timeline's events under "timeline"; see Activities::drain.
nb::dict gpu_drain(bool settle) {
  TakenTotals waits;
  Drained drained;  // goes first: rows of `waits` move to it
  {
    nb::gil_scoped_release others;
    drained = gpu().activities.drain(settle);
    waits = gpu().waits.take();
    for (Total &each : waits.rows) drained.totals.rows.push_back(std::move(each));
  }
  const PageVector<Total> &totals = drained.totals.rows;
  nb::dict d = totals_columns(totals);
  add_sketches(totals, d);
  d["streams"] = stream_columns(totals);
  d["gaps"] = gap_columns(drained.gaps);
  d["timeline"] = timeline_columns(drained);
  // In this order: rows of `waits` are among the others.
  gpu().activities.give_back(std::move(drained.totals));
  gpu().waits.give_back(std::move(waits));
  return d;
}

// -- the rest

// Kernel variants from a number on: (name, device, registers, block, cluster, static shared,
// dynamic shared, local memory of a thread), names as the compiler wrote them.
nb::list gpu_variants(size_t first) {
  nb::list all;
  for (const Variant &v : gpu().activities.variants(first))
    all.append(nb::make_tuple(
        recorder().names.at(v.name), v.device, v.registers,
        nb::make_tuple(v.block[0], v.block[1], v.block[2]),
        nb::make_tuple(v.cluster[0], v.cluster[1], v.cluster[2]), v.static_shared,
        v.dynamic_shared, v.local));
  return all;
}

nb::dict gpu_counts() {
  Gpu &one = gpu();
  const ActivityCounts counts = one.activities.counts();
  // Of which a record may yet come. Read in this order, so that it is never too many.
  const uint64_t launches = one.subscriber.launches(), settled = one.correlations.settled();
  return dict_of("records", counts.records, "kernels", counts.kernels, "dropped", counts.dropped,
                 "untimed", counts.untimed, "unattributed", counts.unattributed, "outside",
                 counts.outside, "foreign", counts.foreign, "unreadable", counts.unreadable,
                 "uncaptured", counts.uncaptured, "evicted", one.correlations.evicted(), "late",
                 one.activities.late(), "overwritten", one.activities.overwritten(), "launches",
                 launches, "unsettled", launches > settled ? launches - settled : 0);
}

// Memory that grows with what is recorded, in bytes.
nb::dict gpu_held_bytes() {
  return dict_of("buffers", gpu().buffers.bytes(), "waiting", gpu().activities.waiting_bytes(),
                 "totals", gpu().activities.totals_bytes());
}

nb::tuple gpu_start(const std::string &path, const std::vector<uint32_t> &kinds, size_t timeline,
                    size_t buffer_bytes) {
  GpuOptions options{0, timeline, buffer_bytes};
  for (uint32_t kind : kinds)
    if (kind < cupti::kKinds) options.kinds |= uint64_t(1) << kind;
  return told(without_gil([&] { return gpu().start(path, options); }));
}

// A method of `Gpu`, without the GIL.
template <typename Method> nb::tuple done(Method method) {
  return told(without_gil([&] { return method(gpu()); }));
}

std::string demangled(const std::string &name) {
  // Without the prefix of a function, a short name of C reads as a type: `a` as `signed char`.
  if (name.compare(0, 2, "_Z")) return name;
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

// The bytes of a record by kind, from the loaded library.
nb::dict gpu_record_sizes(const std::string &path) {
  Cupti cupti;
  std::string problem = load_cupti(path, cupti);
  if (problem.empty()) problem = ask_record_sizes(cupti);
  if (!problem.empty()) throw std::runtime_error(problem);
  nb::dict sizes;
  for (uint32_t kind = 0; kind < cupti::kKinds; ++kind)
    if (cupti.record_sizes[kind]) sizes[nb::int_(kind)] = cupti.record_sizes[kind];
  return sizes;
}

nb::dict names(std::initializer_list<std::pair<const char *, int>> all) {
  nb::dict d;
  for (const auto &[name, number] : all) d[name] = number;
  return d;
}

void bind_constants(nb::module_ &m) {
  m.attr("WHATS") = names({{"kernel", 1}, {"memcpy", 2}, {"memset", 3}, {"sync", 4},
                           {"overhead", 5}, {"idle", 7}});
  m.attr("WAITS") = names({{"event", int(Wait::event)}, {"stream", int(Wait::stream)},
                           {"device", int(Wait::device)}});
  m.attr("IDLE_REASONS") = names({{"unknown", 0}, {"launch", 1}, {"sync", 2}, {"copy", 3},
                                  {"queue", 4}, {"waiting_copy", 5}});
  m.attr("GPU_CODES") = names({{"other_subscriber", cupti::kOtherSubscriber},
                               {"not_loaded", kNotLoaded},
                               {"started", kStarted},
                               {"not_started", kNotStarted},
                               {"timed_out", kTimedOut},
                               {"unknown_records", kUnknownRecords},
                               {"subscription_lost", kSubscriptionLost},
                               {"records_elsewhere", kRecordsElsewhere},
                               {"insufficient_privileges", cupti::kNoPrivilege},
                               {"no_stalls", kNoStalls},
                               {"cannot_sample", kCannotSample},
                               {"overflows", kOverflows},
                               {"other_chip", kOtherChip},
                               {"cannot_count", kCannotCount},
                               {"no_pm_sampling", kNoPmSampling}});
  m.attr("RECORD_KINDS") = names({{"kernel", cupti::kKernel},
                                  {"memcpy", cupti::kMemcpy},
                                  {"memcpy_peer", cupti::kMemcpyPeer},
                                  {"memset", cupti::kMemset},
                                  {"overhead", cupti::kOverhead},
                                  {"memory", cupti::kMemory}});
}

} // namespace

void bind_cupti(nb::module_ &m) {
  bind_constants(m);
  m.def("gpu_start", gpu_start, nb::arg("path"), nb::arg("kinds"), nb::arg("timeline") = 0,
        nb::arg("buffer_bytes") = Buffers::kSize);
  m.def("gpu_stop", [](double s) { return done([s](Gpu &g) { return g.stop(s); }); },
        nb::arg("timeout_s") = 10.0);
  m.def("gpu_pause", [] { return done([](Gpu &g) { return g.pause(); }); });
  m.def("gpu_resume", [] { return done([](Gpu &g) { return g.resume(); }); });
  m.def("gpu_reclaim", [] { return done([](Gpu &g) { return g.reclaim(); }); });
  m.def("gpu_limit_timeline", [](size_t most) {
    nb::gil_scoped_release others;
    gpu().activities.limit_timeline(most);
  });
  m.def("gpu_flush",
        [](bool force, double s) {
          return done([force, s](Gpu &g) { return g.flush(force, s); });
        },
        nb::arg("force") = false, nb::arg("timeout_s") = 10.0);
  m.def("gpu_health", [] { return done([](Gpu &g) { return g.health(); }); });
  m.def("gpu_started", [] { return gpu().started(); });
  m.def("gpu_version", [] { return gpu().cupti().version; });
  m.def("gpu_kinds", [] {
    std::vector<uint32_t> kinds;
    for (uint32_t kind = 0; kind < cupti::kKinds; ++kind)
      if (gpu().kinds() >> kind & 1) kinds.push_back(kind);
    return kinds;
  });
  m.def("gpu_drain", gpu_drain, nb::arg("settle") = true);
  m.def("gpu_variants", gpu_variants, nb::arg("first") = 0);
  m.def("gpu_counts", gpu_counts);
  m.def("gpu_held_bytes", gpu_held_bytes);
  m.def("gpu_record_sizes", gpu_record_sizes, nb::arg("path"));
  m.def("gpu_after_fork", [] { forget_gpu(); });
  m.def("demangled", demangled, nb::arg("name"));
}

} // namespace tileprof
