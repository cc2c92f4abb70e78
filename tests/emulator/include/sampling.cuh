// States of warps and the warp that looks at them: a look is whenever its turn comes.
#pragma once
#include "base.cuh"

#define TP_STATE_ENDED 0xffffffffu

struct TpSampling {
  uint64_t *counts;
  uint32_t others, first, period, seed;
  uint64_t turns;
};
struct TpState {
  uint32_t state, unused, clocks[2];
};
struct TpClocks {
  uint32_t before, after;
};

TP_INLINE void tp_publish(TpState *place, uint32_t state, TpClocks &) {
  if (!tp_emulator::is_shared(place)) tp_emulator::fail("a state outside of shared memory");
  tp_emulator::yield();
  place->state = state;
}
TP_INLINE void tp_publish_end(TpState *place, TpClocks clocks) {
  tp_publish(place, TP_STATE_ENDED, clocks);
}
TP_INLINE uint32_t tp_published(const TpState *place) {
  if (!tp_emulator::is_shared(place)) tp_emulator::fail("a state outside of shared memory");
  return place->state;
}
TP_INLINE bool tp_block_is_sampled(const TpSampling &sampling) {
  if (!sampling.counts || (blockIdx.x & sampling.others) != sampling.first) return false;
  if (!sampling.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)sampling.counts[1]++;
    chosen = turn < 64 || turn * 0x9e3779b9u >> 27 == 0;
  }
  return tp_emulator::barrier_vote(chosen) > 0;
}

template <int WARPS, int STATES>
static void tp_sample(TpSampling sampling, const TpState *states, uint32_t *counts, int lane) {
  if (!tp_emulator::is_shared(counts) || !tp_emulator::is_shared(counts + WARPS * STATES - 1))
    tp_emulator::fail("counts outside of shared memory");
  uint32_t looks = 0;
  if (lane < WARPS)
    for (int at = 0; at < STATES; ++at) counts[lane * STATES + at] = 0;
  for (;;) {
    tp_emulator::yield();
    const uint32_t state = lane < WARPS ? tp_published(states + lane) : TP_STATE_ENDED;
    if (state != TP_STATE_ENDED && state >= STATES) tp_emulator::fail("a state that is none");
    if (state < STATES) ++counts[lane * STATES + state];
    if (__all_sync(TP_ALL_LANES, state == TP_STATE_ENDED)) break;
    ++looks;
  }
  if (lane == 0) sampling.counts[0] += looks;
  if (lane < WARPS)
    for (int at = 0; at < STATES; ++at)
      sampling.counts[2 + lane * STATES + at] += counts[lane * STATES + at];
}
