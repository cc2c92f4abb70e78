// Memory for very many small arrays that grow and end together: totals' sketches and streams.
//
// In: arrays of one owner, from one thread at a time. Out: pieces of a few pages, in sizes that are
// powers of two, so that what one array has outgrown serves another; all of it goes back to the
// system with the slab, or serves the next totals. Threads of CUPTI's fill totals and another thread
// ends them: from malloc they would be holes in the heaps of the former, among what stays there.
// Pages are resident from the begin. Few are enough for a few totals, and many more for most
// programs; what is still missing comes in small steps: some sketches have buckets more each time,
// for hours, and two or three slabs of one recorder grow alike.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "records/pages.h"

namespace tileprof {

class Slab {
public:
  Slab() = default;
  ~Slab() {
    while (chunks_) {
      Chunk *next = chunks_->next;
      munmap(chunks_, chunks_->bytes);
      chunks_ = next;
    }
  }
  Slab(const Slab &) = delete;
  Slab &operator=(const Slab &) = delete;

  void *take(size_t bytes) {
    const size_t rank = rank_of(bytes);
    if (Free *free = free_[rank]) {
      free_[rank] = free->next;
      return free;
    }
    const size_t size = size_t(1) << rank;
    if (left_ < size) grow(size);
    left_ -= size;
    return std::exchange(next_, next_ + size);
  }
  void give_back(void *piece, size_t bytes) {
    Free *&first = free_[rank_of(bytes)];
    first = new (piece) Free{first};
  }
  // Begins anew in the pages that are there: nothing that was taken is used any more.
  void reset() {
    for (Free *&first : free_) first = nullptr;
    current_ = nullptr;
    left_ = 0;
  }
  // Bytes of its pages.
  size_t bytes() const { return bytes_; }

private:
  struct Free {
    Free *next;
  };
  struct alignas(std::max_align_t) Chunk {
    Chunk *next;
    size_t bytes;
  };
  static constexpr size_t kRanks = 48, kLeastRank = std::bit_width(sizeof(Free)) - 1;
  static constexpr size_t kFirst = 32u << 10, kSecond = 1u << 20, kNext = 256u << 10;

  Chunk *chunks_ = nullptr;   // the first
  Chunk *current_ = nullptr;  // that pieces come from; those behind it are free
  std::byte *next_ = nullptr;
  size_t left_ = 0, bytes_ = 0;
  Free *free_[kRanks] = {};

  static size_t rank_of(size_t bytes) {
    const size_t rank = bytes > 1 ? size_t(std::bit_width(bytes - 1)) : 0;
    if (rank >= kRanks) throw std::bad_alloc();
    return rank < kLeastRank ? kLeastRank : rank;
  }
  // What is left of the last chunk stays unused: less than the piece that is wanted.
  void grow(size_t least) {
    do {
      Chunk *&next = current_ ? current_->next : chunks_;
      if (!next) next = make(least + sizeof(Chunk));
      current_ = next;
      next_ = reinterpret_cast<std::byte *>(current_) + sizeof(Chunk);
      left_ = current_->bytes - sizeof(Chunk);
    } while (left_ < least);
  }
  Chunk *make(size_t least) {
    size_t wanted = bytes_ < kFirst ? kFirst : bytes_ < kSecond ? kSecond : kNext;
    if (wanted < least) wanted = least;
    void *pages = take_pages(wanted, true);
    if (!pages) throw std::bad_alloc();
    bytes_ += wanted;
    return new (pages) Chunk{nullptr, wanted};
  }
};

// From a slab, or without one from the heap; copies are the heap's.
template <typename T> struct SlabAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;
  static_assert(alignof(T) <= sizeof(void *));

  Slab *slab = nullptr;

  SlabAllocator() = default;
  explicit SlabAllocator(Slab *from) : slab(from) {}
  template <typename Other> SlabAllocator(const SlabAllocator<Other> &other) : slab(other.slab) {}
  SlabAllocator select_on_container_copy_construction() const { return {}; }
  T *allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T *>(slab ? slab->take(bytes) : ::operator new(bytes));
  }
  void deallocate(T *piece, size_t count) {
    if (slab)
      slab->give_back(piece, count * sizeof(T));
    else
      ::operator delete(piece);
  }
  template <typename Other> bool operator==(const SlabAllocator<Other> &other) const {
    return slab == other.slab;
  }
};

template <typename T> using SlabVector = std::vector<T, SlabAllocator<T>>;

} // namespace tileprof
