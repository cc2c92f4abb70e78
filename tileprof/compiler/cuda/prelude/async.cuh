// Copies that run beside the threads: cp.async, TMA and bulk copies.
// Addresses in shared memory are multiples of 16 bytes (TMA: 128); `c0` is the innermost
// coordinate, in elements.  Loads arrive at an mbarrier with their bytes; stores are waited for in
// groups of the thread that issued them.
#pragma once
#include "base.cuh"

// -- cp.async: each thread its own bytes, 4, 8 or 16, from global to shared memory

// The first `count` of BYTES are read, the others become 0.  Text, not a function: ptxas 13.0 takes
// the line of a copy two calls deep for that of a neighbour.
#define TP_CP_ASYNC(count)                                                                        \
  if constexpr (BYTES == 16)                                                                      \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"                         \
                 ::"r"(at), "l"(begin), "r"(count) : "memory");                                   \
  else                                                                                            \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"                                  \
                 ::"r"(at), "l"(begin), "n"(BYTES), "r"(count) : "memory")
template <int BYTES> TP_INLINE void tp_cp_async(void *to, const void *from) {
  const auto at = tp_shared_address(to);
  const auto begin = __cvta_generic_to_global(from);
  TP_CP_ASYNC(BYTES);
}
// Zeros where not `valid`; nothing is read there.
template <int BYTES> TP_INLINE void tp_cp_async(void *to, const void *from, bool valid) {
  const auto at = tp_shared_address(to);
  const auto begin = __cvta_generic_to_global(from);
  const int count = valid ? BYTES : 0;
  TP_CP_ASYNC(count);
}
#undef TP_CP_ASYNC
TP_INLINE void tp_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most N of this thread's youngest groups are under way.
template <int N> TP_INLINE void tp_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// -- how long the L2 cache keeps what a copy touches

TP_INLINE uint64_t tp_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
TP_INLINE uint64_t tp_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// -- TMA: boxes of tensors, described by maps that the host made

struct TpTensorMap { alignas(64) unsigned char bytes[128]; };

