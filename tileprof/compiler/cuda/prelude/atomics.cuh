// Read, combine and write one element, at once where other threads may do the same.
#pragma once
#include "numbers.cuh"
#include "combining.h"

// Elements of any type and size: the word around one is replaced until nobody came between.  Where
// nothing changes nothing is written, so that maxima settle.
template <class Word, class Kind, class T, class V> TP_INLINE V tp_atomic_word(T *at, V value) {
  const uint64_t address = (uint64_t)at;
  Word *const word = (Word *)(address & ~(uint64_t)(sizeof(Word) - 1));
  const int shift = (int)(address & (sizeof(Word) - 1)) * 8;
  typedef typename TpRaw<sizeof(T)>::type Raw;
  Word seen = *(volatile Word *)word;
  for (;;) {
    const Raw raw = (Raw)(seen >> shift);
    const V old = (V)tp_value(tp_bit_cast<T>(raw));
    const Raw wanted = tp_bit_cast<Raw>(tp_store<T>(Kind::join(old, value)));
    if (wanted == raw) return old;
    const Word next = (seen & ~((Word)(Raw)~(Raw)0 << shift)) | (Word)wanted << shift;
    const Word found = atomicCAS(word, seen, next);
    if (found == seen) return old;
    seen = found;
  }
}
// How a kind is done on elements of type T; by words unless the hardware has it.
template <class Kind, class T> struct TpAtomic {
  template <class V> TP_INLINE V run(T *at, V value) {
    if constexpr (sizeof(T) == 8)
      return tp_atomic_word<uint64_t, Kind>(at, value);
    else
      return tp_atomic_word<uint32_t, Kind>(at, value);
  }
};
#define TP_NATIVE(KIND, TYPE, AS, INTRINSIC)                                        \
  template <> struct TpAtomic<KIND, TYPE> {                                         \
    TP_INLINE TYPE run(TYPE *at, TYPE value) {                                      \
      return tp_bit_cast<TYPE>(INTRINSIC((AS *)at, tp_bit_cast<AS>(value)));        \
    }                                                                               \
  };
// 64-bit integers add and take bits alike with and without a sign.
#define TP_NATIVE_WHOLE(KIND, INTRINSIC)             \
  TP_NATIVE(KIND, int32_t, int32_t, INTRINSIC)       \
  TP_NATIVE(KIND, uint32_t, uint32_t, INTRINSIC)     \
  TP_NATIVE(KIND, int64_t, uint64_t, INTRINSIC)      \
  TP_NATIVE(KIND, uint64_t, uint64_t, INTRINSIC)
#define TP_NATIVE_ORDER(KIND, INTRINSIC)             \
  TP_NATIVE(KIND, int32_t, int32_t, INTRINSIC)       \
  TP_NATIVE(KIND, uint32_t, uint32_t, INTRINSIC)     \
  TP_NATIVE(KIND, int64_t, int64_t, INTRINSIC)       \
  TP_NATIVE(KIND, uint64_t, uint64_t, INTRINSIC)
TP_NATIVE_WHOLE(TpAdd, atomicAdd)
TP_NATIVE_WHOLE(TpAnd, atomicAnd)
TP_NATIVE_WHOLE(TpOr, atomicOr)
TP_NATIVE_WHOLE(TpXor, atomicXor)
TP_NATIVE_WHOLE(TpExchange, atomicExch)
TP_NATIVE_ORDER(TpLarger, atomicMax)
TP_NATIVE_ORDER(TpSmaller, atomicMin)
TP_NATIVE(TpAdd, float, float, atomicAdd)
TP_NATIVE(TpAdd, double, double, atomicAdd)
TP_NATIVE(TpExchange, float, uint32_t, atomicExch)
TP_NATIVE(TpExchange, double, uint64_t, atomicExch)
#undef TP_NATIVE_ORDER
#undef TP_NATIVE_WHOLE
#undef TP_NATIVE

#define TP_NATIVE_NARROW(TYPE, TEXT)                                                     \
  template <> struct TpAtomic<TpAdd, TYPE> {                                             \
    TP_INLINE float run(TYPE *at, float value) {                                         \
      uint16_t old;                                                                      \
      asm volatile("atom.add.noftz." TEXT " %0, [%1], %2;"                               \
                   : "=h"(old) : "l"(at), "h"(tp_store<TYPE>(value).bits) : "memory");   \
      return tp_value(TYPE{old});                                                        \
    }                                                                                    \
  };
TP_NATIVE_NARROW(TpHalf, "f16")
#if __CUDA_ARCH__ >= 900
TP_NATIVE_NARROW(TpBfloat, "bf16")
#endif
#undef TP_NATIVE_NARROW

// In memory that other threads write too, shared or global; gives what was there.  `value` is one
// of the element type.
template <class Kind, class T, class V> TP_INLINE V tp_atomic(T *at, V value) {
  return (V)TpAtomic<Kind, T>::run(at, value);
}

// -- sums of neighbours in global memory, nothing given back; addresses are multiples of the access

// -- several at once

// at[0..N) += v[0..N): floats 2 or 4, narrow floats 2, 4 or 8.
template <class T> struct TpAddVector;
template <> struct TpAddVector<float> {
  template <int N> TP_INLINE void run(uint64_t at, const float *v) {
    if constexpr (N == 2)
      asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(v[0]), "f"(v[1])
                   : "memory");
    else
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                   ::"l"(at), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
  }
};
#define TP_ADD_PACKED(TYPE, PAIR)                                                              \
  template <> struct TpAddVector<TYPE> {                                                         \
    template <int N> TP_INLINE void run(uint64_t at, const float *v) {                           \
      uint32_t w[N / 2];                                                                         \
      TP_UNROLL_ALL                                                                              \
      for (int i = 0; i < N / 2; i++) w[i] = tp_pack2<TYPE>(v[2 * i], v[2 * i + 1]);             \
      if constexpr (N == 2)                                                                      \
        asm volatile("red.global.add.noftz." PAIR " [%0], %1;" ::"l"(at), "r"(w[0]) : "memory"); \
      else if constexpr (N == 4)                                                                 \
        asm volatile("red.global.add.noftz.v2." PAIR " [%0], {%1, %2};"                          \
                     ::"l"(at), "r"(w[0]), "r"(w[1]) : "memory");                                \
      else                                                                                       \
        asm volatile("red.global.add.noftz.v4." PAIR " [%0], {%1, %2, %3, %4};"                  \
                     ::"l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");          \
    }                                                                                            \
  };
TP_ADD_PACKED(TpHalf, "f16x2")
TP_ADD_PACKED(TpBfloat, "bf16x2")
#undef TP_ADD_PACKED
// To neighbours in global memory at a multiple of the access's size; gives nothing back.  All but
// pairs of halves from compute capability 9.0 on.
template <int N, class T> TP_INLINE void tp_atomic_add_vector(T *at, const float *v) {
  TpAddVector<T>::template run<N>(__cvta_generic_to_global(at), v);
}

// One narrow float in global memory, nothing given back: with its neighbour in the word, to which
// -0 is added, since the hardware has no sum of one.
template <class T> TP_INLINE void tp_atomic_add_global(T *at, float v) {
  const uint64_t address = __cvta_generic_to_global(at);
  const bool upper = address & 2;
  const float pair[2] = {upper ? -0.0f : v, upper ? v : -0.0f};
  TpAddVector<T>::template run<2>(address & ~3ull, pair);
}
