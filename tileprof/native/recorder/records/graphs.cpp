#include "records/graphs.h"

namespace tileprof {

void Graphs::put(uint64_t node, ContextId context) {
  if (newer_.size() >= kNodes) {
    older_ = std::move(newer_);
    newer_ = {};
  }
  newer_[node] = context;
}

ContextId Graphs::find_locked(uint64_t node) {
  if (auto found = newer_.find(node); found != newer_.end()) return found->second;
  auto found = older_.find(node);
  if (found == older_.end()) return 0;
  // Nodes in use are kept.
  const ContextId context = found->second;
  put(node, context);
  return context;
}

void Graphs::created(uint64_t node, ContextId context) {
  std::lock_guard lock(mutex_);
  put(node, context);
}

void Graphs::cloned(uint64_t node, uint64_t original) {
  std::lock_guard lock(mutex_);
  if (const ContextId context = find_locked(original)) put(node, context);
}

ContextId Graphs::find(uint64_t node) {
  std::lock_guard lock(mutex_);
  return find_locked(node);
}

} // namespace tileprof
