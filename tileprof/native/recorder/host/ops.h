// Operations of a framework: the table that its observer calls.
#pragma once

#include "host/observer_api.h"

namespace tileprof {

const TileprofObserver *observer_table();

} // namespace tileprof
