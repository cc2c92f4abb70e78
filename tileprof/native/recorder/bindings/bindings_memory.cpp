// Device memory: events of a framework's allocator, and what became of them and of the driver's.
#include "bindings/bindings.h"
#include "bindings/columns.h"
#include "cupti/gpu.h"
#include "records/framework_memory.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

// (begin, stretch, most that was handed out and reserved in each stretch).
nb::tuple over_time(const HighWater &water) {
  const std::vector<Used> &most = water.most();
  return nb::make_tuple(
      water.begin(), water.stretch(),
      column<uint64_t>(most.size(), [&](size_t i) { return most[i].live; }),
      column<uint64_t>(most.size(), [&](size_t i) { return most[i].reserved; }));
}

nb::list pools_list(const std::vector<PoolUse> &pools) {
  nb::list all;
  for (const PoolUse &use : pools)
    all.append(dict_of("device", use.pool.device, "kind", use.pool.kind, "live", use.now.live,
                       "peak", use.most.live, "peak_ns", use.peak_ns, "reserved", use.now.reserved,
                       "most_reserved", use.most.reserved, "failures", use.failures, "most_failed",
                       use.most_failed, "over_time", over_time(use.over_time)));
  return all;
}

// All sketches of lifetimes one after the other, as `gpu_drain` has those of times.
void add_lifetimes(const std::vector<MemoryRow> &rows, nb::dict &d) {
  std::vector<uint64_t> starts{0}, entries;
  for (const MemoryRow &row : rows) {
    const Sketch::Entries &own = row.lifetimes.entries();
    entries.insert(entries.end(), own.begin(), own.end());
    starts.push_back(entries.size());
  }
  add_sketch_columns(starts, entries, d);
}

nb::dict state_dict(const MemoryState &state) {
  const std::vector<MemoryRow> &rows = state.rows;
  const size_t n = rows.size();
  nb::dict d = dict_of("pools", pools_list(state.pools), "steps", state.steps, "blocks",
                       state.blocks);
  d["pool"] = column<uint32_t>(n, [&](size_t i) { return rows[i].pool; });
  d["epoch"] = column<uint32_t>(n, [&](size_t i) { return rows[i].epoch; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return rows[i].context; });
  d["allocations"] = column<uint64_t>(n, [&](size_t i) { return rows[i].allocations; });
  d["allocated"] = column<uint64_t>(n, [&](size_t i) { return rows[i].allocated; });
  d["releases"] = column<uint64_t>(n, [&](size_t i) { return rows[i].releases; });
  d["lifetime"] = column<uint64_t>(n, [&](size_t i) { return rows[i].lifetime_ns; });
  d["live"] = column<uint64_t>(n, [&](size_t i) { return rows[i].live; });
  d["peak"] = column<uint64_t>(n, [&](size_t i) { return rows[i].kept; });
  d["growth"] = column<int64_t>(n, [&](size_t i) { return int64_t(rows[i].step - rows[i].base); });
  d["grown"] = column<uint32_t>(n, [&](size_t i) { return rows[i].grown; });
  d["shrunk"] = column<uint32_t>(n, [&](size_t i) { return rows[i].shrunk; });
  add_lifetimes(rows, d);
  return d;
}

// The state of a framework's allocator, and of what was taken from the driver beside it.
nb::tuple memory_state() {
  // What the framework's allocator claims is settled first.
  const MemoryState driver = without_gil([] { return gpu().activities.memory_state(); });
  const MemoryState framework = without_gil([] { return framework_memory().state(); });
  return nb::make_tuple(state_dict(framework), state_dict(driver));
}

} // namespace

void bind_memory(nb::module_ &m) {
  m.attr("MEMORY_EVENTS") =
      dict_of("allocated", int(TILEPROF_ALLOCATED), "released", int(TILEPROF_RELEASED), "reserved",
              int(TILEPROF_RESERVED), "mapped", int(TILEPROF_MAPPED), "returned",
              int(TILEPROF_RETURNED), "failed", int(TILEPROF_FAILED), "allocated_before",
              int(TILEPROF_ALLOCATED_BEFORE), "reserved_before", int(TILEPROF_RESERVED_BEFORE));
  m.def("memory_table", [] { return uintptr_t(memory_table()); });
  m.def("memory_event", [](uint32_t event, uint32_t device, uint64_t address, uint64_t bytes) {
    memory_table()->event(event, device, address, bytes);
  });
  m.def("memory_end_step", [] {
    nb::gil_scoped_release others;
    framework_memory().end_step();
  });
  m.def("memory_begin_recording", [] {
    nb::gil_scoped_release others;
    gpu().activities.begin_recording_memory();
    framework_memory().begin_recording();
  });
  m.def("memory_forget", [] {
    nb::gil_scoped_release others;
    framework_memory().forget();
  });
  m.def("memory_state", memory_state);
}

} // namespace tileprof
