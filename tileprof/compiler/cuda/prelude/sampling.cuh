// Where warps are, looked at now and then by a warp that has nothing else to do.
// Each warp keeps the state that it is in in 8 bytes of shared memory; the sampler counts what it
// sees by warp and state, in shared memory too, and adds its counts to the kernel's when all have
// ended.  The states' numbers are the kernel's own; the one below is for warps that have ended.
#pragma once
#include "base.cuh"

#define TP_STATE_ENDED 0xffffffffu

// What the host gives to a launch (instrument/samples.py).
struct TpSampling {
  uint64_t *counts;       // looks, turns, then [warps][states]; 0: nothing is sampled
  uint32_t others, first;  // blocks whose number is `first` in these bits are looked at
  uint32_t period;        // mean time between two looks in ns
  uint32_t seed;          // of the times of looks
  uint64_t turns;         // of these blocks only the first 64 and then one in 32; 0: all
};
// What a warp says; in shared memory, one for each warp.
struct TpState {
  uint32_t state, unused, clocks[2];
};
// The two clocks that a warp read last.
struct TpClocks {
  uint32_t before, after;
};

// All lanes write the same words, which costs what one lane's write does.  The clocks are there for
// what they do to the code: ptxas moves arithmetic and global accesses across a volatile store, but
// neither these nor the store across the reading of a clock that is used.  The next store uses them,
// so that no instruction waits until they are there.
TP_INLINE void tp_publish(TpState *place, uint32_t state, TpClocks &clocks) {
  TpClocks now;
  asm volatile("mov.u32 %0, %%clock;\n"
               "st.volatile.shared.v4.u32 [%2], {%3, %3, %4, %5};\n"
               "mov.u32 %1, %%clock;"
               : "=&r"(now.before), "=&r"(now.after)
               : "r"(tp_shared_address(place)), "r"(state), "r"(clocks.before), "r"(clocks.after)
               : "memory");
  clocks = now;
}
TP_INLINE void tp_publish_end(TpState *place, TpClocks clocks) {
  tp_publish(place, TP_STATE_ENDED, clocks);
  *(volatile uint32_t *)&place->clocks[0] = clocks.before;
  *(volatile uint32_t *)&place->clocks[1] = clocks.after;
}
TP_INLINE uint32_t tp_published(const TpState *place) {
  return *(const volatile uint32_t *)&place->state;
}

// Asked once by all threads of a block, for all of which the answer is the same: whether it runs
// the code with marks.  All launches of a captured kernel have the same argument, so their blocks
// take turns, chosen by a hash, since a graph's kernels come in order.
TP_INLINE bool tp_block_is_sampled(const TpSampling &sampling) {
  if (!sampling.counts || (blockIdx.x & sampling.others) != sampling.first) return false;
  if (!sampling.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)atomicAdd(sampling.counts + 1, (uint64_t)1);
    chosen = turn < 64 || turn * 0x9e3779b9u >> 27 == 0;
  }
  return __syncthreads_or(chosen);
}
// A number below `limit`, each as likely as the others.
TP_INLINE uint32_t tp_chance(uint32_t &seed, uint32_t limit) {
  seed = seed * 1664525u + 1013904223u;
  return __umulhi(seed, limit);
}

// By one whole warp: looks until all of the first `WARPS` warps have ended.  The time to the next
// look is drawn evenly from half the period to one and a half of it, so that a loop of the kernel
// cannot keep in step with the looks.  The first look is where it would be if looking had begun
// long ago, so that the begin of a block is seen as often as the rest, however short the block.
template <int WARPS, int STATES>
TP_INLINE void tp_sample(TpSampling sampling, const TpState *states, uint32_t *counts,
                         int lane) {
  static_assert(WARPS <= 32, "a lane for each warp");
  uint32_t looks = 0;
  const uint32_t period = sampling.period;
  uint32_t seed = sampling.seed ^ (blockIdx.x * 0x9E3779B9u);
  uint32_t pause = tp_chance(seed, period);
  if (pause < period / 2)
    pause = tp_chance(seed, period / 2);
  else
    pause = period / 2 + tp_min(tp_chance(seed, period), tp_chance(seed, period));
  // Loops stay loops: registers of a producer group are few.
  TP_NO_UNROLL
  for (int at = 0; at < STATES; ++at)
    if (lane < WARPS) counts[lane * STATES + at] = 0;
  TP_NO_UNROLL
  for (;;) {
    __nanosleep(pause);
    pause = period / 2 + tp_chance(seed, period);
    const uint32_t state = lane < WARPS ? tp_published(states + lane) : TP_STATE_ENDED;
    if (state < STATES) ++counts[lane * STATES + state];
    if (__all_sync(TP_ALL_LANES, state == TP_STATE_ENDED)) break;
    ++looks;
  }
  if (lane == 0) atomicAdd(sampling.counts, (uint64_t)looks);
  TP_NO_UNROLL
  for (int at = 0; at < STATES; ++at)
    if (lane < WARPS && counts[lane * STATES + at])
      atomicAdd(sampling.counts + 2 + lane * STATES + at, (uint64_t)counts[lane * STATES + at]);
}
