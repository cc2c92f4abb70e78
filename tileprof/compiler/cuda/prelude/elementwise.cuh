// Vectors of elements between memory and registers, and conversions of several at once.
// Arrays of 16- and 8-bit elements go through words, which the compiler sees through.
// A register array is a pointer to its first register; indices are constants after unrolling.
#pragma once
#include "memory.cuh"
#include "numbers.cuh"

#ifndef TP_SHARED_VARIABLE
#define TP_SHARED_VARIABLE(type, name) __shared__ type name
#endif

template <class T, int N> struct TpPart { T at[N]; };

// The 32-bit words of N elements, and back.
template <int N, class T> TP_INLINE void tp_words(uint32_t *words, const T *from) {
  if constexpr (sizeof(T) >= 4) {
    constexpr int part = sizeof(T) / 4;
    TP_UNROLL_ALL
    for (int i = 0; i < N * part; i++)
      words[i] = tp_bit_cast<TpPart<uint32_t, part>>(from[i / part]).at[i % part];
  } else {
    constexpr int part = 4 / sizeof(T);
    TP_UNROLL_ALL
    for (int i = 0; i < N; i += part) {
      TpPart<T, part> held;
      TP_UNROLL_ALL
      for (int k = 0; k < part; k++) held.at[k] = from[i + k];
      words[i / part] = tp_bit_cast<uint32_t>(held);
    }
  }
}
template <int N, class T> TP_INLINE void tp_elements(T *to, const uint32_t *words) {
  constexpr int part = 4 / sizeof(T);
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) to[i] = tp_bit_cast<TpPart<T, part>>(words[i / part]).at[i % part];
}

// N words in one access.  A store is said outright: the compiler writes word by word where it
// loses sight of the alignment.
#ifdef __CUDACC__
#define TP_PUT_WORDS(SPACE, REGISTER, ADDRESS)                                              \
  template <int N> TP_INLINE void tp_put_words_##SPACE(uint32_t *to, const uint32_t *v) {   \
    if constexpr (N == 4)                                                                   \
      asm volatile("st." #SPACE ".v4.u32 [%0], {%1, %2, %3, %4};" ::REGISTER(ADDRESS(to)),  \
                   "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");                  \
    else if constexpr (N == 2)                                                              \
      asm volatile("st." #SPACE ".v2.u32 [%0], {%1, %2};" ::REGISTER(ADDRESS(to)),          \
                   "r"(v[0]), "r"(v[1]) : "memory");                                        \
    else                                                                                    \
      tp_store_vector_##SPACE<N>(to, v);                                                    \
  }
#else
#define TP_PUT_WORDS(SPACE, REGISTER, ADDRESS)                                              \
  template <int N> TP_INLINE void tp_put_words_##SPACE(uint32_t *to, const uint32_t *v) {   \
    uint32_t held[N];                                                                       \
    for (int i = 0; i < N; i++) held[i] = v[i];                                             \
    tp_store_vector_##SPACE(to, held);                                                      \
  }
#endif
TP_PUT_WORDS(global, "l", __cvta_generic_to_global)
TP_PUT_WORDS(shared, "r", tp_shared_address)
#undef TP_PUT_WORDS

// to[0..N) from from[0..N), in accesses of 16 bytes where that many are wanted.  `where` gives
// `other` for a null pointer: where ways with and without a load meet there are words then, and not
// elements, each of which would take a register.
#define TP_VECTORS(SPACE)                                                                   \
  template <int N, class T> TP_INLINE void tp_get_##SPACE(T *to, const T *from) {           \
    if constexpr (sizeof(T) < 4 && N * sizeof(T) % 4 == 0) {                                \
      uint32_t words[N * sizeof(T) / 4];                                                    \
      tp_get_##SPACE<N * sizeof(T) / 4>(words, (const uint32_t *)from);                     \
      tp_elements<N>(to, words);                                                            \
    } else {                                                                                \
      constexpr int step = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;                         \
      TP_UNROLL_ALL                                                                         \
      for (int at = 0; at < N; at += step) {                                                \
        T held[step];                                                                       \
        tp_load_vector_##SPACE(held, from + at);                                            \
        TP_UNROLL_ALL                                                                       \
        for (int i = 0; i < step; i++) to[at + i] = held[i];                                \
      }                                                                                     \
    }                                                                                       \
  }                                                                                         \
  template <int N, class T>                                                                 \
  TP_INLINE void tp_get_##SPACE##_where(T *to, const T *from, T other) {                    \
    uint32_t words[N * sizeof(T) / 4];                                                      \
    T others[N];                                                                            \
    TP_UNROLL_ALL                                                                           \
    for (int i = 0; i < N; i++) others[i] = other;                                          \
    tp_words<N>(words, others);                                                             \
    if (from) tp_get_##SPACE<N * sizeof(T) / 4>(words, (const uint32_t *)from);             \
    tp_elements<N>(to, words);                                                              \
  }                                                                                         \
  template <int N, class T> TP_INLINE void tp_put_##SPACE(T *to, const T *from) {           \
    if constexpr (N * sizeof(T) % 4 == 0) {                                                 \
      constexpr int count = N * sizeof(T) / 4, step = count < 4 ? count : 4;                \
      uint32_t words[count];                                                                \
      tp_words<N>(words, from);                                                             \
      TP_UNROLL_ALL                                                                         \
      for (int at = 0; at < count; at += step)                                              \
        tp_put_words_##SPACE<step>((uint32_t *)to + at, words + at);                        \
    } else {                                                                                \
      T held[N];                                                                            \
      TP_UNROLL_ALL                                                                         \
      for (int i = 0; i < N; i++) held[i] = from[i];                                        \
      tp_store_vector_##SPACE(to, held);                                                    \
    }                                                                                       \
  }
