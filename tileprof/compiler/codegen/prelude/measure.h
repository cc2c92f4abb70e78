// Records of sites; only in kernels that are measured.  The record layout stands before this file.
#pragma once
#include <time.h>
#include "base.h"

static inline void tp_record(TpWorker *worker, uint32_t tag) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  if (worker->records)
    tp_note((TpHeader *)worker->records, (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec,
            (uint32_t)worker->block, tag);
}
