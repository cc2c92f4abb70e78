// Functions of floats.  In float32 the common ones are branch-free polynomials that compilers
// vectorise, within 4 ulp over the whole range, infinities, NaN and denormals included; the
// coefficients are minimax fits over the reduced range.  The others and float64 are libm's.
#pragma once
#include "base.h"

#if defined(__FMA__) || defined(__aarch64__)
TP_INLINE float tp_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
// Only for the polynomials below: the `fma` of a kernel always rounds once.
TP_INLINE float tp_fma(float a, float b, float c) { return a * b + c; }
#endif

TP_INLINE uint32_t tp_word(float x) { return tp_bit_cast<uint32_t>(x); }
TP_INLINE float tp_unword(uint32_t bits) { return tp_bit_cast<float>(bits); }

// p 2^n for -252 <= n <= 254: in two steps, so that denormal results are rounded once.
TP_INLINE float tp_scale(float p, int32_t n) {
  const int32_t half = n >> 1;
  return p * tp_unword((uint32_t)(half + 127) << 23) * tp_unword((uint32_t)(n - half + 127) << 23);
}
// Adding this rounds to a whole number, which then stands in the low bits.
#define TP_ROUNDER 12582912.0f
// Logarithms of 2 in two parts; times a small whole number the high part is exact.
#define TP_LN2_HIGH 0.693115234375f
#define TP_LN2_LOW 3.1946183e-05f
#define TP_LOG2_HIGH 0.301025390625f
#define TP_LOG2_LOW 4.605039e-06f
TP_INLINE int32_t tp_low(float shifted) { return (int32_t)(tp_word(shifted) - tp_word(TP_ROUNDER)); }
// Keeps NaN.
TP_INLINE float tp_clamp(float x, float low, float high) {
  const float y = x < low ? low : x;
  return y > high ? high : y;
}

TP_INLINE float tp_exp(float x) {
  x = tp_clamp(x, -105.0f, 90.0f);
  const float shifted = tp_fma(x, 1.44269504f, TP_ROUNDER), n = shifted - TP_ROUNDER;
  const float r = tp_fma(n, -TP_LN2_LOW, tp_fma(n, -TP_LN2_HIGH, x));
  float p = tp_fma(r, 0.001395063f, 0.00836897f);
  p = tp_fma(r, p, 0.041666202f);
  p = tp_fma(r, p, 0.16666518f);
  p = tp_fma(r, p, 0.5f);
  return tp_scale(1.0f + tp_fma(r * r, p, r), tp_low(shifted));
}
// 2^r for |r| <= 1/2.
TP_INLINE float tp_exp2_reduced(float r) {
  float p = tp_fma(r, 1.53151989e-5f, 1.54673652e-4f);
  p = tp_fma(r, p, 0.00133334298f);
  p = tp_fma(r, p, 0.00961803617f);
  p = tp_fma(r, p, 0.0555041096f);
  p = tp_fma(r, p, 0.240226511f);
  return tp_fma(r, tp_fma(r, p, 0.693147181f), 1.0f);
}
TP_INLINE float tp_exp2(float x) {
  x = tp_clamp(x, -151.0f, 129.0f);
  const float shifted = x + TP_ROUNDER;
  return tp_scale(tp_exp2_reduced(x - (shifted - TP_ROUNDER)), tp_low(shifted));
}
TP_INLINE float tp_exp10(float x) {
  x = tp_clamp(x, -46.0f, 39.0f);
  const float shifted = tp_fma(x, 3.32192809f, TP_ROUNDER), n = shifted - TP_ROUNDER;
  const float r = tp_fma(n, -TP_LOG2_LOW, tp_fma(n, -TP_LOG2_HIGH, x));
  return tp_scale(tp_exp2_reduced(r * 3.32192809f), tp_low(shifted));
}

// log(m) of x = m 2^e with m around 1; e is a whole number.
struct TpLog { float fraction, exponent; };
TP_INLINE TpLog tp_log_parts(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = tp_word(tiny ? x * 8388608.0f : x);
  // Taking away the bits of sqrt(1/2) moves the border of the exponent there.
  const int32_t shifted = (int32_t)(bits - 0x3f3504f3u) >> 23;
  const float f = tp_unword(bits - ((uint32_t)shifted << 23)) - 1.0f;
  float p = tp_fma(f, 0.06915147f, -0.11789696f);
  p = tp_fma(f, p, 0.118730165f);
  p = tp_fma(f, p, -0.1238437f);
  p = tp_fma(f, p, 0.14218655f);
  p = tp_fma(f, p, -0.1666925f);
  p = tp_fma(f, p, 0.20002227f);
  p = tp_fma(f, p, -0.24999987f);
  p = tp_fma(f, p, 0.3333331f);
  const float square = f * f;
  return TpLog{tp_fma(square, tp_fma(f, p, -0.5f), f), (float)(shifted - (tiny ? 23 : 0))};
}
// The borders of every logarithm.
TP_INLINE float tp_log_special(float x, float y) {
  y = x == 0 ? -__builtin_inff() : y;
  y = x < 0 ? __builtin_nanf("") : y;
  return x <= 3.40282347e38f ? y : x + x;
}
TP_INLINE float tp_log(float x) {
  const TpLog at = tp_log_parts(x);
  const float y = tp_fma(at.exponent, TP_LN2_LOW, at.fraction);
  return tp_log_special(x, tp_fma(at.exponent, TP_LN2_HIGH, y));
}
TP_INLINE float tp_log2(float x) {
  const TpLog at = tp_log_parts(x);
  const float y = tp_fma(at.fraction, 1.44269504f, at.fraction * 1.92596299e-8f);
  return tp_log_special(x, at.exponent + y);
}
TP_INLINE float tp_log10(float x) {
  const TpLog at = tp_log_parts(x);
  const float y = tp_fma(at.exponent, TP_LOG2_LOW, at.fraction * -1.010305e-8f);
  const float rest = tp_fma(at.fraction, 0.4342945f, y);
  return tp_log_special(x, tp_fma(at.exponent, TP_LOG2_HIGH, rest));
}
TP_INLINE float tp_log1p(float x) {
  const float sum = 1.0f + x;
  const float lost = x - (sum - 1.0f);
  const float y = tp_log(sum) + lost / sum;
  const bool far = x > 3.40282347e38f || sum <= 0;
  const float near = far ? tp_log_special(sum, y) : y;
  return sum == 1.0f ? x : near;
}

