// Element types of 16 and 8 bits: how they lie in memory and how they are computed with.
// In registers they are floats that hold only values of the narrow type; every result is rounded
// to nearest even, and what overflows becomes infinity (e4m3: NaN), never the largest number.
#pragma once
#include "base.cuh"

struct TpHalf { uint16_t bits; };
struct TpBfloat { uint16_t bits; };
struct TpE4m3 { uint8_t bits; };
struct TpE5m2 { uint8_t bits; };

TP_INLINE uint32_t tp_bits(float x) { return __float_as_uint(x); }
TP_INLINE float tp_float(uint32_t bits) { return __uint_as_float(bits); }

// A value rounded so that rounding it again to 21 bits or fewer is as if it had been rounded once:
// toward zero, and where that loses bits the last bit is made odd.
TP_INLINE float tp_odd(float cut, bool lost) { return tp_float(tp_bits(cut) | lost); }
TP_INLINE float tp_round_odd(double x) {
  const float cut = __double2float_rz(x);
  return tp_odd(cut, (double)cut != x);
}
TP_INLINE float tp_round_odd(int32_t x) {
  return tp_odd(__int2float_rz(x), __int2float_rd(x) != __int2float_ru(x));
}
TP_INLINE float tp_round_odd(uint32_t x) {
  return tp_odd(__uint2float_rz(x), __uint2float_rd(x) != __uint2float_ru(x));
}
TP_INLINE float tp_round_odd(int64_t x) {
  return tp_odd(__ll2float_rz(x), __ll2float_rd(x) != __ll2float_ru(x));
}
TP_INLINE float tp_round_odd(uint64_t x) {
  return tp_odd(__ull2float_rz(x), __ull2float_rd(x) != __ull2float_ru(x));
}
// a b + c of narrow floats, rounded to odd.
TP_INLINE float tp_fma_odd(float a, float b, float c) {
  return tp_odd(__fmaf_rz(a, b, c), __fmaf_rd(a, b, c) != __fmaf_ru(a, b, c));
}

// Two floats as two narrow elements in one word, `low` at the lower address.
template <class T> TP_INLINE uint32_t tp_pack2(float low, float high);
// The reverse.
template <class T> TP_INLINE void tp_unpack2(uint32_t word, float &low, float &high);

