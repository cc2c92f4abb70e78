// Read, combine and write at once; other threads run before and after, not between.
#pragma once
#include "numbers.cuh"

#define tp_atomic tp_atomic_step
#include "atomics.h"
#undef tp_atomic

template <class Kind, class T, class V> TP_INLINE V tp_atomic(T *at, V value) {
  tp_emulator::check_aligned(at, sizeof(T), "atomic");
  tp_emulator::glance();
  if (!TP_WATCHED) return tp_atomic_step<Kind>(at, value);
  tp_emulator::atomic_begin(at, sizeof(T));
  const V before = tp_atomic_step<Kind>(at, value);
  tp_emulator::atomic_end();
  return before;
}
template <class T> TP_INLINE void tp_atomic_add_global(T *at, float v) {
  if (tp_emulator::is_shared(at)) tp_emulator::fail("tp_atomic_add_global in shared memory");
  tp_atomic<TpAdd>(at, v);
}
template <int N, class T> TP_INLINE void tp_atomic_add_vector(T *at, const float *v) {
  tp_emulator::check_aligned(at, N * sizeof(T), "atomic vector");
  if (tp_emulator::is_shared(at)) tp_emulator::fail("an atomic vector in shared memory");
  for (int i = 0; i < N; i++) tp_atomic<TpAdd>(at + i, v[i]);
}
