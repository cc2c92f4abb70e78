// Hardware counters: of launches, over time, and by instruction.
#include "bindings/bindings.h"

#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "cupti/gpu.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

// -- of launches

void counters_configure(const std::string &chip, const std::vector<std::string> &metrics,
                        nb::bytes plan, size_t ranges, size_t batches, double patience_s) {
  CounterOptions options{chip, metrics, {plan.c_str(), plan.size()}, ranges, batches, patience_s};
  nb::gil_scoped_release others;
  gpu().counters.configure(std::move(options));
}

// Batches: (device, ranges that were dropped, image, epochs, contexts, names of functions).
nb::list counters_take() {
  const std::vector<CounterBatch> batches = without_gil([] { return gpu().counters.take(); });
  nb::list all;
  for (const CounterBatch &each : batches) {
    const auto &launches = each.launches;
    const size_t n = launches.size();
    all.append(nb::make_tuple(
        each.device, each.dropped,
        nb::bytes(reinterpret_cast<const char *>(each.image.data()), each.image.size()),
        column<uint32_t>(n, [&](size_t i) { return launches[i].epoch; }),
        column<uint32_t>(n, [&](size_t i) { return launches[i].context; }),
        column<uint32_t>(n, [&](size_t i) { return launches[i].function; })));
  }
  return all;
}

nb::dict counters_status() {
  const CounterStatus status = without_gil([] { return gpu().counters.status(); });
  return dict_of("code", status.code, "text", status.text, "counted", status.counted,
                 "refused", status.refused, "launches", status.launches, "lost", status.lost,
                 "waited", status.waited);
}

// -- over time

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
  return dict_of("code", status.code, "text", status.text, "sampled", status.sampled,
                 "samples", status.totals.samples, "missed", status.totals.missed,
                 "overflows", status.totals.overflows, "hung", status.hung);
}

// -- by instruction

void sass_configure(const std::vector<std::string> &metrics, double patience_s) {
  nb::gil_scoped_release others;
  gpu().sass.configure({metrics, patience_s});
}

// Sums since `sass_configure`: columns of rows, functions as (module, name).
nb::dict sass_drain() {
  const SassCounts counts = without_gil([] { return gpu().sass.counts(); });
  const std::vector<std::pair<SassKey, uint64_t>> rows(counts.rows.begin(), counts.rows.end());
  const size_t n = rows.size();
  nb::dict d;
  d["function"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.function; });
  d["offset"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.offset; });
  d["metric"] = column<uint32_t>(n, [&](size_t i) { return rows[i].first.metric; });
  d["count"] = column<uint64_t>(n, [&](size_t i) { return rows[i].second; });
  nb::list functions;
  for (const PcFunction &each : counts.functions)
    functions.append(nb::make_tuple(each.module, each.name));
  d["functions"] = functions;
  return d;
}

nb::dict sass_status() {
  const SassStatus status = without_gil([] { return gpu().sass.status(); });
  return dict_of("code", status.code, "text", status.text, "counted", status.counted,
                 "refused", status.refused, "records", status.records, "dropped", status.dropped,
                 "hung", status.hung);
}

} // namespace

void bind_counters(nb::module_ &m) {
  const CounterOptions usual;
  m.def("counters_configure", counters_configure, nb::arg("chip"), nb::arg("metrics"),
        nb::arg("plan"), nb::arg("ranges") = usual.ranges, nb::arg("batches") = usual.batches,
        nb::arg("patience_s") = usual.patience_s);
  m.def("counters_take", counters_take);
  m.def("counters_status", counters_status);
  const PmOptions pms;
  m.def("pm_configure", pm_configure, nb::arg("chip"), nb::arg("metrics"), nb::arg("counted"),
        nb::arg("plan"), nb::arg("interval_ns") = pms.interval_ns,
        nb::arg("rows") = pms.rows, nb::arg("buffer_bytes") = pms.buffer_bytes,
        nb::arg("image_samples") = pms.image_samples, nb::arg("read_ms") = pms.read_ms,
        nb::arg("patience_s") = pms.patience_s);
  m.def("pm_rows", pm_rows);
  m.def("pm_status", pm_status);
  const SassOptions sass;
  m.def("sass_configure", sass_configure, nb::arg("metrics"),
        nb::arg("patience_s") = sass.patience_s);
  m.def("sass_drain", sass_drain);
  m.def("sass_status", sass_status);
}

} // namespace tileprof
