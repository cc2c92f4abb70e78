// Where warps are, at points of time a period apart: each warp counts for itself.  At a mark it
// knows how many points lay in the state that it leaves, and adds them to the count of that state in
// shared memory; at its end it adds its counts to the kernel's.  So nobody else has to look, no
// block waits for a look, and the points of a block are as many as its time says, however short it
// is.  The states' numbers are the kernel's own.
#pragma once
#include "base.cuh"

// What the host gives to a launch (instrument/samples.py).
struct TpSampling {
  uint64_t *counts;        // turns, then [warps][states]; 0: nothing is sampled
  uint32_t others, first;  // blocks whose number is `first` in these bits are sampled
  uint32_t shift;          // the period in cycles is two to this power
  uint32_t seed;           // of the warps' first points
  uint64_t turns;          // of these blocks only the first 64 and then one in 32; 0: all
};
// The thread that counts for a warp; in others no point is ever reached.
struct TpSampled {
  uint32_t clock;  // at the last mark
  uint32_t part;   // cycles from the last point to it
  uint32_t place;  // of the count of the state since then
  uint32_t row;    // of the warp's counts
  uint32_t shift, mask;
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
// By one thread, which counts for its warp.  Where in a period it begins is drawn, so that what has
// a period itself does not fall together with the points.
TP_INLINE TpSampled tp_sampled_alone(const TpSampling &sampling, uint32_t *counts, int states) {
  TP_NO_UNROLL
  for (int at = 0; at < states; ++at) counts[at] = 0;
  const uint32_t drawn =
      (sampling.seed ^ blockIdx.x * 0x9e3779b9u ^ threadIdx.x * 0x85ebca6bu) * 0xc2b2ae35u;
  const uint32_t row = tp_shared_address(counts), mask = (1u << sampling.shift) - 1;
  return {tp_sample_clock(), (drawn >> 8) & mask, row, row, sampling.shift, mask};
}
// By a whole warp; its lane 0 counts, what others do comes to nothing.
TP_INLINE TpSampled tp_sampled(const TpSampling &sampling, uint32_t *counts, int states) {
  const uint32_t row = tp_shared_address(counts);
  TpSampled s = {tp_sample_clock(), 0, row, row, 31, 0};
  if (threadIdx.x % 32 == 0) s = tp_sampled_alone(sampling, counts, states);
  __syncwarp();
  return s;
}
// The warp is in this state from here on.  No branch: that could keep matrix products from
// overlapping.
TP_INLINE void tp_sample(TpSampled &s, uint32_t state) {
  const uint32_t now = tp_sample_clock();
  s.part += now - s.clock;
  // An addition of its own would be preceded by one over the warp, with branches.
  asm volatile("{ .reg .pred some;\n"
               ".reg .b32 count;\n"
               "setp.ne.u32 some, %1, 0;\n"
               "@some ld.volatile.shared.u32 count, [%0];\n"
               "@some add.u32 count, count, %1;\n"
               "@some st.volatile.shared.u32 [%0], count; }" ::"r"(s.place),
               "r"(s.part >> s.shift));
  s.part &= s.mask;
  s.clock = now;
  s.place = s.row + 4 * state;
}
// By the threads that began.
TP_INLINE void tp_sampled_end(TpSampled &s, const TpSampling &sampling, const uint32_t *counts,
                              int states) {
  tp_sample(s, 0);
  if (s.shift == 31) return;
  uint64_t *const all = sampling.counts + 1 + threadIdx.x / 32 * states;
  TP_NO_UNROLL
  for (int at = 0; at < states; ++at)
    if (const uint32_t count = *(const volatile uint32_t *)&counts[at])
      atomicAdd(all + at, (uint64_t)count);
}
