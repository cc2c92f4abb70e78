#include "bindings.h"

namespace tileprof {

std::vector<Bind> bindings() { return {}; }

} // namespace tileprof
