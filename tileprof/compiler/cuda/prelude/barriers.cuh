// Barriers of a block, of a warp and of a cluster, mbarriers, fences, and registers of a role.
// Named barriers are 0 to 15, 0 being the whole block's; `threads` counts all that arrive, a
// multiple of 32.  A warp passes here as one.
#pragma once
#include "base.cuh"

TP_INLINE void tp_barrier() { __syncthreads(); }
TP_INLINE void tp_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Arrive without waiting.
TP_INLINE void tp_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Turns of warp groups: group g waits at barrier 2 + g, where the group before it arrives when it
// passes its turn.  (Barrier 1 is that of a role.)  The first group lets itself go first.
TP_INLINE void tp_turn_start(int group) {
  if (group == 0) tp_barrier_arrive(2, 256);
}
TP_INLINE void tp_turn_wait(int group) { tp_barrier(2 + group, 256); }
template <int GROUPS> TP_INLINE void tp_turn_pass(int group) {
  tp_barrier_arrive(group + 1 < GROUPS ? 3 + group : 2, 256);
}
// Arithmetic behind it stays behind: ptxas moves it across an arrival, but not across the end of a
// loop.  No group has a negative number, of which ptxas does not know.
template <int GROUPS> TP_INLINE void tp_turn_pass_ahead(int group) {
  do tp_turn_pass<GROUPS>(group);
  while (group < 0);
}
TP_INLINE void tp_warp_barrier() { __syncwarp(); }
// Whether `x` holds in any (all) threads of the block; a barrier of the whole block.
TP_INLINE bool tp_barrier_any(bool x) { return __syncthreads_or(x); }
TP_INLINE bool tp_barrier_all(bool x) { return __syncthreads_and(x); }

// What this thread wrote to shared memory is seen by TMA and wgmma after the next barrier.
TP_INLINE void tp_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// The same for global memory that TMA will read or has written.
TP_INLINE void tp_fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// What this thread wrote is seen by other blocks before what it writes later.
TP_INLINE void tp_fence_global() { __threadfence(); }

TP_INLINE void tp_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
TP_INLINE void tp_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
TP_INLINE void tp_cluster_barrier() {
  tp_cluster_arrive();
  tp_cluster_wait();
}

// -- mbarriers: 8 bytes of shared memory that count arrivals and bytes, phase after phase

TP_INLINE void tp_mbarrier_init(uint64_t *barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               ::"r"(tp_shared_address(barrier)), "r"(count) : "memory");
}
// The memory may be used for something else again.
TP_INLINE void tp_mbarrier_invalidate(uint64_t *barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(tp_shared_address(barrier)) : "memory");
}
// By the thread that initialised, before a barrier of the block (or the cluster).
TP_INLINE void tp_fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;"
               ::: "memory");
}
TP_INLINE void tp_mbarrier_arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               ::"r"(tp_shared_address(barrier)) : "memory");
}
// Arrive, and let the phase wait for so many more bytes.
TP_INLINE void tp_mbarrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(tp_shared_address(barrier)), "r"(bytes) : "memory");
}
// Arrive at the same place in block `rank` of the cluster: what this thread read before may be
// overwritten there.  What it wrote is not published; that would wait for all its writes.
TP_INLINE void tp_mbarrier_arrive_remote(uint64_t *barrier, int rank) {
  asm volatile("{ .reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
               ::"r"(tp_shared_address(barrier)), "r"(rank) : "memory");
}
// Arrive when the cp.async copies that this thread has issued are complete.
TP_INLINE void tp_mbarrier_arrive_cp_async(uint64_t *barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
               ::"r"(tp_shared_address(barrier)) : "memory");
}
// Whether the phase of this parity is complete.
TP_INLINE bool tp_mbarrier_test(uint64_t *barrier, uint32_t parity) {
  uint32_t done;
  asm volatile("{ .reg .pred p;\n"
               "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(tp_shared_address(barrier)), "r"(parity) : "memory");
  return done;
}
// Until the phase of this parity is complete; asleep up to 10 ms at a time.
#define TP_WAIT(SCOPE)                                                                     \
  asm volatile("{ .reg .pred p;\n"                                                         \
               "again:\n"                                                                  \
               "mbarrier.try_wait.parity" SCOPE ".shared::cta.b64 p, [%0], %1, 10000000;\n" \
               "@p bra done;\n"                                                            \
               "bra again;\n"                                                              \
               "done: }"                                                                   \
               ::"r"(tp_shared_address(barrier)), "r"(parity) : "memory")
TP_INLINE void tp_mbarrier_wait(uint64_t *barrier, uint32_t parity) { TP_WAIT(""); }
// The same, before ordinary reads of what other blocks of the cluster wrote; empties the L1 cache.
TP_INLINE void tp_mbarrier_wait_cluster(uint64_t *barrier, uint32_t parity) {
  TP_WAIT(".acquire.cluster");
}
#undef TP_WAIT

// -- roles

// True in one lane of a warp whose lanes are all here.
TP_INLINE bool tp_elect() {
  uint32_t elected;
  asm volatile("{ .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.u32 %0, 1, 0, p; }"
               : "=r"(elected));
  return elected;
}
// Registers of each thread of a warp group from here on, a multiple of 8.
template <int N> TP_INLINE void tp_registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> TP_INLINE void tp_registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
// Let the next kernel start; wait until the results of the one before are there.
TP_INLINE void tp_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
TP_INLINE void tp_wait_dependencies() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
