// Element types of 16 and 8 bits: how they lie in memory and how they are computed with.
// In registers they are floats that hold only values of the narrow type; every result is rounded.
#pragma once
#include "base.h"

struct TpHalf { uint16_t bits; };
struct TpBfloat { uint16_t bits; };
struct TpE4m3 { uint8_t bits; };
struct TpE5m2 { uint8_t bits; };

TP_INLINE uint32_t tp_bits(float x) { return tp_bit_cast<uint32_t>(x); }
TP_INLINE float tp_float(uint32_t bits) { return tp_bit_cast<float>(bits); }

// A type with MANTISSA bits after the point and EXPONENT bits, signs apart, as float.
// Multiplying by a power of two moves the exponent and makes denormals come out right.
template <int MANTISSA, int EXPONENT, bool INFINITE> TP_INLINE float tp_widen(uint32_t bits) {
  const int bias = (1 << (EXPONENT - 1)) - 1;
  const uint32_t magnitude = bits & ((1u << (MANTISSA + EXPONENT)) - 1);
  const uint32_t sign = bits >> (MANTISSA + EXPONENT) << 31;
  const float scaled =
      tp_float(magnitude << (23 - MANTISSA)) * tp_float((uint32_t)(254 - bias) << 23);
  const uint32_t first_special = INFINITE ? ((1u << EXPONENT) - 1) << MANTISSA
                                          : (1u << (MANTISSA + EXPONENT)) - 1;
  const uint32_t special = INFINITE ? 0x7f800000u | magnitude << (23 - MANTISSA) : 0x7fc00000u;
  return tp_float((magnitude >= first_special ? special : tp_bits(scaled)) | sign);
}

// Round to nearest even; what overflows becomes infinity, or NaN where there is none.
template <int MANTISSA, int EXPONENT, bool INFINITE> TP_INLINE uint32_t tp_narrow(float x) {
  const int bias = (1 << (EXPONENT - 1)) - 1, shift = 23 - MANTISSA;
  const uint32_t all = (1u << (MANTISSA + EXPONENT)) - 1;
  const uint32_t infinity = ((1u << EXPONENT) - 1) << MANTISSA;
  const uint32_t nan = INFINITE ? infinity | 1u << (MANTISSA - 1) : all;
  const uint32_t bits = tp_bits(x), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 31 << (MANTISSA + EXPONENT);
  // Below the smallest normal number the addition itself rounds at the last denormal bit.
  const uint32_t magic = (uint32_t)(127 - bias + shift + 1) << 23;
  const uint32_t denormal = tp_bits(tp_float(magnitude) + tp_float(magic)) - magic;
  const uint32_t odd = magnitude >> shift & 1;
  const uint32_t normal =
      (magnitude + ((uint32_t)(bias - 127) << 23) + (1u << (shift - 1)) - 1 +
       odd) >> shift;
  uint32_t result = magnitude < (uint32_t)(128 - bias) << 23 ? denormal : normal;
  const uint32_t limit = INFINITE ? infinity : all;
  result = result >= limit ? (INFINITE ? infinity : nan) : result;
  // Far above the range the shifted exponent has wrapped round.
  result = magnitude >= (uint32_t)(128 + bias + 1) << 23 ? (INFINITE ? infinity : nan) : result;
  return (magnitude > 0x7f800000u ? nan : result) | sign;
}

TP_INLINE float tp_value(TpHalf x) { return tp_widen<10, 5, true>(x.bits); }
TP_INLINE float tp_value(TpBfloat x) { return tp_float((uint32_t)x.bits << 16); }
TP_INLINE float tp_value(TpE4m3 x) { return tp_widen<3, 4, false>(x.bits); }
TP_INLINE float tp_value(TpE5m2 x) { return tp_widen<2, 5, true>(x.bits); }
template <class T> TP_INLINE T tp_value(T x) { return x; }

// A float from a double such that rounding it again is as if the double had been rounded once:
// where bits are lost the last bit is made odd.
TP_INLINE float tp_round_odd(double x) {
  const float near = (float)x;
  const uint32_t bits = tp_bits(near);
  const bool beyond = __builtin_fabs((double)near) > __builtin_fabs(x);
  const bool exact = (double)near == x || x != x;
  return exact ? near : tp_float((bits - beyond) | 1u);
}

// a b + c of narrow floats rounded to double in such a way that rounding it again rounds it once:
// the product is exact, and the bits that the sum loses make its last bit odd.
TP_INLINE double tp_fma_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c, back = sum - product;
  const double lost = (product - (sum - back)) + (c - back);
  const uint64_t bits = tp_bit_cast<uint64_t>(sum);
  const bool beyond = (lost < 0) == (sum > 0);
  const double odd = __builtin_bit_cast(double, (bits - beyond) | 1u);
  return lost == 0 || lost != lost ? sum : odd;
}

// How a value of type T is stored.
template <class T> struct TpStore {
  template <class V> TP_INLINE T from(V x) { return (T)x; }
};
template <> struct TpStore<bool> {
  template <class V> TP_INLINE bool from(V x) { return x != 0; }
};
template <> struct TpStore<TpBfloat> {
  TP_INLINE TpBfloat from(float x) {
    const uint32_t bits = tp_bits(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return TpBfloat{(uint16_t)(x != x ? (bits >> 16 | 0x40u) : rounded)};
  }
  TP_INLINE TpBfloat from(double x) { return from(tp_round_odd(x)); }
  template <class V> TP_INLINE TpBfloat from(V x) { return from((double)x); }
};
#define TP_NARROW(TYPE, MANTISSA, EXPONENT, INFINITE, BITS)                                \
  template <> struct TpStore<TYPE> {                                                       \
    TP_INLINE TYPE from(float x) {                                                  \
      return TYPE{(BITS)tp_narrow<MANTISSA, EXPONENT, INFINITE>(x)};                       \
    }                                                                                      \
    TP_INLINE TYPE from(double x) { return from(tp_round_odd(x)); }                 \
    template <class V> TP_INLINE TYPE from(V x) { return from((double)x); }         \
  };
TP_NARROW(TpHalf, 10, 5, true, uint16_t)
TP_NARROW(TpE4m3, 3, 4, false, uint8_t)
TP_NARROW(TpE5m2, 2, 5, true, uint8_t)
#undef TP_NARROW

// A stored element from a value of any type.
template <class T, class V> TP_INLINE T tp_store(V x) { return TpStore<T>::from(x); }
// A value rounded to the element type, still in a register.
template <class T, class V> TP_INLINE auto tp_round(V x) { return tp_value(tp_store<T>(x)); }
