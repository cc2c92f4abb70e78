// Read, combine and write one element: at once where other blocks may do the same.
#pragma once
#include "tiles.h"
#include "combining.h"

// In memory that other threads write too.
template <class Kind, class T, class V> TP_INLINE V tp_atomic(T *at, V value) {
  T old, wanted;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do wanted = tp_store<T>(Kind::join((V)tp_value(old), value));
  while (!__atomic_compare_exchange(at, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return tp_value(old);
}

// Every element that is there of both tiles.
template <class Kind, bool SHARED, int DIM, class D, class S, int R>
TP_INLINE void tp_tile_atomic_from(D *to, const TpTile<D, R> &target, const S *from,
                                   const TpTile<const S, R> &source) {
  typedef decltype(tp_value(D{})) V;
  for (int64_t i = 0; i < target.there[DIM]; i++) {
    D *at = to + i * target.stride[DIM];
    const S *x = from + i * source.stride[DIM];
    if constexpr (DIM < R - 1)
      tp_tile_atomic_from<Kind, SHARED, DIM + 1>(at, target, x, source);
    else if constexpr (SHARED)
      tp_atomic<Kind>(at, (V)tp_round<D>(tp_value(*x)));
    else
      tp_combine<Kind>(at, (V)tp_round<D>(tp_value(*x)));
  }
}
template <class Kind, bool SHARED, class D, class S, int R>
TP_INLINE void tp_tile_atomic(const TpTile<D, R> &target, const TpTile<const S, R> &source) {
  tp_tile_atomic_from<Kind, SHARED, 0>(target.data, target, source.data, source);
}
