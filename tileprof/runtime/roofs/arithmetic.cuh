// How fast one kind of arithmetic is: CHAINS results of a thread wait for nothing but themselves, so
// that a multiprocessor with all its warps always has one to work at.
#pragma once
#include "base.cuh"

struct Fma32 {
  typedef float Type;
  TP_INLINE float apply(float x, float a, float b) { return fmaf(x, a, b); }
};
struct Fma64 {
  typedef double Type;
  TP_INLINE double apply(double x, double a, double b) { return fma(x, a, b); }
};
struct Exp2 {
  typedef float Type;
  TP_INLINE float apply(float x, float, float) {
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};

template <class Operation> TP_INLINE void tp_arithmetic(uint32_t *sink, int64_t turns) {
  typedef typename Operation::Type T;
  // Known only here.
  const T a = (T)1 / (T)(turns + 1), b = (T)threadIdx.x;
  T x[CHAINS];
  TP_UNROLL_ALL
  for (int i = 0; i < CHAINS; i++) x[i] = b + (T)i;
  TP_NO_UNROLL
  for (int turn = 0; turn < (int)turns; turn++) {
    TP_UNROLL_ALL
    for (int link = 0; link < LINKS; link++) {
      TP_UNROLL_ALL
      for (int i = 0; i < CHAINS; i++) x[i] = Operation::apply(x[i], a, b);
    }
  }
  T sum = 0;
  TP_UNROLL_ALL
  for (int i = 0; i < CHAINS; i++) sum += x[i];
  if (sum == (T)-1) *sink = 1;
}

#define ROOF_ARITHMETIC(NAME, OPERATION)                                                          \
  extern "C" __global__ void __launch_bounds__(ARITHMETIC_THREADS)                                \
      roof_##NAME(uint32_t *sink, int64_t turns) {                                                \
    tp_arithmetic<OPERATION>(sink, turns);                                                        \
  }
ROOF_ARITHMETIC(fma_float32, Fma32)
ROOF_ARITHMETIC(fma_float64, Fma64)
ROOF_ARITHMETIC(exp2_float32, Exp2)
#undef ROOF_ARITHMETIC
