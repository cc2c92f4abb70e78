// Tiles that persistent blocks take when they are free.
#pragma once
#include "base.cuh"

// The next tile that no block of the launch has taken; `total` where none is left.  Each block
// begins with the tile of its own number and asks once for each that it has done, so that the
// counter is asked `total` times in a launch, and wraps to 0 with the last.
TP_INLINE int tp_next_tile(uint32_t *counter, int total) {
  const int taken = (int)atomicInc(counter, (uint32_t)total - 1);
  return taken < total - (int)gridDim.x ? taken + (int)gridDim.x : total;
}
