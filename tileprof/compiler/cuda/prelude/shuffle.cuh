// Values of other lanes of the warp, all of whose lanes are here.
#pragma once
#include "numbers.cuh"

// By the words that a value consists of: of 8 bytes two, of fewer than 4 a part of one.
struct TpTwoWords { uint32_t low, high; };
#define TP_SHUFFLE(NAME, INTRINSIC)                                                        \
  template <class T> TP_INLINE T tp_shuffle_##NAME(T value, int by) {                      \
    if constexpr (sizeof(T) == 8) {                                                        \
      const TpTwoWords own = tp_bit_cast<TpTwoWords>(value);                               \
      return tp_bit_cast<T>(TpTwoWords{INTRINSIC(TP_ALL_LANES, own.low, by),               \
                                       INTRINSIC(TP_ALL_LANES, own.high, by)});            \
    } else if constexpr (sizeof(T) == 4) {                                                 \
      return tp_bit_cast<T>(INTRINSIC(TP_ALL_LANES, tp_bit_cast<uint32_t>(value), by));    \
    } else {                                                                               \
      typedef typename TpRaw<sizeof(T)>::type Bits;                                     \
      return tp_bit_cast<T>(                                                               \
          (Bits)INTRINSIC(TP_ALL_LANES, (uint32_t)tp_bit_cast<Bits>(value), by));          \
    }                                                                                      \
  }
TP_SHUFFLE(xor, __shfl_xor_sync)    // of lane ^ by
TP_SHUFFLE(up, __shfl_up_sync)      // of lane - by, its own where there is none
TP_SHUFFLE(down, __shfl_down_sync)  // of lane + by
TP_SHUFFLE(index, __shfl_sync)      // of lane `by`
#undef TP_SHUFFLE

// Two narrow elements in one shuffle.
template <class T> TP_INLINE void tp_shuffle_xor_pair(T &a, T &b, int by) {
  static_assert(sizeof(T) == 2, "a pair fills one word");
  const uint32_t both = (uint32_t)a.bits | (uint32_t)b.bits << 16;
  const uint32_t other = tp_shuffle_xor(both, by);
  a.bits = (uint16_t)other;
  b.bits = (uint16_t)(other >> 16);
}

// Elements in registers as a word of 32 bits, lowest first, and back.
template <int N, class T> TP_INLINE uint32_t tp_join(const T *from) {
  typedef typename TpRaw<sizeof(T)>::type Bits;
  uint32_t word = 0;
#ifdef __CUDACC__
  // As a whole: the compiler does not find pairs of bytes that were made together.
  if constexpr (sizeof(T) == 1) {
    memcpy(&word, from, N);
    return word;
  }
#endif
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) word |= (uint32_t)tp_bit_cast<Bits>(from[i]) << 8 * sizeof(T) * i;
  return word;
}
template <int N, class T> TP_INLINE void tp_split(T *to, uint32_t word) {
  typedef typename TpRaw<sizeof(T)>::type Bits;
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 1) {
    memcpy(to, &word, N);
    return;
  }
#endif
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) to[i] = tp_bit_cast<T>((Bits)(word >> 8 * sizeof(T) * i));
}
// The lower halves of two words, then the upper ones; those of the second word first, or not.
template <class T> TP_INLINE void tp_split_pair(T *to, uint32_t a, uint32_t b, bool turned) {
#ifdef __CUDACC__
  const uint32_t low = __byte_perm(a, b, turned ? 0x1054 : 0x5410);
  const uint32_t high = __byte_perm(a, b, turned ? 0x3276 : 0x7632);
#else
  const uint32_t first = turned ? b : a, second = turned ? a : b;
  const uint32_t low = (first & 0xffff) | second << 16;
  const uint32_t high = first >> 16 | (second & 0xffff0000u);
#endif
  tp_split<4 / sizeof(T)>(to, low);
  tp_split<4 / sizeof(T)>(to + 4 / sizeof(T), high);
}
// Words whose numbers differ in the bit BY change places, or not.
template <int N, int BY> TP_INLINE void tp_swap(uint32_t *words, bool yes) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) {
    if (i / BY & 1) continue;
    const uint32_t low = words[i], high = words[i + BY];
    words[i] = yes ? high : low;
    words[i + BY] = yes ? low : high;
  }
}

