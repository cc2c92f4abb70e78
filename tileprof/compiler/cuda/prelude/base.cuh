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
#define TP_BUILTIN(name) name
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
#include "arithmetic.h"
