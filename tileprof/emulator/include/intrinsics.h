// CUDA's own functions that headers of the prelude call: votes, shuffles, reductions of a warp.
#pragma once
#include "base.cuh"

struct TpLane {
  uint32_t value, got;
  int by;
};
typedef uint32_t (*TpLaneWork)(const TpLane *const *lanes, int lane);

template <TpLaneWork WORK> static void tp_every_lane(void **brought) {
  const TpLane *const *lanes = (const TpLane *const *)brought;
  for (int lane = 0; lane < 32; lane++) ((TpLane *)brought[lane])->got = WORK(lanes, lane);
}
template <TpLaneWork WORK> TP_INLINE uint32_t tp_in_warp(const char *what, uint32_t value, int by) {
  TpLane own = {value, 0, by};
  tp_emulator::meet(what, &own, tp_every_lane<WORK>);
  return own.got;
}
#define TP_INTRINSIC(NAME, WORK) \
  static inline uint32_t NAME(uint32_t, uint32_t v, int by) { return tp_in_warp<WORK>(#NAME, v, by); }
#define TP_OF_LANE(NAME, SOURCE)                                                  \
  static inline uint32_t tp_lane_##NAME(const TpLane *const *lanes, int lane) {   \
    const int by = lanes[lane]->by, source = SOURCE;                              \
    return lanes[source >= 0 && source < 32 ? source : lane]->value;              \
  }                                                                               \
  TP_INTRINSIC(NAME, tp_lane_##NAME)
TP_OF_LANE(__shfl_xor_sync, lane ^ (by & 31))
TP_OF_LANE(__shfl_up_sync, lane - by)
TP_OF_LANE(__shfl_down_sync, lane + by)
TP_OF_LANE(__shfl_sync, by & 31)
#undef TP_OF_LANE

static inline uint32_t tp_ballot_all(const TpLane *const *lanes, int) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; i++) bits |= (uint32_t)(lanes[i]->value != 0) << i;
  return bits;
}
TP_INLINE uint32_t __ballot_sync(uint32_t, int x) {
  return tp_in_warp<tp_ballot_all>("__ballot_sync", x, 0);
}
TP_INLINE int __any_sync(uint32_t mask, int x) { return __ballot_sync(mask, x) != 0; }
TP_INLINE int __all_sync(uint32_t mask, int x) { return __ballot_sync(mask, x) == mask; }

#define TP_REDUCTION(NAME, TYPE, JOINED)                                            \
  static inline uint32_t tp_all_##NAME##TYPE(const TpLane *const *lanes, int) {     \
    TYPE a = (TYPE)lanes[0]->value;                                                 \
    for (int i = 1; i < 32; i++) {                                                  \
      const TYPE b = (TYPE)lanes[i]->value;                                         \
      a = JOINED;                                                                   \
    }                                                                               \
    return (uint32_t)a;                                                             \
  }                                                                                 \
  TP_INLINE TYPE NAME(uint32_t, TYPE x) {                                           \
    return (TYPE)tp_in_warp<tp_all_##NAME##TYPE>(#NAME, (uint32_t)x, 0);            \
  }
#define TP_REDUCTIONS(NAME, JOINED) TP_REDUCTION(NAME, int32_t, JOINED) TP_REDUCTION(NAME, uint32_t, JOINED)
TP_REDUCTIONS(__reduce_add_sync, a + b)
TP_REDUCTIONS(__reduce_max_sync, a > b ? a : b)
TP_REDUCTIONS(__reduce_min_sync, a < b ? a : b)
TP_REDUCTIONS(__reduce_and_sync, a & b)
TP_REDUCTIONS(__reduce_or_sync, a | b)
TP_REDUCTIONS(__reduce_xor_sync, a ^ b)
#undef TP_REDUCTIONS
#undef TP_REDUCTION
#undef TP_INTRINSIC
