// The tree of calling contexts: where something was done, as the threads saw it.
//
// A context is its parent, a kind, and up to two numbers that distinguish siblings. Contexts are
// interned, never freed, and numbered from 1 in the order of their making, so a parent's number is
// below its children's; 0 is the root, outside of everything. Names are interned the same way.
// Python turns contexts into nodes of its tree when a profile is taken (profiler/tree/contexts.py).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tileprof {

using ContextId = uint32_t;
using NameId = uint32_t;

// The numbers are part of the module's interface (`_recorder.KINDS`).
enum class Kind : uint8_t {
  root = 0,
  frame = 1,     // a: code object (held), b: offset of the instruction in bytes
  scope = 2,     // a: number of the scope's node in Python's tree; parent 0
  op = 3,        // a: name; a framework's operation
  backward = 4,  // a: name; under the operation of the forward pass that made it
  range = 5,     // a: name, b: name of the domain; an NVTX range
  api = 6,       // a: name; a call into the driver
  captured = 7,  // a: the context in which a graph's node was captured, under that of the launch
  kernel = 8,    // a: number of a kernel's node in Python's tree, b: of its recording; parent 0
  native = 9,    // a: a call in C or C++, see CodePlace::packed (stacks/modules.h)
};

struct Context {
  ContextId parent;
  Kind kind;
  uint64_t a, b;
  bool operator==(const Context &) const = default;
};

struct HashContext {
  size_t operator()(const Context &c) const {
    uint64_t h = (uint64_t(c.parent) << 8 | uint64_t(c.kind)) * 0x9E3779B97F4A7C15u;
    h = (h ^ c.a) * 0xC2B2AE3D27D4EB4Fu;
    h = (h ^ (h >> 29) ^ c.b) * 0x165667B19E3779F9u;
    return h ^ (h >> 32);
  }
};

// Grows by blocks that stay where they are, so that readers need no lock.
template <typename T> class Blocks {
public:
  static constexpr uint32_t kBits = 12, kBlock = 1u << kBits, kBlocks = 1u << 14;

  T *find(uint32_t at) const {
    T *block = blocks_[at >> kBits].load(std::memory_order_acquire);
    return block ? block + (at & (kBlock - 1)) : nullptr;
  }
  T &make(uint32_t at) {
    T *known = find(at);
    return known ? *known : make_block(at);
  }
  // Zeroed pages, of which only what is touched takes memory.
  Blocks() : blocks_(static_cast<std::atomic<T *> *>(std::calloc(kBlocks, sizeof(void *)))) {
    if (!blocks_) throw std::bad_alloc();
  }
  ~Blocks() {
    for (uint32_t i = 0; i < kBlocks; ++i) delete[] blocks_[i].load();
    std::free(blocks_);
  }
  Blocks(const Blocks &) = delete;
  Blocks &operator=(const Blocks &) = delete;

private:
  std::atomic<T *> *blocks_;

  __attribute__((noinline)) T &make_block(uint32_t at) {
    T *fresh = new T[kBlock](), *none = nullptr;
    if (!blocks_[at >> kBits].compare_exchange_strong(none, fresh, std::memory_order_acq_rel))
      delete[] fresh;
    return *find(at);
  }
};

class Contexts {
public:
  // Contexts beyond this many fold into their parents, so that deep recursion cannot eat the memory.
  static constexpr uint32_t kMost = 2'000'000;
  // Ranges beyond this many in one place share a name, so that names that never repeat cannot.
  static constexpr uint32_t kMostRanges = 1'000;

  Contexts() { all_.make(0) = Context{0, Kind::root, 0, 0}; }

  // The context, made if it is new. Never called with a new code object: see `known` in frames.
  ContextId child(ContextId parent, Kind kind, uint64_t a, uint64_t b = 0);
  // The same, or 0 where it is not known yet.
  ContextId find(ContextId parent, Kind kind, uint64_t a, uint64_t b) const;
  const Context &at(ContextId id) const { return *all_.find(id); }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  uint64_t folded() const { return folded_.load(std::memory_order_relaxed); }
  // Called in a forked child, where a thread that does not exist there may have held the lock.
  void after_fork() { new (&mutex_) std::mutex; }

private:
  mutable std::mutex mutex_;
  std::unordered_map<Context, ContextId, HashContext> ids_;
  std::unordered_map<ContextId, uint32_t> ranges_;  // how many, by parent
  Blocks<Context> all_;
  std::atomic<uint32_t> size_{1};
  std::atomic<uint64_t> folded_{0};
};

class Names {
public:
  // The first name, of ranges that share one; as in Python's tree (profile/tree/builder.py). Names beyond
  // the largest number have it too.
  static constexpr NameId kFolded = 0, kMost = 200'000;

  Names() { intern("(folded: more than 1,000 names)"); }
  NameId intern(std::string_view text);
  std::string at(NameId id) const;
  uint32_t size() const;
  void after_fork() { new (&mutex_) std::mutex; }

private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<const std::string *> all_;
};

} // namespace tileprof
