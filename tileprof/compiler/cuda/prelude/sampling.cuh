// Where warps are, looked at now and then by a warp that has nothing else to do.
// Each warp keeps the state that it is in in 8 bytes of shared memory; the sampler counts what it
// sees by warp and state, in shared memory too, and adds its counts to the kernel's when all have
// ended.  The states' numbers are the kernel's own; the one below is for warps that have ended.
#pragma once
#include "base.cuh"

#define TP_STATE_ENDED 0xffffffffu

// What the host gives to a launch (instrument/samples.py).
struct TpSampling {
  uint64_t *counts;       // looks, then [warps][states]; 0: nothing is sampled
  uint32_t every, first;  // blocks whose number is `first` modulo `every` are looked at
  uint32_t period;        // mean time between two looks in ns
  uint32_t seed;          // of the times of looks
};
// What a warp says; in shared memory, one for each warp.
struct TpState {
  uint32_t state, clock;
};

// All lanes write the same words, which costs what one lane's write does.  The clock is there for
// what it does to the code: ptxas moves arithmetic and global accesses across a volatile store, but
// not across the reading of a clock that is used.
TP_INLINE void tp_publish(TpState *place, uint32_t state) {
  uint32_t clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
  asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %2};"
               ::"r"(tp_shared_address(place)), "r"(state), "r"(clock) : "memory");
}
TP_INLINE uint32_t tp_published(const TpState *place) {
  return *(const volatile uint32_t *)&place->state;
}

TP_INLINE bool tp_is_sampled(const TpSampling &sampling) {
  return sampling.counts && blockIdx.x % sampling.every == sampling.first;
}

// By one whole warp: looks until all of the first `WARPS` warps have ended.  The time to the next
// look is drawn evenly from half the period to one and a half of it, so that a loop of the kernel
// cannot keep in step with the looks.
template <int WARPS, int STATES>
TP_INLINE void tp_sample(TpSampling sampling, const TpState *states, uint32_t *counts,
                         int lane) {
  static_assert(WARPS <= 32, "a lane for each warp");
  uint32_t looks = 0;
  uint32_t chance = sampling.seed ^ (blockIdx.x * 0x9E3779B9u);
  // Loops stay loops: registers of a producer group are few.
  TP_NO_UNROLL
  for (int at = 0; at < STATES; ++at)
    if (lane < WARPS) counts[lane * STATES + at] = 0;
  TP_NO_UNROLL
  for (;;) {
    chance = chance * 1664525u + 1013904223u;
    __nanosleep(sampling.period / 2 + __umulhi(chance, sampling.period));
    const uint32_t state = lane < WARPS ? tp_published(states + lane) : TP_STATE_ENDED;
    if (state < STATES) ++counts[lane * STATES + state];
    if (__all_sync(TP_ALL_LANES, state == TP_STATE_ENDED)) break;
    ++looks;
  }
  if (lane == 0) atomicAdd(sampling.counts, (uint64_t)looks);
  TP_NO_UNROLL
  for (int at = 0; at < STATES; ++at)
    if (lane < WARPS && counts[lane * STATES + at])
      atomicAdd(sampling.counts + 1 + lane * STATES + at, (uint64_t)counts[lane * STATES + at]);
}
