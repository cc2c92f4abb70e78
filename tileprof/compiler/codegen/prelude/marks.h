// Marks of steps; only in kernels that are sampled.
#pragma once
#include "base.h"

// From here on the worker is at a step.  The fences are for the compiler: no work moves across.
TP_INLINE void tp_mark(TpWorker *worker, uint32_t state) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  __atomic_store_n(worker->state, state, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
