// What a mark adds to the warp that makes it: by turns a chain of dependent operations without marks
// and the same chain with them; `calibration.py` reads the records.
#include "records.cuh"

// PARTS times LINKS operations a turn, each of which waits for the one before; behind each of the
// first MARKS parts a mark.
template <int MARKS> TP_INLINE float chain(TpWarp &w, float x, float step) {
  TP_NO_UNROLL
  for (int turn = 0; turn < TURNS; turn++) {
    TP_UNROLL_ALL
    for (int part = 0; part < PARTS; part++) {
      TP_UNROLL_ALL
      for (int link = 0; link < LINKS; link++) x = __builtin_fmaf(x, step, step);
      if (part < MARKS) tp_mark(w, WITHIN);
    }
  }
  return x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    calibrate_marks(const __grid_constant__ TpRecording recording) {
  TpWarp w = tp_begin(recording);
  // Known only here, and never below 0.
  const float step = 1.0f / (float)(recording.mask + 1u);
  float x = step;
  TP_NO_UNROLL
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    tp_mark(w, CLEAN);
    x = chain<0>(w, x, step);
    tp_mark(w, MARKED);
    x = chain<PARTS>(w, x, step);
    tp_mark(w, AFTER);
  }
  if (x < 0) tp_mark(w, AFTER);
  tp_end(w);
}
