// Functions of floats: CUDA's own, none of them the fast variants.  Largest errors in float32, in
// ulp, as the CUDA C++ programming guide states them: exp 1, exp2 2, exp10 2, log 1, log2 1,
// log10 2, log1p 1, sqrt 0, rsqrt 2, sin 2, cos 2, tan 4, sinh 3, cosh 2, tanh 2, asin 2, acos 2,
// atan 2, atan2 3, pow 4, erf 2; sigmoid 4.
#pragma once
#include "base.cuh"

#define TP_LIBM(name)                                       \
  TP_INLINE float tp_##name(float x) { return name##f(x); } \
  TP_INLINE double tp_##name(double x) { return name(x); }
TP_LIBM(exp) TP_LIBM(exp2) TP_LIBM(exp10) TP_LIBM(log) TP_LIBM(log2) TP_LIBM(log10) TP_LIBM(log1p)
TP_LIBM(sqrt) TP_LIBM(rsqrt) TP_LIBM(sin) TP_LIBM(cos) TP_LIBM(tan) TP_LIBM(sinh) TP_LIBM(cosh)
TP_LIBM(tanh) TP_LIBM(asin) TP_LIBM(acos) TP_LIBM(atan) TP_LIBM(erf)
TP_LIBM(floor) TP_LIBM(ceil) TP_LIBM(trunc)
#undef TP_LIBM
#define TP_LIBM2(name)                                                  \
  TP_INLINE float tp_##name(float x, float y) { return name##f(x, y); } \
  TP_INLINE double tp_##name(double x, double y) { return name(x, y); }
TP_LIBM2(pow) TP_LIBM2(atan2) TP_LIBM2(copysign) TP_LIBM2(fmod)
#undef TP_LIBM2

TP_INLINE float tp_round_even(float x) { return rintf(x); }
TP_INLINE double tp_round_even(double x) { return rint(x); }
TP_INLINE float tp_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
TP_INLINE double tp_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// One instruction each, 2 ulp; what would be denormal (below 2^-126) is 0.
TP_INLINE float tp_exp2_flush(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TP_INLINE double tp_exp2_flush(double x) { return exp2(x); }
TP_INLINE float tp_rsqrt_flush(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TP_INLINE float tp_reciprocal_flush(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T> TP_INLINE bool tp_isnan(T x) { return x != x; }
template <class T> TP_INLINE bool tp_isfinite(T x) { return x - x == 0; }
template <class T> TP_INLINE bool tp_isinf(T x) { return x == x && x - x != 0; }