TP_SPECIAL uint32_t tp_pack2<TpHalf>(float low, float high) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
TP_SPECIAL uint32_t tp_pack2<TpBfloat>(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
TP_SPECIAL void tp_unpack2<TpHalf>(uint32_t word, float &low, float &high) {
  asm("{ .reg .f16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high) : "r"(word));
}
TP_SPECIAL void tp_unpack2<TpBfloat>(uint32_t word, float &low, float &high) {
  low = tp_float(word << 16);
  high = tp_float(word & 0xffff0000u);
}

#if __CUDA_ARCH__ >= 890
// The hardware turns what overflows into the largest number, 464 (a tie) included in e4m3.
TP_SPECIAL uint32_t tp_pack2<TpE4m3>(float low, float high) {
  uint16_t both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return both | (fabsf(low) > 464.0f ? 0x7fu : 0) | (fabsf(high) > 464.0f ? 0x7f00u : 0);
}
TP_SPECIAL uint32_t tp_pack2<TpE5m2>(float low, float high) {
  uint16_t both;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return both + (fabsf(low) >= 61440.0f ? 1u : 0) + (fabsf(high) >= 61440.0f ? 0x100u : 0);
}
TP_SPECIAL void tp_unpack2<TpE4m3>(uint32_t word, float &low, float &high) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)word));
  tp_unpack2<TpHalf>(halves, low, high);
}
#else
// Round to nearest even; what overflows becomes infinity, or NaN where there is none.
template <int MANTISSA, int EXPONENT, bool INFINITE> TP_INLINE uint32_t tp_narrow(float x) {
  const int bias = (1 << (EXPONENT - 1)) - 1, shift = 23 - MANTISSA;
  const uint32_t all = (1u << (MANTISSA + EXPONENT)) - 1;
  const uint32_t infinity = ((1u << EXPONENT) - 1) << MANTISSA;
  const uint32_t nan = INFINITE ? infinity | 1u << (MANTISSA - 1) : all;
  const uint32_t limit = INFINITE ? infinity : all;
  const uint32_t bits = tp_bits(x), magnitude = bits & 0x7fffffffu;
  // Below the smallest normal number the addition itself rounds at the last denormal bit.
  const uint32_t magic = (uint32_t)(127 - bias + shift + 1) << 23;
  const uint32_t denormal = tp_bits(tp_float(magnitude) + tp_float(magic)) - magic;
  const uint32_t lower = magnitude - ((uint32_t)(127 - bias) << 23);
  const uint32_t normal = (lower + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
  uint32_t result = magnitude < (uint32_t)(128 - bias) << 23 ? denormal : normal;
  result = result > limit ? limit : result;
  return (magnitude > 0x7f800000u ? nan : result) | bits >> 31 << (MANTISSA + EXPONENT);
}
TP_SPECIAL uint32_t tp_pack2<TpE4m3>(float low, float high) {
  return tp_narrow<3, 4, false>(low) | tp_narrow<3, 4, false>(high) << 8;
}
TP_SPECIAL uint32_t tp_pack2<TpE5m2>(float low, float high) {
  return tp_narrow<2, 5, true>(low) | tp_narrow<2, 5, true>(high) << 8;
}
// Multiplying by a power of two moves the exponent and makes denormals come out right.
TP_INLINE float tp_widen_e4m3(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7f;
  const float scaled = tp_float(magnitude << 20) * 0x1p120f;
  return tp_float((magnitude == 0x7f ? 0x7fc00000u : tp_bits(scaled)) | (bits & 0x80) << 24);
}
TP_SPECIAL void tp_unpack2<TpE4m3>(uint32_t word, float &low, float &high) {
  low = tp_widen_e4m3(word);
  high = tp_widen_e4m3(word >> 8);
}
#endif
// e5m2 is the upper byte of a half.
TP_SPECIAL void tp_unpack2<TpE5m2>(uint32_t word, float &low, float &high) {
  tp_unpack2<TpHalf>((word & 0xff00) << 16 | (word & 0xff) << 8, low, high);
}

// Four elements of 8 bits in one word.
template <class T> TP_INLINE uint32_t tp_pack4(float a, float b, float c, float d) {
  return tp_pack2<T>(a, b) | tp_pack2<T>(c, d) << 16;
}
// The same of values that no conversion to this type makes infinite, or NaN where it has none.
template <class T> TP_INLINE uint32_t tp_pack4_within(float a, float b, float c, float d) {
  return tp_pack4<T>(a, b, c, d);
}
#if __CUDA_ARCH__ >= 890
// Two such elements.
template <class T> TP_INLINE uint32_t tp_pack2_within(float low, float high);
#define TP_WITHIN(TYPE, NAME)                                                                \
  TP_SPECIAL uint32_t tp_pack2_within<TYPE>(float low, float high) {                         \
    uint16_t both;                                                                           \
    asm("cvt.rn.satfinite." NAME ".f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));     \
    return both;                                                                             \
  }                                                                                          \
  TP_SPECIAL uint32_t tp_pack4_within<TYPE>(float a, float b, float c, float d) {            \
    uint32_t word;                                                                           \
    asm("{ .reg .b16 l, h;\n cvt.rn.satfinite." NAME ".f32 l, %2, %1;\n"                     \
        " cvt.rn.satfinite." NAME ".f32 h, %4, %3;\n mov.b32 %0, {l, h}; }"                  \
        : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d));                                      \
    return word;                                                                             \
  }
TP_WITHIN(TpE4m3, "e4m3x2")
TP_WITHIN(TpE5m2, "e5m2x2")
#undef TP_WITHIN
#endif
template <class T>
TP_INLINE void tp_unpack4(uint32_t word, float &a, float &b, float &c, float &d) {
  tp_unpack2<T>(word, a, b);
  tp_unpack2<T>(word >> 16, c, d);
}

template <class T> TP_INLINE float tp_widen(T x) {
  float low, high;
  tp_unpack2<T>(x.bits, low, high);
  return low;
}
TP_INLINE float tp_value(TpHalf x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
TP_INLINE float tp_value(TpBfloat x) { return tp_float((uint32_t)x.bits << 16); }
TP_INLINE float tp_value(TpE4m3 x) { return tp_widen(x); }
TP_INLINE float tp_value(TpE5m2 x) { return tp_widen(x); }
template <class T> TP_INLINE T tp_value(T x) { return x; }

// The type of a value in a register.
template <class T> using TpValue = decltype(tp_value(T{}));
template <class T> struct TpIsNarrow { enum { yes = 0 }; };
template <> struct TpIsNarrow<TpHalf> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpBfloat> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpE4m3> { enum { yes = 1 }; };
template <> struct TpIsNarrow<TpE5m2> { enum { yes = 1 }; };
template <class T> struct TpIsHalf { enum { yes = 0 }; };
template <> struct TpIsHalf<TpHalf> { enum { yes = 1 }; };

TP_INLINE float tp_narrowing(float x) { return x; }
template <class V> TP_INLINE float tp_narrowing(V x) {
  if constexpr (sizeof(V) < 4) return (float)x;
  else return tp_round_odd(x);
}
// One half: no other has to be cut off of the word that it is in.
TP_INLINE TpHalf tp_half(float x) {
  TpHalf made;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(made.bits) : "f"(x));
  return made;
}
// A stored element from a value of any type.
template <class T, class V> TP_INLINE T tp_store(V x) {
  if constexpr (TpIsHalf<T>::yes)
    return tp_half(tp_narrowing(x));
  else if constexpr (TpIsNarrow<T>::yes)
    return T{(decltype(T::bits))tp_pack2<T>(tp_narrowing(x), 0.0f)};
  else if constexpr ((T)2 == (T)1)
    return x != 0;
  else
    return (T)x;
}
// A value rounded to the element type, still in a register.
template <class T, class V> TP_INLINE TpValue<T> tp_round(V x) { return tp_value(tp_store<T>(x)); }

// Sums and products of two halves, rounded once as a float's would be when it is narrowed: a float
// has room for the product, and enough bits that rounding a sum twice changes nothing.
#define TP_HALVES(NAME, TEXT)                                                           \
  TP_INLINE TpHalf NAME(TpHalf a, TpHalf b) {                                           \
    TpHalf made;                                                                        \
    asm(TEXT " %0, %1, %2;" : "=h"(made.bits) : "h"(a.bits), "h"(b.bits));              \
    return made;                                                                        \
  }
TP_HALVES(tp_half_add, "add.rn.f16")
TP_HALVES(tp_half_sub, "sub.rn.f16")
TP_HALVES(tp_half_mul, "mul.rn.f16")
#undef TP_HALVES
