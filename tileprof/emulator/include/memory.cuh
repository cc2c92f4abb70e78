// Accesses of several elements: aligned to their size up to 16 bytes, as the hardware demands.
#pragma once
#include "numbers.cuh"

enum TpWhere { TP_ANYWHERE, TP_IN_GLOBAL, TP_IN_SHARED };

TP_INLINE void tp_check_access(const void *at, size_t bytes, TpWhere where) {
  if (bytes & (bytes - 1)) tp_emulator::fail("an access of %zu bytes", bytes);
  tp_emulator::check_aligned(at, bytes < 16 ? bytes : 16, "vector access");
  if (where != TP_ANYWHERE && tp_emulator::is_shared(at) != (where == TP_IN_SHARED))
    tp_emulator::fail("%p is not in %s memory", at, where == TP_IN_SHARED ? "shared" : "global");
}
template <TpWhere WHERE, int N, class T> TP_INLINE void tp_load_by(T *to, const T *from) {
  tp_check_access(from, N * sizeof(T), WHERE);
  tp_emulator::glance();
  if (TP_WATCHED && N * sizeof(T) > 16) tp_emulator::note_access(from, N * sizeof(T), false);
  __builtin_memcpy(to, from, N * sizeof(T));
}
template <TpWhere WHERE, int N, class T> TP_INLINE void tp_store_by(T *to, const T *from) {
  tp_check_access(to, N * sizeof(T), WHERE);
  if (TP_WATCHED && N * sizeof(T) > 16) tp_emulator::note_access(to, N * sizeof(T), true);
  __builtin_memcpy(to, from, N * sizeof(T));
  tp_emulator::glance();
}
template <TpWhere WHERE, int N, class T, class V>
TP_INLINE void tp_load_values_by(V *to, const T *from) {
  T read[N];
  tp_load_by<WHERE, N>(read, from);
  for (int i = 0; i < N; i++) to[i] = (V)tp_value(read[i]);
}
template <TpWhere WHERE, int N, class T, class V>
TP_INLINE void tp_store_values_by(T *to, const V *from) {
  T written[N];
  for (int i = 0; i < N; i++) written[i] = tp_store<T>(from[i]);
  tp_store_by<WHERE, N>(to, written);
}

// Values as words of narrow elements, and back.
template <class T, int N> TP_INLINE void tp_pack(uint32_t *words, const float *values) {
  T stored[N];
  for (int i = 0; i < N; i++) stored[i] = tp_store<T>(values[i]);
  __builtin_memcpy(words, stored, N * sizeof(T));
}
template <class T, int N> TP_INLINE void tp_unpack(float *values, const uint32_t *words) {
  T stored[N];
  __builtin_memcpy(stored, words, N * sizeof(T));
  for (int i = 0; i < N; i++) values[i] = tp_value(stored[i]);
}

#define TP_ACCESS(SUFFIX, WHERE)                                                            \
  template <int N, class T> TP_INLINE void tp_load_vector##SUFFIX(T *to, const T *from) {   \
    tp_load_by<WHERE, N>(to, from);                                                         \
  }                                                                                         \
  template <class T, int N> TP_INLINE void tp_load_vector##SUFFIX(T (&to)[N], const T *from) { \
    tp_load_by<WHERE, N>((T *)to, from);                                                    \
  }                                                                                         \
  template <int N, class T> TP_INLINE void tp_store_vector##SUFFIX(T *to, const T *from) {  \
    tp_store_by<WHERE, N>(to, from);                                                        \
  }                                                                                         \
  template <class T, int N> TP_INLINE void tp_store_vector##SUFFIX(T *to, const T (&from)[N]) { \
    tp_store_by<WHERE, N>(to, (const T *)from);                                             \
  }                                                                                         \
  template <int N, class T, class V>                                                        \
  TP_INLINE void tp_load_values##SUFFIX(V *to, const T *from) {                             \
    tp_load_values_by<WHERE, N>(to, from);                                                  \
  }                                                                                         \
  template <int N, class T, class V>                                                        \
  TP_INLINE void tp_store_values##SUFFIX(T *to, const V *from) {                            \
    tp_store_values_by<WHERE, N>(to, from);                                                 \
  }
TP_ACCESS(, TP_ANYWHERE)
TP_ACCESS(_global, TP_IN_GLOBAL)
TP_ACCESS(_shared, TP_IN_SHARED)
TP_ACCESS(_stream, TP_IN_GLOBAL)
#undef TP_ACCESS
