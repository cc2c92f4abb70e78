#include "bindings/bindings.h"

#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "cupti/gpu.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

void pm_configure(const std::string &chip, const std::vector<std::string> &metrics,
                  const std::vector<bool> &counted, nb::bytes plan, uint64_t interval_ns,
                  size_t rows, size_t buffer_bytes, size_t image_samples, uint32_t read_ms,
                  double patience_s) {
  PmOptions options{chip, metrics, counted, {plan.c_str(), plan.size()}, interval_ns,
                    rows, buffer_bytes, image_samples, read_ms, patience_s};
  nb::gil_scoped_release others;
  gpu().configure_pms(std::move(options));
}

// Devices: (number, starts, ends, a column for each metric, samples of a row at most, rows that
// found no room).
nb::list pm_rows() {
  const auto parts = without_gil([] { return gpu().pms.rows(); });
  nb::list all;
  for (const PmSampling::Part &each : parts) {
    const PmRows &rows = each.rows;
    const size_t n = rows.start.size();
    nb::list columns;
    for (size_t metric = 0; metric < rows.metrics; ++metric)
      columns.append(
          column<float>(n, [&](size_t i) { return rows.values[i * rows.metrics + metric]; }));
    all.append(nb::make_tuple(
        each.device, column<uint64_t>(n, [&](size_t i) { return rows.start[i]; }),
        column<uint64_t>(n, [&](size_t i) { return rows.end[i]; }), columns, rows.samples_a_row,
        rows.given_up));
  }
  return all;
}

nb::dict pm_status() {
  const PmStatus status = without_gil([] { return gpu().pms.status(); });
  nb::dict d;
  d["code"] = status.code;
  d["text"] = status.text;
  d["sampled"] = status.sampled;
  d["samples"] = status.totals.samples;
  d["missed"] = status.totals.missed;
  d["overflows"] = status.totals.overflows;
  d["hung"] = status.hung;
  return d;
}

} // namespace

void bind_pm(nb::module_ &m) {
  const PmOptions usual;
  m.def("pm_configure", pm_configure, nb::arg("chip"), nb::arg("metrics"), nb::arg("counted"),
        nb::arg("plan"), nb::arg("interval_ns") = usual.interval_ns,
        nb::arg("rows") = usual.rows, nb::arg("buffer_bytes") = usual.buffer_bytes,
        nb::arg("image_samples") = usual.image_samples, nb::arg("read_ms") = usual.read_ms,
        nb::arg("patience_s") = usual.patience_s);
  m.def("pm_rows", pm_rows);
  m.def("pm_status", pm_status);
}

} // namespace tileprof
