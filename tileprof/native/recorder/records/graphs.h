// Places where nodes of CUDA graphs were captured: the calling context by a node's number.
//
// In: CUPTI's callbacks while a graph is captured and instantiated, on any thread, also in pauses. Out: the context
// of a node that a replay ran. The newest `kNodes` nodes at least are known.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "host/contexts.h"

namespace tileprof {

class Graphs {
public:
  static constexpr size_t kNodes = 1u << 19;

  void created(uint64_t node, ContextId context);
  // A node of an executable graph is a copy of one that was captured.
  void cloned(uint64_t node, uint64_t original);
  // 0: captured before CUPTI was asked for such callbacks.
  ContextId find(uint64_t node);

private:
  using Nodes = std::unordered_map<uint64_t, ContextId>;
  std::mutex mutex_;
  Nodes newer_, older_;

  ContextId find_locked(uint64_t node);
  void put(uint64_t node, ContextId context);
};

} // namespace tileprof