TP_VECTORS(global)
TP_VECTORS(shared)
#undef TP_VECTORS

// Values as stored elements, in pairs where the hardware converts pairs.
template <int N, class T, class V> TP_INLINE void tp_narrow_vector(T *to, const V *values) {
#ifdef __CUDACC__
  if constexpr (TpIsNarrow<T>::yes && N * sizeof(T) % 4 == 0) {
    float floats[N];
    uint32_t words[N * sizeof(T) / 4];
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) floats[i] = tp_narrowing(values[i]);
    tp_pack<T, N>(words, floats);
    tp_elements<N>(to, words);
  } else
#endif
  {
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) to[i] = tp_store<T>(values[i]);
  }
}
// The same of values that are all within the range of 8-bit elements: none has to be looked at.
template <int N, class T, class V> TP_INLINE void tp_narrow_within(T *to, const V *values) {
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 1 && N % 4 == 0) {
    uint32_t words[N / 4];
    TP_UNROLL_ALL
    for (int i = 0; i < N / 4; i++) {
      const V *four = values + 4 * i;
      words[i] = tp_pack4_within<T>(tp_narrowing(four[0]), tp_narrowing(four[1]),
                                    tp_narrowing(four[2]), tp_narrowing(four[3]));
    }
    tp_elements<N>(to, words);
  } else
#endif
  {
    tp_narrow_vector<N>(to, values);
  }
}
template <class T> struct TpLargest { enum { number = 57344 }; };
template <> struct TpLargest<TpE4m3> { enum { number = 448 }; };
// The same of any values, in place of which the largest of their sign are taken where they are too
// large.
template <int N, class T, class V> TP_INLINE void tp_narrow_saturated(T *to, const V *values) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 890
  if constexpr (N % 4 == 0) {
    tp_narrow_within<N>(to, values);
  } else if constexpr (N % 2 == 0) {
    TP_UNROLL_ALL
    for (int i = 0; i < N; i += 2) {
      const uint16_t both = tp_pack2_within<T>(values[i], values[i + 1]);
      memcpy(to + i, &both, 2);
    }
  } else
#endif
  {
    const V most = TpLargest<T>::number;
    V held[N];
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) {
      const V x = values[i];
      held[i] = x > most ? most : x < -most ? -most : x;
    }
    tp_narrow_vector<N>(to, held);
  }
}
// The reverse.
template <int N, class T, class V> TP_INLINE void tp_widen_vector(V *values, const T *from) {
#ifdef __CUDACC__
  if constexpr (TpIsNarrow<T>::yes && N * sizeof(T) % 4 == 0) {
    uint32_t words[N * sizeof(T) / 4];
    tp_words<N>(words, from);
    tp_unpack<T, N>(values, words);
  } else
#endif
  {
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) values[i] = tp_value(from[i]);
  }
}
// Values converted and written.
template <int N, class T, class V> TP_INLINE void tp_put_values_global(T *to, const V *values) {
  T held[N];
  tp_narrow_vector<N>(held, values);
  tp_put_global<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_within_global(T *to, const V *values) {
  T held[N];
  tp_narrow_within<N>(held, values);
  tp_put_global<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_saturated_global(T *to, const V *values) {
  T held[N];
  tp_narrow_saturated<N>(held, values);
  tp_put_global<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_saturated_shared(T *to, const V *values) {
  T held[N];
  tp_narrow_saturated<N>(held, values);
  tp_put_shared<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_values_shared(T *to, const V *values) {
  T held[N];
  tp_narrow_vector<N>(held, values);
  tp_put_shared<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_within_shared(T *to, const V *values) {
  T held[N];
  tp_narrow_within<N>(held, values);
  tp_put_shared<N>(to, held);
}
template <int N, class T> TP_INLINE void tp_fill_vector(T *to, T value) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) to[i] = value;
}
