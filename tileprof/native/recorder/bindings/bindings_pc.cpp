#include "bindings/bindings.h"

#include <vector>

#include <nanobind/stl/string.h>

#include "bindings/columns.h"
#include "pcs/cupti_pc.h"
#include "cupti/gpu.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

void pc_configure(uint32_t log2_period, bool exact, size_t hardware_bytes, size_t scratch_bytes,
                  size_t records, uint32_t drain_ms, uint32_t worker_ms, double patience_s) {
  const PcOptions options{log2_period, exact,    hardware_bytes, scratch_bytes,
                          records,     drain_ms, worker_ms, patience_s};
  nb::gil_scoped_release others;
  gpu().pcs.configure(options);
}

// Counts, copied while the lock is held.
struct Copied {
  std::vector<std::pair<PcCounts::Key, uint64_t>> rows;
  std::vector<PcFunction> functions;
  std::vector<std::string> stalls;
  PcTotals totals;
  size_t names_held = 0;
};

nb::list texts(const std::vector<std::string> &all) {
  nb::list list;
  for (const std::string &each : all) list.append(each);
  return list;
}

nb::dict totals_of(const Copied &copied) {
  const PcTotals &all = copied.totals;
  return dict_of("total", all.total, "counted", all.counted, "dropped", all.dropped, "non_user",
                 all.non_user, "overflows", all.overflows, "discarded", all.discarded, "reads",
                 all.reads, "records", all.records, "names_freed", all.names_freed, "names_held",
                 copied.names_held, "cubins_left_out", gpu().pcs.modules.left_out());
}

// Counts since `pc_configure`: columns of rows, functions as (module, name), stalls, totals.
nb::dict pc_drain() {
  Copied copied;
  {
    nb::gil_scoped_release others;
    gpu().pcs.with_counts([&copied](const PcCounts &counts) {
      copied.rows.assign(counts.rows().begin(), counts.rows().end());
      copied.functions = counts.functions();
      copied.stalls = counts.stalls();
      copied.totals = counts.totals;
      copied.names_held = counts.names_held();
    });
  }
  const auto &rows = copied.rows;
  const size_t n = rows.size();
  nb::dict d = totals_of(copied);
  d["function"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.function; });
  d["offset"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.offset; });
  d["stall"] = column<uint16_t>(n, [&](size_t i) { return rows[i].first.stall; });
  d["context"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.context; });
  d["samples"] = column<uint64_t>(n, [&](size_t i) { return rows[i].second; });
  nb::list functions;
  for (const PcFunction &each : copied.functions)
    functions.append(nb::make_tuple(each.module, each.name));
  d["functions"] = functions;
  d["stalls"] = texts(copied.stalls);
  return d;
}

nb::dict pc_totals() {
  Copied copied;
  {
    nb::gil_scoped_release others;
    gpu().pcs.with_counts([&copied](const PcCounts &counts) {
      copied.totals = counts.totals;
      copied.names_held = counts.names_held();
    });
  }
  return totals_of(copied);
}

nb::bytes pc_cubin(uint32_t module) {
  const std::string cubin = gpu().pcs.modules.cubin(module);
  return nb::bytes(cubin.data(), cubin.size());
}

uint64_t pc_checksum(nb::bytes cubin) {
  const Cupti &cupti = gpu().cupti();
  if (!cupti.cubin_crc) return 0;
  cupti::CubinCrc asked{.bytes = cubin.size(), .cubin = cubin.c_str(), .crc = 0};
  return cupti.cubin_crc(&asked) == cupti::kSuccess ? asked.crc : 0;
}

nb::dict pc_status() {
  const PcStatus status = without_gil([] { return gpu().pcs.status(); });
  return dict_of("code", status.code, "text", status.text, "sampled", status.sampled,
                 "refused", status.refused, "hung", status.hung);
}

} // namespace

void bind_pc(nb::module_ &m) {
  const PcOptions usual;
  m.def("pc_configure", pc_configure, nb::arg("log2_period"), nb::arg("exact") = false,
        nb::arg("hardware_bytes") = usual.hardware_bytes,
        nb::arg("scratch_bytes") = usual.scratch_bytes, nb::arg("records") = usual.records,
        nb::arg("drain_ms") = usual.drain_ms, nb::arg("worker_ms") = usual.worker_ms,
        nb::arg("patience_s") = usual.patience_s);
  m.def("pc_want", [](bool on) {
    nb::gil_scoped_release others;
    gpu().want_pcs(on);
  }, nb::arg("on"));
  m.def("pc_drain", pc_drain);
  m.def("pc_totals", pc_totals);
  m.def("pc_cubin", pc_cubin, nb::arg("module"));
  m.def("pc_checksum", pc_checksum, nb::arg("cubin"));
  m.def("pc_foreign", [](uint32_t module) { return gpu().pcs.modules.foreign(module); },
        nb::arg("module"));
  m.def("pc_status", pc_status);
  m.def("gpu_settle", [](double s) {
    nb::gil_scoped_release others;
    return gpu().settle(s).code;
  }, nb::arg("timeout_s") = 10.0);
}

} // namespace tileprof
