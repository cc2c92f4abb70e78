// Memory in pages of its own, outside of malloc's heaps, for what is large and grows: the heap of a
// thread keeps what is freed in the midst of it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace tileprof {

// Zeroed pages; nullptr where there are none. Resident ones are so from the begin, others when they
// are first written to.
inline void *take_pages(size_t bytes, bool resident = false) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (resident ? MAP_POPULATE : 0);
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

template <typename T> struct PageAllocator {
  using value_type = T;
  T *allocate(size_t count) {
    if (void *pages = take_pages(count * sizeof(T))) return static_cast<T *>(pages);
    throw std::bad_alloc();
  }
  void deallocate(T *pages, size_t count) { munmap(pages, count * sizeof(T)); }
  bool operator==(const PageAllocator &) const = default;
};

template <typename T> using PageVector = std::vector<T, PageAllocator<T>>;

} // namespace tileprof
