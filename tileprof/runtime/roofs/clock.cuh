// What is measured beside speed: the clock of a multiprocessor, and launches that do nothing.
#pragma once
#include "base.cuh"

TP_INLINE uint64_t tp_nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
// The first moment at which the timer shows another number: it may step by a microsecond.
TP_INLINE uint64_t tp_next_tick(uint64_t after) {
  const uint64_t before = tp_nanoseconds();
  uint64_t now = before;
  while (now == before || now < after) now = tp_nanoseconds();
  return now;
}
// Cycles and nanoseconds between two ticks of the timer.
extern "C" __global__ void __launch_bounds__(32) roof_clock(uint64_t *out, int64_t nanoseconds) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = tp_next_tick(0);
  const uint64_t cycles = clock64();
  const uint64_t end = tp_next_tick(begin + nanoseconds);
  out[0] = clock64() - cycles;
  out[1] = end - begin;
}
// Holds a stream up while launches are queued behind it.
extern "C" __global__ void __launch_bounds__(32) roof_hold(uint64_t *out, int64_t nanoseconds) {
  const uint64_t begin = tp_nanoseconds();
  while (tp_nanoseconds() - begin < (uint64_t)nanoseconds) {
  }
}
extern "C" __global__ void __launch_bounds__(32) roof_nothing(uint64_t *out, int64_t nanoseconds) {}
