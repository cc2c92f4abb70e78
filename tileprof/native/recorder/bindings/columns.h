// Dictionaries and NumPy arrays of what the recorder hands over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "records/pages.h"
#include "records/sketch.h"

namespace tileprof {

template <typename T> using Column = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

// A NumPy array that owns what `fill` wrote into it.  What is large lies in pages of its own: it
// comes and goes every few seconds, and its size varies.
template <typename T, typename Fill> Column<T> column(size_t size, Fill fill) {
  constexpr size_t kLarge = 64u << 10;  // bytes
  if (size * sizeof(T) >= kLarge) {
    auto values = std::make_unique<PageVector<T>>();
    values->reserve(size);
    for (size_t i = 0; i < size; ++i) values->push_back(T(fill(i)));
    PageVector<T> *held = values.release();
    nanobind::capsule owner(held, [](void *p) noexcept { delete static_cast<PageVector<T> *>(p); });
    return Column<T>(held->data(), {size}, owner);
  }
  auto values = std::make_unique<T[]>(size ? size : 1);
  for (size_t i = 0; i < size; ++i) values[i] = T(fill(i));
  T *data = values.release();
  nanobind::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });
  return Column<T>(data, {size}, owner);
}

// Sketches one after the other: entry i has the buckets from starts[i] to starts[i + 1].
template <typename Entries>
void add_sketch_columns(const std::vector<uint64_t> &starts, const Entries &entries,
                        nanobind::dict &d) {
  d["sketch_start"] = column<uint64_t>(starts.size(), [&](size_t i) { return starts[i]; });
  d["sketch_bucket"] = column<uint16_t>(
      entries.size(), [&](size_t i) { return entries[i] >> Sketch::kCountBits; });
  d["sketch_count"] = column<uint64_t>(entries.size(), [&](size_t i) {
    return entries[i] & ((uint64_t(1) << Sketch::kCountBits) - 1);
  });
}

inline void put(nanobind::dict &) {}
template <typename Value, typename... Rest>
void put(nanobind::dict &d, const char *name, const Value &value, const Rest &...rest) {
  d[name] = value;
  put(d, rest...);
}

// A dictionary of names and values by turns.
template <typename... Items> nanobind::dict dict_of(const Items &...items) {
  nanobind::dict d;
  put(d, items...);
  return d;
}

} // namespace tileprof
