#include "bindings/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "cupti/gpu.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

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
  nb::dict d;
  d["code"] = status.code;
  d["text"] = status.text;
  d["counted"] = status.counted;
  d["refused"] = status.refused;
  d["records"] = status.records;
  d["dropped"] = status.dropped;
  d["hung"] = status.hung;
  return d;
}

} // namespace

void bind_sass(nb::module_ &m) {
  const SassOptions usual;
  m.def("sass_configure", sass_configure, nb::arg("metrics"),
        nb::arg("patience_s") = usual.patience_s);
  m.def("sass_drain", sass_drain);
  m.def("sass_status", sass_status);
}

} // namespace tileprof
