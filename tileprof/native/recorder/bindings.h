// Parts of the module that have files of their own.
#pragma once

#include <vector>

#include <nanobind/nanobind.h>

namespace tileprof {

using Bind = void (*)(nanobind::module_ &);

// All of them; a part adds its line in bindings.cpp.
std::vector<Bind> bindings();

void bind_cupti(nanobind::module_ &);
void bind_backward(nanobind::module_ &);
void bind_counters(nanobind::module_ &);
void bind_nvtx(nanobind::module_ &);
void bind_pc(nanobind::module_ &);
void bind_timeline(nanobind::module_ &);

} // namespace tileprof
