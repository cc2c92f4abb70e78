// What a kernel has to say to the host: the failure that stopped it, and what it printed.
// The layout is that of runtime/cuda/report.py.  The buffer is mapped host memory: it is readable
// after a trap, which ends the context.  A block is known by its number in the grid.
#pragma once
#include "base.cuh"

#define TP_REPORT_VALUES 12

struct TpReport {
  int32_t failed;  // which way a thread has claimed the failure first, 0 while none has
  int32_t place;
  int64_t block, thread;
  int64_t values[TP_REPORT_VALUES];  // indices, then the point of the parallel loops
  uint64_t cursor, capacity;         // bytes of messages wanted so far, bytes that there are
  uint64_t lost;                     // messages that found no room
  int32_t *noted;                    // set to 1 after `failed`, by launches that go on
};
enum TpFailed { TP_STOPPED = 1, TP_NOTED = 2 };
// A message: this head, then 8 bytes for each word.
struct TpMessage {
  int64_t block;
  int32_t place, thread, words, ready;
};

// Says that the launch has failed; the first thread that comes is the one that is told of.  It goes
// on: a call that does not return would be a way that threads of a warp part on, and the compiler
// then keeps nothing of the kernel in uniform registers.
template <class... Values>
TP_INLINE void tp_note(TpReport *report, int32_t place, Values... values) {
  static_assert(sizeof...(values) <= TP_REPORT_VALUES, "too many values");
  if (atomicCAS((int *)&report->failed, 0, TP_NOTED) != 0) return;
  const int64_t held[sizeof...(values) + 1] = {(int64_t)values..., 0};
  TP_UNROLL_ALL
  for (int i = 0; i < (int)sizeof...(values); i++) report->values[i] = held[i];
  report->block = blockIdx.x;
  report->thread = threadIdx.x;
  report->place = place;
  *report->noted = 1;
}

// Ends the launch; the first thread that comes is the one that is told of.
template <class... Values>
static __device__ __noinline__ void tp_fail(TpReport *report, int32_t place, Values... values) {
  static_assert(sizeof...(values) <= TP_REPORT_VALUES, "too many values");
  const int before = atomicCAS((int *)&report->failed, 0, TP_STOPPED);
  if (before == 0) {
    const int64_t held[sizeof...(values) + 1] = {(int64_t)values..., 0};
    for (int i = 0; i < (int)sizeof...(values); i++) report->values[i] = held[i];
    report->block = blockIdx.x;
    report->thread = threadIdx.x;
    report->place = place;
    __threadfence_system();
  }
  // What was noted before stays what is told; whoever noted it has not stopped the launch.
  if (before != TP_STOPPED) __trap();
  // The others wait for the trap: going on would work with what the assertion excludes.
  for (;;) __nanosleep(1000);
}

// Room for a message of `words` words; null where there is none left.  The caller fills it.
static __device__ __noinline__ int64_t *tp_print_begin(TpReport *report, int32_t place, int words) {
  const uint64_t bytes = sizeof(TpMessage) + 8ull * words;
  const uint64_t at = atomicAdd(&report->cursor, bytes);
  if (at + bytes > report->capacity) {
    atomicAdd(&report->lost, 1ull);
    return nullptr;
  }
  TpMessage *head = (TpMessage *)((char *)(report + 1) + at);
  head->block = blockIdx.x;
  head->place = place;
  head->thread = threadIdx.x;
  head->words = words;
  head->ready = 1;
  return (int64_t *)(head + 1);
}
// The bits of a value, in the low bytes of a word.
template <class T> TP_INLINE int64_t tp_print_word(T value) {
  if constexpr (sizeof(T) == 8)
    return tp_bit_cast<int64_t>(value);
  else if constexpr (sizeof(T) == 4)
    return tp_bit_cast<uint32_t>(value);
  else if constexpr (sizeof(T) == 2)
    return tp_bit_cast<uint16_t>(value);
  else
    return tp_bit_cast<uint8_t>(value);
}
// A value after the point of the parallel loops around it.
template <class T, class... Point>
TP_INLINE void tp_print(TpReport *report, int32_t place, T value, Point... point) {
  int64_t *out = tp_print_begin(report, place, sizeof...(point) + 1);
  if (!out) return;
  const int64_t at[sizeof...(point) + 1] = {(int64_t)point..., tp_print_word(value)};
  for (int i = 0; i <= (int)sizeof...(point); i++) out[i] = at[i];
}
