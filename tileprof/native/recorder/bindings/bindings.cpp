#include "bindings/bindings.h"

namespace tileprof {

std::vector<Bind> bindings() {
  return {bind_backward, bind_counters, bind_crashes, bind_cupti, bind_nvtx,
          bind_pc,       bind_pm,       bind_sass,  bind_timeline};
}

} // namespace tileprof
