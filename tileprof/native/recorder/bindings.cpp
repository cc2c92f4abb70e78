#include "bindings.h"

namespace tileprof {

std::vector<Bind> bindings() { return {bind_backward, bind_nvtx, bind_cupti, bind_pc, bind_timeline}; }

} // namespace tileprof