// Have a map at hand before the first copy through it.
TP_INLINE void tp_prefetch_map(const TpTensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// One instruction for a box: %0 shared memory, %1 map, %2 barrier, %3 mask, %4 policy, %5 … the
// point.  What an instruction does not name costs nothing.
#define TP_OPEN(...) __VA_ARGS__
#define TP_TMA(TEXT, SHARED, BARRIER, MASK, POLICY, OPERANDS)                                   \
  asm volatile(TEXT ::"r"(tp_shared_address(SHARED)), "l"(map), "r"(BARRIER), "h"(MASK),        \
               "l"(POLICY), TP_OPEN OPERANDS : "memory")
#define TP_LOADS(RANK, POINT, COORDINATES, OPERANDS)                                            \
  /* Load a box; the barrier counts its bytes. */                                               \
  TP_INLINE void tp_tma_load(void *to, const TpTensorMap *map, uint64_t *barrier,               \
                             TP_OPEN COORDINATES) {                                             \
    TP_TMA(TP_LOAD(RANK, "") " [%0], [%1, " POINT "], [%2];", to, tp_shared_address(barrier),   \
           (uint16_t)0, 0ull, OPERANDS);                                                        \
  }                                                                                             \
  TP_INLINE void tp_tma_load_hint(void *to, const TpTensorMap *map, uint64_t *barrier,          \
                                  uint64_t policy, TP_OPEN COORDINATES) {                       \
    TP_TMA(TP_LOAD(RANK, ".L2::cache_hint") " [%0], [%1, " POINT "], [%2], %4;", to,            \
           tp_shared_address(barrier), (uint16_t)0, policy, OPERANDS);                          \
  }                                                                                             \
  /* To this place in every block of the cluster whose bit is in `mask`, and its barrier. */    \
  TP_INLINE void tp_tma_load_multicast(void *to, const TpTensorMap *map, uint64_t *barrier,     \
                                       uint16_t mask, TP_OPEN COORDINATES) {                    \
    TP_TMA(TP_LOAD(RANK, ".multicast::cluster") " [%0], [%1, " POINT "], [%2], %3;", to,        \
           tp_shared_address(barrier), mask, 0ull, OPERANDS);                                   \
  }                                                                                             \
  TP_INLINE void tp_tma_load_multicast_hint(void *to, const TpTensorMap *map,                   \
                                            uint64_t *barrier, uint16_t mask, uint64_t policy,  \
                                            TP_OPEN COORDINATES) {                              \
    TP_TMA(TP_LOAD(RANK, ".multicast::cluster.L2::cache_hint") " [%0], [%1, " POINT             \
           "], [%2], %3, %4;", to, tp_shared_address(barrier), mask, policy, OPERANDS);         \
  }
#define TP_LOAD(RANK, MORE)                                                                     \
  "cp.async.bulk.tensor." RANK ".shared::cluster.global.mbarrier::complete_tx::bytes" MORE
#define TP_STORES(RANK, POINT, COORDINATES, OPERANDS)                                           \
  /* Store a box; commit and wait as for bulk stores. */                                        \
  TP_INLINE void tp_tma_store(const TpTensorMap *map, const void *from, TP_OPEN COORDINATES) {  \
    TP_TMA("cp.async.bulk.tensor." RANK ".global.shared::cta.bulk_group [%1, " POINT "], [%0];", \
           from, 0, (uint16_t)0, 0ull, OPERANDS);                                               \
  }                                                                                             \
  TP_INLINE void tp_tma_store_hint(const TpTensorMap *map, const void *from, uint64_t policy,   \
                                   TP_OPEN COORDINATES) {                                       \
    TP_TMA("cp.async.bulk.tensor." RANK ".global.shared::cta.bulk_group.L2::cache_hint [%1, "   \
           POINT "], [%0], %4;", from, 0, (uint16_t)0, policy, OPERANDS);                       \
  }                                                                                             \
  TP_REDUCE(add, RANK, POINT, COORDINATES, OPERANDS)                                            \
  TP_REDUCE(min, RANK, POINT, COORDINATES, OPERANDS)                                            \
  TP_REDUCE(max, RANK, POINT, COORDINATES, OPERANDS)
// Join a box with what is there, each element atomically, in the element type of the map.
#define TP_REDUCE(KIND, RANK, POINT, COORDINATES, OPERANDS)                                     \
  TP_INLINE void tp_tma_reduce_##KIND(const TpTensorMap *map, const void *from,                 \
                                      TP_OPEN COORDINATES) {                                    \
    TP_TMA("cp.reduce.async.bulk.tensor." RANK ".global.shared::cta." TP_STRING(KIND)           \
           ".bulk_group [%1, " POINT "], [%0];", from, 0, (uint16_t)0, 0ull, OPERANDS);         \
  }
#define TP_RANK(RANK, POINT, COORDINATES, OPERANDS)  \
  TP_LOADS(RANK, POINT, COORDINATES, OPERANDS)       \
  TP_STORES(RANK, POINT, COORDINATES, OPERANDS)
TP_RANK("1d", "{%5}", (int c0), ("r"(c0)))
TP_RANK("2d", "{%5, %6}", (int c0, int c1), ("r"(c0), "r"(c1)))
TP_RANK("3d", "{%5, %6, %7}", (int c0, int c1, int c2), ("r"(c0), "r"(c1), "r"(c2)))
TP_RANK("4d", "{%5, %6, %7, %8}", (int c0, int c1, int c2, int c3),
        ("r"(c0), "r"(c1), "r"(c2), "r"(c3)))
TP_RANK("5d", "{%5, %6, %7, %8, %9}", (int c0, int c1, int c2, int c3, int c4),
        ("r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)))
#undef TP_RANK
#undef TP_REDUCE
#undef TP_STORES
#undef TP_LOAD
#undef TP_LOADS
#undef TP_TMA
#undef TP_OPEN

// -- bulk copies: `bytes` (a multiple of 16) that lie together

TP_INLINE void tp_bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];"
               ::"r"(tp_shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"(tp_shared_address(barrier)) : "memory");
}
TP_INLINE void tp_bulk_store(void *to, const void *from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(__cvta_generic_to_global(to)), "r"(tp_shared_address(from)), "r"(bytes)
               : "memory");
}
TP_INLINE void tp_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until at most N of this thread's youngest groups still read their source.
template <int N> TP_INLINE void tp_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
// Until at most N of them are under way: the others are written.
template <int N> TP_INLINE void tp_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
