// Where warps are, at points of time a period apart: each warp counts for itself.  At a mark it
// adds the cycles since the last one to those of the state that it leaves, in shared memory; at its
// end it adds to the kernel's counts how many points lay in each state.  So nobody else has to look,
// no block waits for a look, and the points of a block are as many as its time says, however short
// it is.  The states' numbers are the kernel's own.  Cycles have 32 bits: a block that is in one
// state for more than two seconds in all is counted too low.
#pragma once
#include "base.cuh"

// What the host gives to a launch (instrument/decode/samples.py).
struct TpSampling {
  uint64_t *counts;        // turns, then [warps][states]; 0: nothing is sampled
  uint32_t others, first;  // blocks whose number is `first` in these bits are sampled
  uint32_t shift;          // the period in cycles is two to this power
  uint32_t seed;           // of the warps' first points
  uint64_t turns;          // of these blocks only the first 64 and then one in 32; 0: all
};
// A state of a warp, in shared memory.  The clock at its end is there because a store takes it from
// where CS2R puts it: else ptxas may read it by S2UR, for which the warps that leave a barrier queue.
struct TpCycles {
  uint32_t cycles, clock;
};
// All threads of a warp hold and write the same; or one does, which runs alone.
struct TpSampled {
  uint32_t clock;  // at the last mark
  uint32_t place;  // of the state since then
  uint32_t held;   // its cycles until then
  uint32_t row;    // of the warp's states
};

// Asked once by all threads of a block, for all of which the answer is the same: whether it runs
// the code with marks.  All launches of a captured kernel have the same argument, so their blocks
// take turns, chosen by a hash, since a graph's kernels come in order.
TP_INLINE bool tp_block_is_sampled(const TpSampling &sampling) {
  if (!sampling.counts || (blockIdx.x & sampling.others) != sampling.first) return false;
  if (!sampling.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)atomicAdd(sampling.counts, (uint64_t)1);
    chosen = turn < 64 || turn * 0x9e3779b9u >> 27 == 0;
  }
  return __syncthreads_or(chosen);
}

// What arithmetic comes before stays before, and what comes after, after: ptxas does not move it
// across the reading of a clock.
TP_INLINE uint32_t tp_sample_clock() {
  uint32_t clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
  return clock;
}
// Of the threads that are here, one.
TP_INLINE bool tp_first_of_warp() {
  return (threadIdx.x & 31) == __ffs(__activemask()) - 1;
}
TP_INLINE uint32_t tp_sampled_cycles(uint32_t place) {
  uint32_t cycles;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(cycles) : "r"(place));
  return cycles;
}
TP_INLINE void tp_sampled_zero(TpCycles *cycles, int states) {
  TP_NO_UNROLL
  for (int at = 0; at < states; ++at) cycles[at] = {0, 0};
}
// By one thread, which counts for its warp.
TP_INLINE TpSampled tp_sampled_alone(TpCycles *cycles, int states) {
  tp_sampled_zero(cycles, states);
  const uint32_t row = tp_shared_address(cycles);
  return {tp_sample_clock(), row, 0, row};
}
// By a whole warp.
TP_INLINE TpSampled tp_sampled(TpCycles *cycles, int states) {
  if (threadIdx.x % 32 == 0) tp_sampled_zero(cycles, states);
  __syncwarp();
  const uint32_t row = tp_shared_address(cycles);
  return {tp_sample_clock(), row, 0, row};
}
// The warp is in this state from here on.  No branch: that could keep matrix products from
// overlapping; and nothing that waits for memory, for the cycles are read a mark ahead.
TP_INLINE void tp_sample(TpSampled &s, uint32_t state) {
  const uint32_t now = tp_sample_clock();
  asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %2};" ::"r"(s.place),
               "r"(s.held + now - s.clock), "r"(now));
  s.place = s.row + sizeof(TpCycles) * state;
  s.held = tp_sampled_cycles(s.place);
  s.clock = now;
}
// By the threads that began.  What lies between two points falls to one of them by a number that is
// drawn, so that short states are seen as often as their time says.
TP_INLINE void tp_sampled_end(TpSampled &s, const TpSampling &sampling, int states) {
  tp_sample(s, 0);
  uint32_t chance = sampling.seed ^ blockIdx.x * 0x9e3779b9u ^ threadIdx.x / 32 * 0x85ebca6bu;
  uint64_t *const all = sampling.counts + 1 + threadIdx.x / 32 * states;
  TP_NO_UNROLL
  for (int at = 0; at < states; ++at) {
    chance = (chance ^ chance >> 15) * 0xc2b2ae35u + 0x27d4eb2fu;
    const uint64_t drawn = chance >> 4 & ((1u << sampling.shift) - 1);
    const uint64_t points = (tp_sampled_cycles(s.row + sizeof(TpCycles) * at) + drawn) >> sampling.shift;
    if (points && tp_first_of_warp()) atomicAdd(all + at, points);
  }
}
