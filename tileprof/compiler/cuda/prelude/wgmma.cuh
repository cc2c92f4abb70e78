// Matrix products of a warp group that run beside the threads: everything but the instructions,
// which `emit/wgmma.py` adds after this text for the shapes that a kernel uses.
#pragma once
#include "base.cuh"

// Where an operand lies in shared memory: distances between its core matrices in bytes (multiples
// of 16), and the bytes of its swizzle (0 for none).
TP_INLINE uint64_t tp_descriptor(const void *at, int leading_bytes, int stride_bytes,
                                 int swizzle) {
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return (uint64_t)(tp_shared_address(at) >> 4 & 0x3fff) |
         (uint64_t)(leading_bytes >> 4 & 0x3fff) << 16 |
         (uint64_t)(stride_bytes >> 4 & 0x3fff) << 32 | mode << 62;
}
// The same operand so many bytes further on.
TP_INLINE uint64_t tp_descriptor_advance(uint64_t descriptor, int bytes) {
  return descriptor + (uint64_t)(int64_t)(bytes >> 4);
}
// From here on another one, as far as the compiler knows: what is computed from it is not kept in
// registers from one iteration to the next.
TP_INLINE void tp_descriptor_anew(uint64_t &descriptor) { asm volatile("" : "+l"(descriptor)); }
// The same descriptor in every lane, said so: it is kept once for the warp.
TP_INLINE uint64_t tp_descriptor_uniform(uint64_t descriptor) {
  const uint32_t low = __shfl_sync(TP_ALL_LANES, (uint32_t)descriptor, 0);
  const uint32_t high = __shfl_sync(TP_ALL_LANES, (uint32_t)(descriptor >> 32), 0);
  return (uint64_t)high << 32 | low;
}

// Before the first product after registers or shared memory that it uses were written.
TP_INLINE void tp_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TP_INLINE void tp_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most N of the youngest groups are under way.
template <int N> TP_INLINE void tp_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Arithmetic before it stays before it: ptxas moves a wait ahead of what does not need it, but not
// across the beginning of a loop.  No group has a negative number, of which ptxas does not know; the
// compiler before it forgets what `tp_turn_pass_ahead` said of it.
template <int N> TP_INLINE void tp_wgmma_wait_behind(int group) {
  asm volatile("" : "+r"(group));
  do tp_wgmma_wait<N>();
  while (group < 0);
}
// A wait behind it stays behind what these sums need: ptxas knows of no reason why a wait should not
// be issued before arithmetic.  The only NaN that an addition makes is another one.
template <int N> TP_INLINE void tp_wgmma_after(const float (&sums)[N]) {
  uint32_t lanes = TP_ALL_LANES;
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++)
    if (__float_as_uint(sums[i]) == 0x7fedcba9u) lanes = 0;
  asm volatile("bar.warp.sync %0;" ::"r"(lanes) : "memory");
}

// Accesses of these registers stay on their side: a product under way reads and writes them.
TP_INLINE void tp_wgmma_hold_one(float &d) { asm volatile("" : "+f"(d)::"memory"); }
TP_INLINE void tp_wgmma_hold_one(int32_t &d) { asm volatile("" : "+r"(d)::"memory"); }
TP_INLINE void tp_wgmma_hold_one(uint32_t &d) { asm volatile("" : "+r"(d)::"memory"); }
template <int N, class T> TP_INLINE void tp_wgmma_hold(T *d) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) tp_wgmma_hold_one(d[i]);
}
template <class T, int N> TP_INLINE void tp_wgmma_hold(T (&d)[N]) { tp_wgmma_hold<N>(&d[0]); }
