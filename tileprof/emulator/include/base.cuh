// Macros, the thread's place in its block, and whole-number arithmetic.
#pragma once
#include "emulator.h"

// The `cpu` prelude has these names for something else.
#define TpMessage TpMessageOfCpu
#define tp_fail tp_fail_of_cpu
#include "base.h"
#undef TpMessage
#undef tp_fail

#define TP_SPECIAL template <>
#define TP_UNROLL_ALL
#define TP_NO_UNROLL
#define TP_ALL_LANES 0xffffffffu

// An unsigned number of so many bytes.
template <int BYTES> struct TpRaw;
template <> struct TpRaw<1> { typedef uint8_t type; };
template <> struct TpRaw<2> { typedef uint16_t type; };
template <> struct TpRaw<4> { typedef uint32_t type; };
template <> struct TpRaw<8> { typedef uint64_t type; };

TP_INLINE int tp_uniform(int x) { return x; }
TP_INLINE int tp_cluster_rank() { return (int)tp_emulator::now->cluster_rank; }
TP_INLINE uint32_t tp_shared_address(const void *pointer) {
  return tp_emulator::shared_address(pointer);
}

// What report.cuh needs of CUDA: nobody else runs in between.
TP_INLINE int atomicCAS(int *at, int expected, int value) {
  const int before = *at;
  if (before == expected) *at = value;
  return before;
}
template <class T, class V> TP_INLINE T atomicAdd(T *at, V value) {
  const T before = *at;
  *at = (T)(before + value);
  return before;
}
TP_INLINE void __threadfence_system() {}
TP_INLINE void __nanosleep(unsigned) { tp_emulator::yield(); }

#include "intrinsics.h"
