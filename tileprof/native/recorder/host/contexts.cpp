#include "host/contexts.h"

namespace tileprof {

ContextId Contexts::find(ContextId parent, Kind kind, uint64_t a, uint64_t b) const {
  std::lock_guard lock(mutex_);
  auto found = ids_.find(Context{parent, kind, a, b});
  return found == ids_.end() ? 0 : found->second;
}

ContextId Contexts::child(ContextId parent, Kind kind, uint64_t a, uint64_t b) {
  std::lock_guard lock(mutex_);
  Context context{parent, kind, a, b};
  auto found = ids_.find(context);
  if (found == ids_.end() && kind == Kind::range && ranges_[parent]++ >= kMostRanges) {
    context = {parent, kind, Names::kFolded, 0};
    found = ids_.find(context);
  }
  if (found != ids_.end()) return found->second;
  const uint32_t id = size_.load(std::memory_order_relaxed);
  if (id >= kMost) {
    folded_.fetch_add(1, std::memory_order_relaxed);
    return parent;
  }
  all_.make(id) = context;
  ids_.emplace(context, id);
  size_.store(id + 1, std::memory_order_release);
  return id;
}

NameId Names::intern(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (all_.size() >= kMost) {
    auto found = ids_.find(std::string(text));
    return found == ids_.end() ? kFolded : found->second;
  }
  auto [entry, fresh] = ids_.try_emplace(std::string(text), NameId(all_.size()));
  if (fresh) all_.push_back(&entry->first);
  return entry->second;
}

std::string Names::at(NameId id) const {
  std::lock_guard lock(mutex_);
  return id < all_.size() ? *all_[id] : std::string();
}

uint32_t Names::size() const {
  std::lock_guard lock(mutex_);
  return uint32_t(all_.size());
}

} // namespace tileprof
