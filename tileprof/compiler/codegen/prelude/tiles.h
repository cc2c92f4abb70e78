// Copying and filling tiles.  A tile is a pointer with, for each dimension, the distance of
// elements and how many of them are there: fewer than the tile has where it passes an edge.
#pragma once
#include "numbers.h"

template <class T, int R> struct TpTile {
  T *data;
  int64_t stride[R];
  int64_t there[R];
};

// The same type goes through unchanged, NaN payloads included.
template <class D, class S> struct TpConvert {
  enum { same = 0 };
  TP_INLINE D element(S x) { return tp_store<D>(tp_value(x)); }
};
template <class T> struct TpConvert<T, T> {
  enum { same = 1 };
  TP_INLINE T element(T x) { return x; }
};

template <class D, class S>
TP_INLINE void tp_copy_row(D *to, int64_t to_stride, const S *from, int64_t from_stride,
                           int64_t size) {
  if (TpConvert<D, S>::same && to_stride == 1 && from_stride == 1 && size * sizeof(D) >= 1024) {
    // The C library knows how to fill whole lines without reading them first.
    __builtin_memcpy((void *)to, (const void *)from, size * sizeof(D));
  } else if (to_stride == 1 && from_stride == 1) {
    TP_INDEPENDENT
    for (int64_t i = 0; i < size; i++) to[i] = TpConvert<D, S>::element(from[i]);
  } else {
    TP_INDEPENDENT
    for (int64_t i = 0; i < size; i++)
      to[i * to_stride] = TpConvert<D, S>::element(from[i * from_stride]);
  }
}
template <class D> TP_INLINE void tp_fill_row(D *to, int64_t stride, D value, int64_t size) {
  TP_INDEPENDENT
  for (int64_t i = 0; i < size; i++) to[i * stride] = value;
}

// Fill what is there of dimensions DIM to R - 1.
template <int DIM, class D, int R> TP_INLINE void tp_fill_from(D *to, const TpTile<D, R> &tile, D value) {
  if constexpr (DIM == R - 1)
    tp_fill_row(to, tile.stride[DIM], value, tile.there[DIM]);
  else
    for (int64_t i = 0; i < tile.there[DIM]; i++)
      tp_fill_from<DIM + 1>(to + i * tile.stride[DIM], tile, value);
}
template <class D, int R> TP_INLINE void tp_fill(const TpTile<D, R> &tile, D value) {
  tp_fill_from<0>(tile.data, tile, value);
}

template <int DIM, class D, class S, int R>
TP_INLINE void tp_copy_from(D *to, const TpTile<D, R> &target, const S *from,
                            const TpTile<const S, R> &source, D safe) {
  const int64_t wanted = target.there[DIM];
  const int64_t both = source.there[DIM] < wanted ? source.there[DIM] : wanted;
  const int64_t step = target.stride[DIM], stride = source.stride[DIM];
  if constexpr (DIM == R - 1) {
    tp_copy_row(to, step, from, stride, both);
    if (both < wanted) tp_fill_row(to + both * step, step, safe, wanted - both);
  } else {
    for (int64_t i = 0; i < both; i++)
      tp_copy_from<DIM + 1>(to + i * step, target, from + i * stride, source, safe);
    for (int64_t i = both; i < wanted; i++) tp_fill_from<DIM + 1>(to + i * step, target, safe);
  }
}
// Copy a tile; what is not there of the source reads as `safe`, of the target is not written.
template <class D, class S, int R>
TP_INLINE void tp_copy(const TpTile<D, R> &target, const TpTile<const S, R> &source, D safe) {
  tp_copy_from<0>(target.data, target, source.data, source, safe);
}

