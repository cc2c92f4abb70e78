#include "bindings.h"

namespace tileprof {

std::vector<Bind> bindings() { return {bind_nvtx}; }

} // namespace tileprof
