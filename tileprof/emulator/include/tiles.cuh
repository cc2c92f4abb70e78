// The counter of tiles: other blocks count before and after, not between.
#pragma once
#include "base.cuh"

TP_INLINE int tp_next_tile(uint32_t *counter, int total) {
  tp_emulator::check_aligned(counter, 4, "atomic");
  tp_emulator::linger();
  const int taken = (int)*counter;
  *counter = taken >= total - 1 ? 0 : (uint32_t)taken + 1;
  tp_emulator::linger();
  return taken < total - (int)gridDim.x ? taken + (int)gridDim.x : total;
}
