// Parts of the module that have files of their own.
#pragma once

#include <nanobind/nanobind.h>

namespace tileprof {

// The result of work that is done without the GIL: CUPTI's threads may wait for threads that want
// it, and other threads of Python go on.
template <typename Work> auto without_gil(Work work) {
  nanobind::gil_scoped_release others;
  return work();
}

void bind_arrays(nanobind::module_ &);
void bind_cupti(nanobind::module_ &);
void bind_backward(nanobind::module_ &);
void bind_counters(nanobind::module_ &);
void bind_crashes(nanobind::module_ &);
void bind_memory(nanobind::module_ &);
void bind_nvtx(nanobind::module_ &);
void bind_pc(nanobind::module_ &);
void bind_timeline(nanobind::module_ &);

} // namespace tileprof
