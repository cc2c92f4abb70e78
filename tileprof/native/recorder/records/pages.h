// Memory in pages of its own, outside of malloc's heaps, for what is large and grows: the heap of a
// thread keeps what is freed in the midst of it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
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

// Has pages that are only reserved in memory now, where the system can do that.
inline void make_resident(void *pages, size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
  const uintptr_t page = 4096, first = reinterpret_cast<uintptr_t>(pages) & ~(page - 1);
  madvise(reinterpret_cast<void *>(first), reinterpret_cast<uintptr_t>(pages) + bytes - first,
          kPopulateWrite);
}

template <typename T, bool kResident = false> struct PageAllocator {
  using value_type = T;
  template <typename Other> struct rebind {
    using other = PageAllocator<Other, kResident>;
  };
  T *allocate(size_t count) {
    if (void *pages = take_pages(count * sizeof(T), kResident)) return static_cast<T *>(pages);
    throw std::bad_alloc();
  }
  void deallocate(T *pages, size_t count) { munmap(pages, count * sizeof(T)); }
  bool operator==(const PageAllocator &) const = default;
};

template <typename T> using PageVector = std::vector<T, PageAllocator<T>>;
// Of what is filled slowly, and to its end.
template <typename T> using ResidentVector = std::vector<T, PageAllocator<T, true>>;

} // namespace tileprof
