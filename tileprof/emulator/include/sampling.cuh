// Where warps are: time is the number of marks, and each is a point.
#pragma once
#include "base.cuh"

struct TpSampling {
  uint64_t *counts;
  uint32_t others, first, shift, seed;
  uint64_t turns;
};
struct TpCycles {
  uint32_t cycles, clock;
};
struct TpSampled {
  TpCycles *counts;
  uint32_t state;
};

TP_INLINE bool tp_block_is_sampled(const TpSampling &sampling) {
  if (!sampling.counts || (blockIdx.x & sampling.others) != sampling.first) return false;
  if (!sampling.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)sampling.counts[0]++;
    chosen = turn < 64 || turn * 0x9e3779b9u >> 27 == 0;
  }
  return tp_emulator::barrier_vote(chosen) > 0;
}
TP_INLINE TpSampled tp_sampled_alone(TpCycles *counts, int states) {
  if (!tp_emulator::is_shared(counts) || !tp_emulator::is_shared(counts + states - 1))
    tp_emulator::fail("counts outside of shared memory");
  for (int at = 0; at < states; ++at) counts[at] = {0, 0};
  return {counts, 0};
}
TP_INLINE TpSampled tp_sampled(TpCycles *counts, int states) {
  TpSampled s = {nullptr, 0};
  tp_emulator::meet("tp_sampled", nullptr, nullptr);
  if (threadIdx.x % 32 == 0) s = tp_sampled_alone(counts, states);
  return s;
}
TP_INLINE void tp_sample(TpSampled &s, uint32_t state) {
  tp_emulator::glance();
  if (!s.counts) return;
  ++s.counts[s.state].cycles;
  s.state = state;
}
TP_INLINE void tp_sampled_end(TpSampled &s, const TpSampling &sampling, int states) {
  tp_sample(s, 0);
  if (!s.counts) return;
  for (int at = 0; at < states; ++at)
    sampling.counts[1 + threadIdx.x / 32 * states + at] += s.counts[at].cycles;
}
