// Types, macros and whole-number arithmetic that every emitted kernel may use.
// Names and meanings are those of the cpu's prelude wherever both have them.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#ifndef INT64_MIN
#define INT64_MIN (-9223372036854775807ll - 1)
#endif

#define TP_INLINE static __device__ __forceinline__
// The start of an explicit specialisation, which may not be static.
#define TP_SPECIAL template <> __device__ __forceinline__
#define TP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TP_STRING(x) #x
#define TP_UNROLL(n) _Pragma(TP_STRING(unroll n))
#define TP_UNROLL_ALL _Pragma("unroll")
#define TP_NO_UNROLL _Pragma("unroll 1")
#define TP_INDEPENDENT
#define TP_ALL_LANES 0xffffffffu
// The block's dynamic shared memory; swizzles repeat after 1024 bytes.
#define TP_SHARED_MEMORY(name) extern __shared__ __align__(1024) unsigned char name[]

// What NVRTC lacks of the compiler's own functions that rendered expressions use.
#define __builtin_fmaf(a, b, c) fmaf(a, b, c)
#define __builtin_fma(a, b, c) fma(a, b, c)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(tag) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(tag) __longlong_as_double(0x7ff8000000000000ll)

// The same bits as another type of the same size.
template <class To, class From> TP_INLINE To tp_bit_cast(From x) {
  return __builtin_bit_cast(To, x);
}

// The unsigned integer of a size.
template <int BYTES> struct TpRaw;
template <> struct TpRaw<1> { typedef uint8_t type; };
template <> struct TpRaw<2> { typedef uint16_t type; };
template <> struct TpRaw<4> { typedef uint32_t type; };
template <> struct TpRaw<8> { typedef uint64_t type; };

// A value that all lanes of the warp have in common, said so: what depends on it may be computed
// once for the warp.
TP_INLINE int tp_uniform(int x) { return __shfl_sync(TP_ALL_LANES, x, 0); }
// Position of the block in its cluster.
TP_INLINE int tp_cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// A generic pointer as an address in the block's shared memory.
TP_INLINE uint32_t tp_shared_address(const void *at) {
  return (uint32_t)__cvta_generic_to_shared(at);
}

// 0 <= index < size.
TP_INLINE bool tp_within(int64_t index, int64_t size) { return (uint64_t)index < (uint64_t)size; }

// How many of `size` elements are there when `left` are.
TP_INLINE int64_t tp_clip(int64_t left, int64_t size) {
  return left < 0 ? 0 : left < size ? left : size;
}

// Whole-number division; by 0 it gives 0, as on the cpu.
template <class T> TP_INLINE T tp_truncdiv(T a, T b) {
  if (b == 0) return 0;
  return (T)-1 < 0 && b == (T)-1 ? (T)(0 - a) : (T)(a / b);
}
template <class T> TP_INLINE T tp_truncmod(T a, T b) {
  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
  return (T)(a % b);
}
template <class T> TP_INLINE T tp_floormod(T a, T b) {
  T r = tp_truncmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(r + b) : r;
}
template <class T> TP_INLINE T tp_floordiv(T a, T b) {
  T q = tp_truncdiv(a, b), r = tp_truncmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(q - 1) : q;
}

// Shifts by the width or more leave nothing but the sign.
template <class T> TP_INLINE T tp_shl(T a, T by) {
  const T bits = sizeof(T) * 8;
  return by < 0 || by >= bits ? (T)0 : (T)(a << by);
}
template <class T> TP_INLINE T tp_shr(T a, T by) {
  const T bits = sizeof(T) * 8;
  return by < 0 || by >= bits ? (T)(a < 0 ? -1 : 0) : (T)(a >> by);
}
template <class T> TP_INLINE T tp_popcount(T a) {
  typedef typename TpRaw<sizeof(T)>::type Raw;
  return (T)(sizeof(T) == 8 ? __popcll((uint64_t)a) : __popc((Raw)a));
}
template <class T> TP_INLINE T tp_clz(T a) {
  typedef typename TpRaw<sizeof(T)>::type Raw;
  return (T)(sizeof(T) == 8 ? __clzll((int64_t)a) : __clz((Raw)a) - 32 + (int)sizeof(T) * 8);
}

// The other operand for a NaN.
template <class T> TP_INLINE T tp_min(T a, T b) { return a < b ? a : b; }
template <class T> TP_INLINE T tp_max(T a, T b) { return a > b ? a : b; }
TP_INLINE float tp_min(float a, float b) { return fminf(a, b); }
TP_INLINE float tp_max(float a, float b) { return fmaxf(a, b); }
TP_INLINE double tp_min(double a, double b) { return fmin(a, b); }
TP_INLINE double tp_max(double a, double b) { return fmax(a, b); }
template <class T> TP_INLINE T tp_abs(T a) { return a < 0 ? (T)(0 - a) : a; }
TP_INLINE float tp_abs(float a) { return fabsf(a); }
TP_INLINE double tp_abs(double a) { return fabs(a); }

// Floats divide as Python does: the remainder has the sign of the divisor.
TP_INLINE float tp_truncmod(float a, float b) { return fmodf(a, b); }
TP_INLINE double tp_truncmod(double a, double b) { return fmod(a, b); }
TP_INLINE float tp_truncdiv(float a, float b) { return truncf(a / b); }
TP_INLINE double tp_truncdiv(double a, double b) { return trunc(a / b); }
TP_INLINE float tp_whole(float x) { return floorf(x); }
TP_INLINE double tp_whole(double x) { return floor(x); }
template <class T> TP_INLINE T tp_floormod_of(T a, T b) {
  const T rest = tp_truncmod(a, b);
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
template <class T> TP_INLINE T tp_floordiv_of(T a, T b) {
  const T rest = tp_truncmod(a, b), quotient = (a - rest) / b;
  const T down = rest != 0 && ((rest < 0) != (b < 0)) ? quotient - 1 : quotient;
  const T whole = tp_whole(down);
  return b == 0 ? a / b : down - whole > (T)0.5 ? whole + 1 : whole;
}
TP_INLINE float tp_floordiv(float a, float b) { return tp_floordiv_of(a, b); }
TP_INLINE double tp_floordiv(double a, double b) { return tp_floordiv_of(a, b); }
TP_INLINE float tp_floormod(float a, float b) { return tp_floormod_of(a, b); }
TP_INLINE double tp_floormod(double a, double b) { return tp_floormod_of(a, b); }
