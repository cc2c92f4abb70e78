// Vectors of elements between memory and registers, and conversions of several at once.
// A register array is a pointer to its first register; indices are constants after unrolling.
#pragma once
#include "memory.cuh"
#include "numbers.cuh"

#ifdef __CUDACC__
#define TP_SHARED_VARIABLE(type, name) __shared__ type name
#else
#define TP_SHARED_VARIABLE(type, name) static type name
#endif

// to[0..N) from from[0..N), in accesses of 16 bytes where that many are wanted.
#define TP_VECTORS(SPACE)                                                             \
  template <int N, class T> TP_INLINE void tp_get_##SPACE(T *to, const T *from) {     \
    constexpr int step = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;                     \
    TP_UNROLL_ALL                                                                     \
    for (int at = 0; at < N; at += step) {                                            \
      T held[step];                                                                   \
      tp_load_vector_##SPACE(held, from + at);                                        \
      TP_UNROLL_ALL                                                                   \
      for (int i = 0; i < step; i++) to[at + i] = held[i];                            \
    }                                                                                 \
  }                                                                                   \
  template <int N, class T> TP_INLINE void tp_put_##SPACE(T *to, const T *from) {     \
    constexpr int step = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;                     \
    TP_UNROLL_ALL                                                                     \
    for (int at = 0; at < N; at += step) {                                            \
      T held[step];                                                                   \
      TP_UNROLL_ALL                                                                   \
      for (int i = 0; i < step; i++) held[i] = from[at + i];                          \
      tp_store_vector_##SPACE(to + at, held);                                         \
    }                                                                                 \
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
    constexpr int part = 4 / sizeof(T);
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) to[i] = tp_bit_cast<TpArray<T, part>>(words[i / part]).at[i % part];
    return;
  }
#endif
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) to[i] = tp_store<T>(values[i]);
}
// The reverse.
template <int N, class T, class V> TP_INLINE void tp_widen_vector(V *values, const T *from) {
#ifdef __CUDACC__
  if constexpr (TpIsNarrow<T>::yes && N * sizeof(T) % 4 == 0) {
    uint32_t words[N * sizeof(T) / 4];
    constexpr int part = 4 / sizeof(T);
    TP_UNROLL_ALL
    for (int i = 0; i < N; i += part) {
      TpArray<T, part> held;
      TP_UNROLL_ALL
      for (int k = 0; k < part; k++) held.at[k] = from[i + k];
      words[i / part] = tp_bit_cast<uint32_t>(held);
    }
    tp_unpack<T, N>(values, words);
    return;
  }
#endif
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) values[i] = tp_value(from[i]);
}

template <int N, class T, class V> TP_INLINE void tp_put_values_global(T *to, const V *values) {
  T held[N];
  tp_narrow_vector<N>(held, values);
  tp_put_global<N>(to, held);
}
template <int N, class T, class V> TP_INLINE void tp_put_values_shared(T *to, const V *values) {
  T held[N];
  tp_narrow_vector<N>(held, values);
  tp_put_shared<N>(to, held);
}
template <int N, class T> TP_INLINE void tp_fill_vector(T *to, T value) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) to[i] = value;
}
