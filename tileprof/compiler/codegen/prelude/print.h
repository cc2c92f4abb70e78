// What a kernel prints: raw values that the host formats, with the place that printed them.
#pragma once
#include "tiles.h"

// A value after the point of the parallel loops around it.
template <class T, class... Point>
static inline void tp_print(TpWorker *worker, int32_t place, T value, Point... point) {
  const int64_t at[sizeof...(point) + 1] = {(int64_t)point..., 0};
  void *out = worker->run->begin_print(worker->run, worker->block, place, sizeof at);
  if (!out) return;
  __builtin_memcpy(out, at, sizeof at - 8);
  __builtin_memcpy((char *)out + sizeof at - 8, &value, sizeof(T));
  worker->run->end_print(worker->run);
}

template <int DIM, class T, int R>
static inline T *tp_gather(T *out, const TpTile<T, R> &tile, const T *from) {
  for (int64_t i = 0; i < tile.there[DIM]; i++, from += tile.stride[DIM])
    if constexpr (DIM == R - 1)
      *out++ = *from;
    else
      out = tp_gather<DIM + 1>(out, tile, from);
  return out;
}
// A whole buffer, row by row.
template <class T, int R>
static inline void tp_print_tile(TpWorker *worker, int32_t place, const TpTile<T, R> &tile) {
  uint64_t bytes = sizeof(T);
  for (int d = 0; d < R; d++) bytes *= tile.there[d];
  void *out = worker->run->begin_print(worker->run, worker->block, place, bytes);
  if (!out) return;
  tp_gather<0>((T *)out, tile, tile.data);
  worker->run->end_print(worker->run);
}
