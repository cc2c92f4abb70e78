// Functions of floats: those of the `cpu` device.
#pragma once
#include "base.cuh"

#define tp_exp2_flush tp_exp2_whole  // that of the `cpu` device keeps denormals
#include "functions.h"
#undef tp_exp2_flush

TP_INLINE float tp_flushed(float y) { return __builtin_fabsf(y) < 0x1p-126f ? 0.0f : y; }
TP_INLINE float tp_exp2_flush(float x) { return tp_flushed(tp_exp2(x)); }
TP_INLINE double tp_exp2_flush(double x) { return tp_exp2(x); }
TP_INLINE float tp_rsqrt_flush(float x) { return tp_flushed(tp_rsqrt(x)); }
TP_INLINE float tp_reciprocal_flush(float x) { return tp_flushed(1.0f / x); }
