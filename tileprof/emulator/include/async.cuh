// Copies that land later: cp.async of a thread, bulk copies, tensor maps.
#pragma once
#include "barriers.cuh"

struct TpTensorMap {
  alignas(64) unsigned char bytes[128];
};

// The first `bytes` of BYTES are read, the others become 0.
template <int BYTES> TP_INLINE void tp_cp_async_part(void *to, const void *from, int bytes) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
  tp_emulator::copy_async(to, from, BYTES, bytes);
}
template <int BYTES> TP_INLINE void tp_cp_async(void *to, const void *from) {
  tp_cp_async_part<BYTES>(to, from, BYTES);
}
template <int BYTES> TP_INLINE void tp_cp_async(void *to, const void *from, bool valid) {
  tp_cp_async_part<BYTES>(to, from, valid ? BYTES : 0);
}
TP_INLINE void tp_cp_async_commit() { tp_emulator::copy_commit(); }
template <int N> TP_INLINE void tp_cp_async_wait() { tp_emulator::copy_wait(N); }

template <class... C>
TP_INLINE void tp_tma_load(void *to, const TpTensorMap *map, uint64_t *barrier, C... c) {
  const int corner[] = {(int)c...};
  tp_emulator::map_load(to, map, barrier, 0, sizeof...(c), corner);
}
template <class... C>
TP_INLINE void tp_tma_load_multicast(void *to, const TpTensorMap *map, uint64_t *barrier,
                                     uint16_t mask, C... c) {
  const int corner[] = {(int)c...};
  if (mask == 0) tp_emulator::fail("a multicast to no block");
  tp_emulator::map_load(to, map, barrier, mask, sizeof...(c), corner);
}
TP_INLINE uint64_t tp_evict_first() { return 0; }
TP_INLINE uint64_t tp_evict_last() { return 0; }
template <class... C>
TP_INLINE void tp_tma_load_hint(void *to, const TpTensorMap *map, uint64_t *barrier, uint64_t,
                                C... c) {
  tp_tma_load(to, map, barrier, c...);
}
template <class... C>
TP_INLINE void tp_tma_load_multicast_hint(void *to, const TpTensorMap *map, uint64_t *barrier,
                                          uint16_t mask, uint64_t, C... c) {
  tp_tma_load_multicast(to, map, barrier, mask, c...);
}

#define TP_STORE(NAME, HOW)                                                       \
  template <class... C>                                                           \
  TP_INLINE void NAME(const TpTensorMap *map, const void *from, C... c) {         \
    const int corner[] = {(int)c...};                                             \
    tp_emulator::map_store(map, from, sizeof...(c), corner, HOW);                 \
  }
TP_STORE(tp_tma_store, '=')
TP_STORE(tp_tma_reduce_add, '+')
TP_STORE(tp_tma_reduce_min, '<')
TP_STORE(tp_tma_reduce_max, '>')
#undef TP_STORE
template <class... C>
TP_INLINE void tp_tma_store_hint(const TpTensorMap *map, const void *from, uint64_t, C... c) {
  tp_tma_store(map, from, c...);
}
TP_INLINE void tp_bulk_load(void *to, const void *from, int bytes, uint64_t *barrier) {
  tp_emulator::bulk_load(to, from, bytes, barrier);
}
TP_INLINE void tp_bulk_store(void *to, const void *from, int bytes) {
  tp_emulator::bulk_store(to, from, bytes);
}
TP_INLINE void tp_bulk_commit() { tp_emulator::bulk_commit(); }
template <int N> TP_INLINE void tp_bulk_wait_read() { tp_emulator::bulk_wait(N, true); }
template <int N> TP_INLINE void tp_bulk_wait() { tp_emulator::bulk_wait(N, false); }
TP_INLINE void tp_prefetch_map(const TpTensorMap *) {}
