// How fast memory is read, written and copied: the device's, its L2's, a multiprocessor's own.
// Loads and stores of 16 bytes a thread; what is read is folded into one word, which is stored where
// it has a value that it never has, so that no load can be left out.
#pragma once
#include "base.cuh"

TP_INLINE uint4 tp_read_once(const uint4 *at) {
  uint4 x;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
  return x;
}
// From L2, or from memory into it; L1 is passed by.
TP_INLINE uint4 tp_read_l2(const uint4 *at) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
  return x;
}
TP_INLINE void tp_write_once(uint4 *at, uint4 x) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};"
               ::"l"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
TP_INLINE uint32_t tp_folded(uint4 x) { return x.x | x.y | x.z | x.w; }

// The piece of step `step`: blocks walk over all pieces side by side, as often as there are steps.
template <int VECTORS> TP_INLINE int64_t tp_piece(int step, uint32_t pieces) {
  const uint32_t piece = ((uint32_t)step * gridDim.x + blockIdx.x) % pieces;
  return (int64_t)piece * (MEMORY_THREADS * VECTORS) + threadIdx.x;
}

template <int VECTORS, bool L2>
TP_INLINE void tp_read_all(const uint4 *from, uint32_t *sink, int64_t pieces, int64_t steps) {
  uint32_t folded = 0;
  TP_NO_UNROLL
  for (int step = 0; step < (int)steps; step++) {
    const uint4 *mine = from + tp_piece<VECTORS>(step, (uint32_t)pieces);
    uint4 held[VECTORS];
    TP_UNROLL_ALL
    for (int i = 0; i < VECTORS; i++)
      held[i] = L2 ? tp_read_l2(mine + i * MEMORY_THREADS) : tp_read_once(mine + i * MEMORY_THREADS);
    TP_UNROLL_ALL
    for (int i = 0; i < VECTORS; i++) folded |= tp_folded(held[i]);
  }
  if (folded == NEVER) *sink = folded;
}

template <int VECTORS> TP_INLINE void tp_write_all(uint4 *to, int64_t pieces, int64_t steps) {
  const uint4 x = {threadIdx.x, blockIdx.x, 0, 0};
  TP_NO_UNROLL
  for (int step = 0; step < (int)steps; step++) {
    uint4 *mine = to + tp_piece<VECTORS>(step, (uint32_t)pieces);
    TP_UNROLL_ALL
    for (int i = 0; i < VECTORS; i++) tp_write_once(mine + i * MEMORY_THREADS, x);
  }
}

template <int VECTORS>
TP_INLINE void tp_copy_all(const uint4 *from, uint4 *to, int64_t pieces, int64_t steps) {
  TP_NO_UNROLL
  for (int step = 0; step < (int)steps; step++) {
    const int64_t at = tp_piece<VECTORS>(step, (uint32_t)pieces);
    uint4 held[VECTORS];
    TP_UNROLL_ALL
    for (int i = 0; i < VECTORS; i++) held[i] = tp_read_once(from + at + i * MEMORY_THREADS);
    TP_UNROLL_ALL
    for (int i = 0; i < VECTORS; i++) tp_write_once(to + at + i * MEMORY_THREADS, held[i]);
  }
}

#define ROOF_MEMORY(N)                                                                            \
  extern "C" __global__ void __launch_bounds__(MEMORY_THREADS) roof_hbm_read_##N(                 \
      const uint4 *from, uint4 *to, uint32_t *sink, int64_t pieces, int64_t steps) {              \
    tp_read_all<N, false>(from, sink, pieces, steps);                                             \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(MEMORY_THREADS) roof_hbm_write_##N(                \
      const uint4 *from, uint4 *to, uint32_t *sink, int64_t pieces, int64_t steps) {              \
    tp_write_all<N>(to, pieces, steps);                                                           \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(MEMORY_THREADS) roof_hbm_copy_##N(                 \
      const uint4 *from, uint4 *to, uint32_t *sink, int64_t pieces, int64_t steps) {              \
    tp_copy_all<N>(from, to, pieces, steps);                                                      \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(MEMORY_THREADS) roof_l2_read_##N(                  \
      const uint4 *from, uint4 *to, uint32_t *sink, int64_t pieces, int64_t steps) {              \
    tp_read_all<N, true>(from, sink, pieces, steps);                                              \
  }
ROOF_MEMORY(4)
ROOF_MEMORY(8)
#undef ROOF_MEMORY

// Volatile: reads of what nobody writes would be made one.
TP_INLINE uint4 tp_read_shared(uint32_t at) {
  uint4 x;
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at));
  return x;
}
// Each warp reads 512 bytes side by side: no two lanes of an eighth of it meet in a bank.
extern "C" __global__ void __launch_bounds__(SHARED_THREADS)
    roof_shared_read(uint32_t *sink, int64_t turns) {
  __shared__ __align__(16) uint4 held[SHARED_THREADS];
  held[threadIdx.x] = {threadIdx.x & 0xffffu, 0, 0, 0};
  __syncthreads();
  const uint32_t at = tp_shared_address(&held[threadIdx.x]);
  uint32_t folded = 0;
  TP_NO_UNROLL
  for (int turn = 0; turn < (int)turns; turn++) {
    TP_UNROLL_ALL
    for (int i = 0; i < SHARED_READS; i++) folded |= tp_folded(tp_read_shared(at));
  }
  if (folded == NEVER) *sink = folded;
}
