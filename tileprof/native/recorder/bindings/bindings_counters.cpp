#include "bindings/bindings.h"

#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "cupti/gpu.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

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
  nb::dict d;
  d["code"] = status.code;
  d["text"] = status.text;
  d["counted"] = status.counted;
  d["refused"] = status.refused;
  d["launches"] = status.launches;
  d["lost"] = status.lost;
  d["waited"] = status.waited;
  return d;
}

} // namespace

void bind_counters(nb::module_ &m) {
  const CounterOptions usual;
  m.def("counters_configure", counters_configure, nb::arg("chip"), nb::arg("metrics"),
        nb::arg("plan"), nb::arg("ranges") = usual.ranges, nb::arg("batches") = usual.batches,
        nb::arg("patience_s") = usual.patience_s);
  m.def("counters_take", counters_take);
  m.def("counters_status", counters_status);
}

} // namespace tileprof
