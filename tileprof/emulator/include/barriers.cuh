// Barriers of a block, of some warps, of a cluster; mbarriers; fences; the one lane that acts.
#pragma once
#include "base.cuh"

TP_INLINE void tp_barrier() { tp_emulator::barrier(0, 0, true); }
TP_INLINE void tp_barrier(int id, int threads) { tp_emulator::barrier(id, threads, true); }
TP_INLINE void tp_barrier_arrive(int id, int threads) { tp_emulator::barrier(id, threads, false); }
TP_INLINE void tp_turn_start(int group) {
  if (group == 0) tp_barrier_arrive(2, 256);
}
TP_INLINE void tp_turn_wait(int group) { tp_barrier(2 + group, 256); }
template <int GROUPS> TP_INLINE void tp_turn_pass(int group) {
  tp_barrier_arrive(2 + (group + 1) % GROUPS, 256);
}
template <int GROUPS> TP_INLINE void tp_turn_pass_ahead(int group) { tp_turn_pass<GROUPS>(group); }
TP_INLINE void tp_warp_barrier() { tp_emulator::meet("tp_warp_barrier", nullptr, nullptr); }
TP_INLINE bool tp_barrier_any(bool x) { return tp_emulator::barrier_vote(x) > 0; }
TP_INLINE bool tp_barrier_all(bool x) { return tp_emulator::barrier_vote(!x) == 0; }
TP_INLINE void tp_cluster_arrive() { tp_emulator::cluster_arrive(); }
TP_INLINE void tp_cluster_wait() { tp_emulator::cluster_wait(); }
TP_INLINE void tp_cluster_barrier() {
  tp_cluster_arrive();
  tp_cluster_wait();
}
TP_INLINE void tp_fence_global() { tp_emulator::glance(); }
TP_INLINE void tp_fence_async_global() { tp_emulator::glance(); }
TP_INLINE void tp_fence_async() { tp_emulator::fence_async(); }
TP_INLINE bool tp_elect() { return tp_emulator::elect(); }

TP_INLINE void tp_mbarrier_init(uint64_t *b, int count) { tp_emulator::mbarrier_init(b, count); }
TP_INLINE void tp_fence_mbarrier_init() { tp_emulator::mbarrier_fence_init(); }
TP_INLINE void tp_mbarrier_arrive(uint64_t *b) { tp_emulator::mbarrier_arrive(b, 0, -1); }
TP_INLINE void tp_mbarrier_expect(uint64_t *b, int64_t bytes) {
  tp_emulator::mbarrier_arrive(b, bytes, -1);
}
TP_INLINE void tp_mbarrier_arrive_remote(uint64_t *b, int block) {
  tp_emulator::mbarrier_arrive(b, 0, block);
}
TP_INLINE void tp_mbarrier_wait(uint64_t *b, uint32_t parity) {
  tp_emulator::mbarrier_wait(b, parity);
}
TP_INLINE void tp_mbarrier_wait_cluster(uint64_t *b, uint32_t parity) {
  tp_emulator::mbarrier_wait(b, parity);
}
TP_INLINE bool tp_mbarrier_test(uint64_t *b, uint32_t parity) {
  return tp_emulator::mbarrier_test(b, parity);
}
TP_INLINE void tp_mbarrier_invalidate(uint64_t *b) { tp_emulator::mbarrier_invalidate(b); }
TP_INLINE void tp_mbarrier_arrive_cp_async(uint64_t *b) { tp_emulator::copy_arrive(b); }

template <int N> TP_INLINE void tp_registers_decrease() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "registers go in steps of 8 from 24 to 256");
}
template <int N> TP_INLINE void tp_registers_increase() { tp_registers_decrease<N>(); }

TP_INLINE void tp_launch_dependents() {}
TP_INLINE void tp_wait_dependencies() {}