TP_INLINE bool tp_any(bool x) { return __any_sync(TP_ALL_LANES, x); }
TP_INLINE bool tp_all(bool x) { return __all_sync(TP_ALL_LANES, x); }
TP_INLINE uint32_t tp_ballot(bool x) { return __ballot_sync(TP_ALL_LANES, x); }

// -- reductions: kinds as on the cpu, what is taken of an element and how two become one

struct TpWhole {
  template <class V> TP_INLINE V element(V x) { return x; }
};
struct TpMagnitude {
  template <class V> TP_INLINE V element(V x) { return tp_abs(x); }
};
#define TP_KIND(NAME, OF, EXPRESSION)                                           \
  struct NAME : OF {                                                            \
    template <class V> TP_INLINE V join(V a, V b) { return (V)(EXPRESSION); }   \
  };
TP_KIND(TpSum, TpWhole, a + b)
TP_KIND(TpAbsSum, TpMagnitude, a + b)
TP_KIND(TpMax, TpWhole, tp_max(a, b))
TP_KIND(TpMin, TpWhole, tp_min(a, b))
TP_KIND(TpAbsMax, TpMagnitude, tp_max(a, b))
TP_KIND(TpBitAnd, TpWhole, a & b)
TP_KIND(TpBitOr, TpWhole, a | b)
TP_KIND(TpBitXor, TpWhole, a ^ b)
#undef TP_KIND

// Whole warps of 32-bit integers are joined by one instruction.
#define TP_REDUX(KIND, TYPE, INTRINSIC) \
  TP_INLINE TYPE tp_redux(KIND, TYPE x) { return (TYPE)INTRINSIC(TP_ALL_LANES, x); }
#define TP_REDUX_ARITHMETIC(KIND, NAME)                     \
  TP_REDUX(KIND, int32_t, __reduce_##NAME##_sync)           \
  TP_REDUX(KIND, uint32_t, __reduce_##NAME##_sync)
TP_REDUX_ARITHMETIC(TpSum, add) TP_REDUX_ARITHMETIC(TpAbsSum, add)
TP_REDUX_ARITHMETIC(TpMax, max) TP_REDUX_ARITHMETIC(TpAbsMax, max) TP_REDUX_ARITHMETIC(TpMin, min)
TP_REDUX_ARITHMETIC(TpBitAnd, and) TP_REDUX_ARITHMETIC(TpBitOr, or)
TP_REDUX_ARITHMETIC(TpBitXor, xor)
#undef TP_REDUX_ARITHMETIC
#undef TP_REDUX
template <class V> struct TpIsWord { enum { yes = 0 }; };
template <> struct TpIsWord<int32_t> { enum { yes = 1 }; };
template <> struct TpIsWord<uint32_t> { enum { yes = 1 }; };

// The values of LANES lanes whose numbers differ in the bits of STRIDE (LANES - 1), joined; each of
// them gets the result.  `element` was applied before.
template <class Kind, int LANES, int STRIDE = 1, class V> TP_INLINE V tp_warp_reduce(V value) {
  static_assert((LANES & (LANES - 1)) == 0 && LANES * STRIDE <= 32, "a part of one warp");
  if constexpr (LANES == 32 && TpIsWord<V>::yes) {
    return tp_redux(Kind{}, value);
  } else {
    TP_UNROLL_ALL
    for (int by = LANES * STRIDE / 2; by >= STRIDE; by /= 2)
      value = Kind::join(value, tp_shuffle_xor(value, by));
    return value;
  }
}
// Of lanes 0 to this one, joined; within groups of LANES.
template <class Kind, int LANES, class V> TP_INLINE V tp_warp_scan(V value) {
  TP_UNROLL_ALL
  for (int by = 1; by < LANES; by *= 2) {
    const V before = tp_shuffle_up(value, by);
    value = (int)(threadIdx.x & (LANES - 1)) >= by ? Kind::join(before, value) : value;
  }
  return value;
}
