// Reductions and scans along one dimension of a tile.
#pragma once
#include "tiles.h"

// Each kind: what is taken of an element, and how two become one.
struct TpPlain {
  enum { order = 0 };  // of results that are one of the elements: 1 the largest, -1 the smallest
  template <class V> TP_INLINE V element(V x) { return x; }
};
struct TpSum : TpPlain {
  template <class V> TP_INLINE V join(V a, V b) { return (V)(a + b); }
};
struct TpAbsSum : TpSum {
  template <class V> TP_INLINE V element(V x) { return tp_abs(x); }
};
struct TpMax : TpPlain {
  enum { order = 1 };
  template <class V> TP_INLINE V join(V a, V b) { return tp_max<V>(a, b); }
};
struct TpMin : TpPlain {
  enum { order = -1 };
  template <class V> TP_INLINE V join(V a, V b) { return tp_min<V>(a, b); }
};
struct TpAbsMax : TpMax {
  template <class V> TP_INLINE V element(V x) { return tp_abs(x); }
};
struct TpBitAnd : TpPlain {
  template <class V> TP_INLINE V join(V a, V b) { return (V)(a & b); }
};
struct TpBitOr : TpPlain {
  template <class V> TP_INLINE V join(V a, V b) { return (V)(a | b); }
};
struct TpBitXor : TpPlain {
  template <class V> TP_INLINE V join(V a, V b) { return (V)(a ^ b); }
};

// The type in which elements are combined: floats in the wider type of source and target, float at
// least, rounded once at the end; whole numbers in the target's, so that their sums wrap there.
template <class D, class S> struct TpWorking {
  typedef decltype(tp_value(D{})) To;
  typedef decltype(tp_value(S{})) From;
  // Half is one half of floats only: it is true as a bool.
  enum { to = (To)0.5 == 0.5 ? sizeof(To) : 0, from = (From)0.5 == 0.5 ? sizeof(From) : 0 };
  template <bool, class A, class> struct Choose { typedef A type; };
  template <class A, class B> struct Choose<false, A, B> { typedef B type; };
  typedef typename Choose<(from > to), From, To>::type type;
};
template <class D, class S> using TpSumType = typename TpWorking<D, S>::type;

// The largest (smallest) float of a row; without `join`'s look at NaN it takes half the time.  No
// element wins against the start where all are NaN or infinite, and the caller looks again.
template <class Kind, class V, class S>
TP_INLINE V tp_extreme_row(const S *from, int64_t size, V start) {
  enum { lanes = 4 * TP_VECTOR_BYTES / sizeof(V) };
  V part[lanes] __attribute__((aligned(TP_VECTOR_BYTES)));
  for (int l = 0; l < lanes; l++) part[l] = start;
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (int l = 0; l < lanes; l++) {
      const V x = Kind::element((V)tp_value(from[i + l]));
      part[l] = (Kind::order > 0 ? x > part[l] : x < part[l]) ? x : part[l];
    }
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) part[l] = Kind::join(part[l], part[l + half]);
  for (; i < size; i++) part[0] = Kind::join(part[0], Kind::element((V)tp_value(from[i])));
  return part[0];
}

// One row: independent partial results in vector registers, joined pairwise at the end.
template <class Kind, class V, class S>
TP_INLINE V tp_reduce_row(const S *from, int64_t stride, int64_t size) {
  enum { lanes = 4 * TP_VECTOR_BYTES / sizeof(V) };
  if constexpr (Kind::order != 0 && (V)0.5 == 0.5) {
    if (stride == 1 && size >= lanes) {
      const V start = -Kind::order * (V)__builtin_inf();
      const V extreme = tp_extreme_row<Kind>(from, size, start);
      if (extreme != start) return extreme;
    }
  }
  int64_t i = 1;
  V result = Kind::element((V)tp_value(from[0]));
  if (stride == 1 && size >= lanes) {
    V part[lanes] __attribute__((aligned(TP_VECTOR_BYTES)));
    for (int l = 0; l < lanes; l++) part[l] = Kind::element((V)tp_value(from[l]));
    for (i = lanes; i + lanes <= size; i += lanes)
      for (int l = 0; l < lanes; l++)
        part[l] = Kind::join(part[l], Kind::element((V)tp_value(from[i + l])));
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; l++) part[l] = Kind::join(part[l], part[l + half]);
    result = part[0];
  }
  for (; i < size; i++)
    result = Kind::join(result, Kind::element((V)tp_value(from[i * stride])));
  return result;
}