TP_INLINE float tp_sigmoid(float x) { return 1.0f / (1.0f + tp_exp(-x)); }
TP_INLINE float tp_tanh(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  float p = tp_fma(square, 0.002064665f, -0.0080919685f);
  p = tp_fma(square, p, 0.021666346f);
  p = tp_fma(square, p, -0.053940564f);
  p = tp_fma(square, p, 0.13333158f);
  p = tp_fma(square, p, -0.33333328f);
  const float near = tp_fma(size * square, p, size);
  const float far = 1.0f - 2.0f / (tp_exp(size + size) + 1.0f);
  return __builtin_copysignf(size < 0.625f ? near : far, x);
}
TP_INLINE float tp_erf(float x) {
  const float size = __builtin_fabsf(x), t = size > 4.0f ? 4.0f : size, square = x * x;
  float p = tp_fma(square, 8.345227e-5f, -0.0008137438f);
  p = tp_fma(square, p, 0.0052006342f);
  p = tp_fma(square, p, -0.02685927f);
  p = tp_fma(square, p, 0.11283694f);
  p = tp_fma(square, p, -0.37612635f);
  p = tp_fma(square, p, 0.12837917f);
  const float near = tp_fma(size, p, size);
  float q = tp_fma(t, -1.1522288e-5f, 0.00032565268f);
  q = tp_fma(t, q, -0.003653764f);
  q = tp_fma(t, q, 0.023785347f);
  q = tp_fma(t, q, -0.106263146f);
  q = tp_fma(t, q, -0.6351359f);
  q = tp_fma(t, q, -0.1286522f);
  const float far = 1.0f - tp_exp(tp_fma(t, q, -t));
  return __builtin_copysignf(size < 0.925f ? near : far, x);
}

TP_INLINE float tp_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
TP_INLINE double tp_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
TP_INLINE double tp_sigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
TP_INLINE float tp_round_even(float x) { return __builtin_rintf(x); }
TP_INLINE double tp_round_even(double x) { return __builtin_rint(x); }

#define TP_LIBM_DOUBLE(name) \
  TP_INLINE double tp_##name(double x) { return __builtin_##name(x); }
TP_LIBM_DOUBLE(exp) TP_LIBM_DOUBLE(exp2) TP_LIBM_DOUBLE(log) TP_LIBM_DOUBLE(log2)
TP_LIBM_DOUBLE(log10) TP_LIBM_DOUBLE(log1p) TP_LIBM_DOUBLE(tanh) TP_LIBM_DOUBLE(erf)
TP_INLINE float tp_exp2_flush(float x) { return tp_exp2(x); }
TP_INLINE double tp_exp2_flush(double x) { return tp_exp2(x); }
TP_INLINE double tp_exp10(double x) { return __builtin_pow(10.0, x); }
#undef TP_LIBM_DOUBLE

#define TP_LIBM(name)                                                   \
  TP_INLINE float tp_##name(float x) { return __builtin_##name##f(x); } \
  TP_INLINE double tp_##name(double x) { return __builtin_##name(x); }
TP_LIBM(sqrt) TP_LIBM(sin) TP_LIBM(cos) TP_LIBM(tan) TP_LIBM(sinh) TP_LIBM(cosh) TP_LIBM(asin)
TP_LIBM(acos) TP_LIBM(atan) TP_LIBM(floor) TP_LIBM(ceil) TP_LIBM(trunc)
#undef TP_LIBM
#define TP_LIBM2(name)                                                              \
  TP_INLINE float tp_##name(float x, float y) { return __builtin_##name##f(x, y); } \
  TP_INLINE double tp_##name(double x, double y) { return __builtin_##name(x, y); }
TP_LIBM2(pow) TP_LIBM2(atan2) TP_LIBM2(copysign) TP_LIBM2(fmod)
#undef TP_LIBM2

template <class T> TP_INLINE bool tp_isnan(T x) { return x != x; }
template <class T> TP_INLINE bool tp_isfinite(T x) { return x - x == 0; }
template <class T> TP_INLINE bool tp_isinf(T x) { return x == x && x - x != 0; }
