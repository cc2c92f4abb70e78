// Macros, failures and whole-number arithmetic that every emitted kernel may use.
#pragma once
#include "abi.h"

#define TP_INLINE static inline __attribute__((always_inline))
#define TP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TP_STRING(x) #x
#if defined(__has_builtin)
#if __has_builtin(__builtin_bit_cast)
#define TP_HAS_BIT_CAST 1
#endif
#endif
// No point of the loop depends on another one.
#if defined(__clang__)
#define TP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define TP_UNROLL(n) _Pragma(TP_STRING(clang loop unroll_count(n)))
#else
#define TP_INDEPENDENT _Pragma("GCC ivdep")
#define TP_UNROLL(n) _Pragma(TP_STRING(GCC unroll n))
#endif

#if defined(__AVX512F__)
#define TP_VECTOR_BYTES 64
#define TP_VECTOR_REGISTERS 32
#elif defined(__AVX__)
#define TP_VECTOR_BYTES 32
#define TP_VECTOR_REGISTERS 16
#elif defined(__aarch64__)
#define TP_VECTOR_BYTES 16
#define TP_VECTOR_REGISTERS 32
#else
#define TP_VECTOR_BYTES 16
#define TP_VECTOR_REGISTERS 16
#endif

// The same bits as another type of the same size.
template <class To, class From> TP_INLINE To tp_bit_cast(From x) {
#if TP_HAS_BIT_CAST
  return __builtin_bit_cast(To, x);
#else
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To made;
  __builtin_memcpy(&made, &x, sizeof(To));
  return made;
#endif
}

// Stop the launch at a place of the kernel; of several failures the lowest block's is kept.
static __attribute__((noinline, cold)) int tp_fail(TpRun *run, int64_t block, int32_t place,
                                                   const int64_t *index, int rank) {
  // A lock of the run's own: one that all runs share could be held by a thread that a forked child
  // does not have.
  while (__atomic_exchange_n(&run->failing, 1, __ATOMIC_ACQUIRE)) {
  }
  TpFailure *failure = &run->failure;
  bool first = failure->place < 0 || block < failure->block;
  if (first) {
    for (int d = 0; d < rank && d < TP_MAX_INDICES; d++) failure->index[d] = index[d];
    failure->launch = (int32_t)run->launches;
    __atomic_store_n(&failure->block, block, __ATOMIC_RELAXED);
    __atomic_store_n(&failure->place, place, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&run->failing, 0, __ATOMIC_RELEASE);
  return 1;
}

template <class... Index>
static __attribute__((noinline, cold)) int tp_fail(const TpWorker *worker, int32_t place,
                                                   Index... index) {
  const int64_t held[sizeof...(index) + 1] = {(int64_t)index..., 0};
  return tp_fail(worker->run, worker->block, place, held, sizeof...(index));
}

// 0 <= index < size.
TP_INLINE bool tp_within(int64_t index, int64_t size) { return (uint64_t)index < (uint64_t)size; }

// How many of `size` elements are there when `left` are.
TP_INLINE int64_t tp_clip(int64_t left, int64_t size) {
  return left < 0 ? 0 : left < size ? left : size;
}

// Whole-number division; by 0 it gives 0, as NumPy does, and not a signal.
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
  const uint64_t mask = sizeof(T) == 8 ? ~0ull : (1ull << (sizeof(T) * 8 & 63)) - 1;
  return (T)__builtin_popcountll((uint64_t)a & mask);
}
template <class T> TP_INLINE T tp_clz(T a) {
  const uint64_t mask = sizeof(T) == 8 ? ~0ull : (1ull << (sizeof(T) * 8 & 63)) - 1;
  const uint64_t bits = (uint64_t)a & mask;
  return (T)(bits ? __builtin_clzll(bits) - (64 - (int)sizeof(T) * 8) : (int)sizeof(T) * 8);
}

// The other operand for a NaN.
template <class T> TP_INLINE T tp_min(T a, T b) { return b != b ? a : a < b ? a : b; }
template <class T> TP_INLINE T tp_max(T a, T b) { return b != b ? a : a > b ? a : b; }
template <class T> TP_INLINE T tp_abs(T a) { return a < 0 ? (T)(0 - a) : a; }
TP_INLINE float tp_abs(float a) { return __builtin_fabsf(a); }
TP_INLINE double tp_abs(double a) { return __builtin_fabs(a); }

// Floats divide as Python does: the remainder has the sign of the divisor.
TP_INLINE float tp_truncmod(float a, float b) { return __builtin_fmodf(a, b); }
TP_INLINE double tp_truncmod(double a, double b) { return __builtin_fmod(a, b); }
TP_INLINE float tp_truncdiv(float a, float b) { return __builtin_truncf(a / b); }
TP_INLINE double tp_truncdiv(double a, double b) { return __builtin_trunc(a / b); }
TP_INLINE float tp_whole(float x) { return __builtin_floorf(x); }
TP_INLINE double tp_whole(double x) { return __builtin_floor(x); }
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

// The bits of an argument, in the low bytes of its word.
template <class T> TP_INLINE T tp_argument(uint64_t word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
