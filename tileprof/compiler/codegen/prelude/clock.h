// The clock of the thread pool.
#pragma once
#include <stdint.h>
#include <time.h>

static int64_t now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000ll + at.tv_nsec;
}
