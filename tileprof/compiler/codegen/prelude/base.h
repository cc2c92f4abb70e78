// Macros, failures and whole-number arithmetic that every emitted kernel may use.
#pragma once
#include "abi.h"

#define TP_INLINE static inline __attribute__((always_inline))
#define TP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TP_STRING(x) #x
#define TP_BUILTIN(name) __builtin_##name
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
// Of two zeros, the one with a minus is the lesser, as on GPUs.  Reductions call the templates:
// their order is open, and they would take longer.
#define TP_ORDERED(T)                                                                          \
  TP_INLINE T tp_min(T a, T b) {                                                               \
    const T held = tp_min<T>(a, b);                                                            \
    return (a == 0) & (b == 0) ? -(-a + -b) : held;                                            \
  }                                                                                            \
  TP_INLINE T tp_max(T a, T b) {                                                               \
    const T held = tp_max<T>(a, b);                                                            \
    return (a == 0) & (b == 0) ? a + b : held;                                                 \
  }
TP_ORDERED(float)
TP_ORDERED(double)
#undef TP_ORDERED
#include "arithmetic.h"

// The bits of an argument, in the low bytes of its word.
template <class T> TP_INLINE T tp_argument(uint64_t word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