// to[r] = all of row r; without `clear`, joined with what was there.
template <class Kind, class D, class S>
TP_INLINE void tp_reduce_rows(D *to, int64_t to_stride, const S *from, int64_t row_stride,
                              int64_t stride, int64_t rows, int64_t size, bool clear) {
  typedef TpSumType<D, S> V;
  for (int64_t r = 0; r < rows; r++) {
    const V result = tp_reduce_row<Kind, V>(from + r * row_stride, stride, size);
    D *at = to + r * to_stride;
    *at = tp_store<D>(clear ? result : Kind::join((V)tp_value(*at), result));
  }
}

// Columns are worked on in groups that fit registers.
template <class V> struct TpGroup { enum { size = 4 * TP_VECTOR_BYTES / sizeof(V) }; };

// part[l] = element l of a row, joined with what is there unless it is the first row.
template <class Kind, class V, class S>
TP_INLINE void tp_join_row(V *part, const S *from, int64_t stride, int64_t width, bool first) {
  enum { group = TpGroup<V>::size };
  if (width == group && stride == 1) {
    for (int l = 0; l < group; l++) {
      const V x = Kind::element((V)tp_value(from[l]));
      part[l] = first ? x : Kind::join(part[l], x);
    }
  } else {
    for (int64_t l = 0; l < width; l++) {
      const V x = Kind::element((V)tp_value(from[l * stride]));
      part[l] = first ? x : Kind::join(part[l], x);
    }
  }
}

// to[c] = all of column c.
template <class Kind, class D, class S>
TP_INLINE void tp_reduce_columns(D *to, int64_t to_stride, const S *from, int64_t row_stride,
                                 int64_t stride, int64_t rows, int64_t columns, bool clear) {
  typedef TpSumType<D, S> V;
  enum { group = TpGroup<V>::size };
  for (int64_t c = 0; c < columns; c += group) {
    const int64_t width = columns - c < group ? columns - c : (int64_t)group;
    V part[group] __attribute__((aligned(TP_VECTOR_BYTES)));
    tp_join_row<Kind>(part, from + c * stride, stride, width, true);
    for (int64_t r = 1; r < rows; r++)
      tp_join_row<Kind>(part, from + r * row_stride + c * stride, stride, width, false);
    for (int64_t l = 0; l < width; l++) {
      D *at = to + (c + l) * to_stride;
      *at = tp_store<D>(clear ? part[l] : Kind::join((V)tp_value(*at), part[l]));
    }
  }
}

// Inclusive scan of one line of elements.
template <class Kind, class D, class S>
TP_INLINE void tp_scan_line(D *to, int64_t to_stride, const S *from, int64_t stride, int64_t size,
                            bool reverse) {
  typedef TpSumType<D, S> V;
  V sum = 0;
  for (int64_t n = 0; n < size; n++) {
    const int64_t i = reverse ? size - 1 - n : n;
    const V x = (V)tp_value(from[i * stride]);
    sum = n == 0 ? x : Kind::join(sum, x);
    to[i * to_stride] = tp_store<D>(sum);
  }
}
// The scan of every column.
template <class Kind, class D, class S>
TP_INLINE void tp_scan_columns(D *to, int64_t to_row, int64_t to_stride, const S *from,
                               int64_t row_stride, int64_t stride, int64_t rows, int64_t columns,
                               bool reverse) {
  typedef TpSumType<D, S> V;
  enum { group = TpGroup<V>::size };
  for (int64_t c = 0; c < columns; c += group) {
    const int64_t width = columns - c < group ? columns - c : (int64_t)group;
    V part[group] __attribute__((aligned(TP_VECTOR_BYTES)));
    for (int64_t n = 0; n < rows; n++) {
      const int64_t r = reverse ? rows - 1 - n : n;
      tp_join_row<Kind>(part, from + r * row_stride + c * stride, stride, width, n == 0);
      for (int64_t l = 0; l < width; l++)
        to[r * to_row + (c + l) * to_stride] = tp_store<D>(part[l]);
    }
  }
}
