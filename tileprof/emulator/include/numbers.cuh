// Narrow element types; two or four to a 32-bit word.
#pragma once
#include "base.cuh"

#include "numbers.h"

template <class T> struct TpIsNarrow { enum { yes = 0 }; };
template <> struct TpIsNarrow<TpHalf> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpBfloat> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpE4m3> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpE5m2> { enum { yes = 1 }; };
template <class T> using TpValue = decltype(tp_value(T{}));

template <class T> TP_INLINE uint32_t tp_pack2(float low, float high) {
  return (uint32_t)tp_store<T>(low).bits | (uint32_t)tp_store<T>(high).bits << 8 * sizeof(T);
}
template <class T> TP_INLINE void tp_unpack2(uint32_t word, float &low, float &high) {
  low = tp_value(T{(decltype(T::bits))word});
  high = tp_value(T{(decltype(T::bits))(word >> 8 * sizeof(T))});
}
TP_INLINE float tp_narrowing(float x) { return x; }
TP_INLINE float tp_narrowing(double x) { return tp_round_odd(x); }
template <class V> TP_INLINE float tp_narrowing(V x) { return tp_round_odd((double)x); }
template <class T> TP_INLINE uint32_t tp_pack4(float a, float b, float c, float d) {
  return tp_pack2<T>(a, b) | tp_pack2<T>(c, d) << 16;
}
template <class T>
TP_INLINE void tp_unpack4(uint32_t word, float &a, float &b, float &c, float &d) {
  tp_unpack2<T>(word, a, b);
  tp_unpack2<T>(word >> 16, c, d);
}
TP_INLINE TpHalf tp_half(float x) { return tp_store<TpHalf>(x); }
TP_INLINE TpHalf tp_half_add(TpHalf a, TpHalf b) {
  return tp_store<TpHalf>(tp_value(a) + tp_value(b));
}
TP_INLINE TpHalf tp_half_sub(TpHalf a, TpHalf b) {
  return tp_store<TpHalf>(tp_value(a) - tp_value(b));
}
TP_INLINE TpHalf tp_half_mul(TpHalf a, TpHalf b) {
  return tp_store<TpHalf>(tp_value(a) * tp_value(b));
}
