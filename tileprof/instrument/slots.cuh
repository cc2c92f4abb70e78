// What a warp does with its slot of the arena; `slot_layout.py` has the layout, and
// `slots.py` says what it means.
#pragma once
#include "base.cuh"

// STRUCTS
#define TP_ROUND 0xffffffffu

// The thread that records for a warp; `records` is 0 in all others.
struct TpWarp {
  TpRecording recording;
  uint64_t records;      // address, at a multiple of all the slot's records
  uint32_t made, limit;  // in bytes
};

TP_INLINE uint64_t tp_clock() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
TP_INLINE uint64_t tp_nanoseconds() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}
TP_INLINE uint32_t tp_multiprocessor() {
  uint32_t number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}
// What was there before; by one thread, so nothing is gained by adding up over the warp first.
TP_INLINE uint64_t tp_count(uint64_t *at, uint64_t by) {
  uint64_t before;
  asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(by) : "memory");
  return before;
}

// Asked once by all threads of a block, for all of which the answer is the same: whether it runs
// the code with marks.  All launches of a captured kernel have the same argument, so they take
// turns: of its blocks the first 64 record and then one in 16, chosen by a hash, since a graph's
// kernels come in order.
TP_INLINE bool tp_block_is_recorded(const TpRecording &recording) {
  if (!recording.arena || (blockIdx.x & recording.others) != recording.first) return false;
  if (!recording.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)tp_count((uint64_t *)recording.turns, 1);
    chosen = turn < 64 || turn * 0x9e3779b9u >> 28 == 0;
  }
  return __syncthreads_or(chosen);
}
// A ticket, or none where the arena is full.  First a claim is admitted, then it takes a ticket: of
// claims that are refused no ticket is left over, and both are one addition, however many claim at
// once.  `admitted` is never below the number of claims that took a ticket or will, so of those
// that see less than `released + slots` in it there are never more than free slots; a claim about
// to be refused can only make others be refused.  An old `released` does so too.
TP_INLINE bool tp_claim(TpArena *arena, uint64_t *ticket) {
  const uint64_t released = *(volatile uint64_t *)&arena->released;
  if (tp_count(&arena->admitted, 1) - released >= arena->slots) {
    tp_count(&arena->admitted, ~(uint64_t)0);
    tp_count(&arena->lost, 1);
    return false;
  }
  *ticket = tp_count(&arena->claimed, 1);
  return true;
}
// The slot of a warp that has one.
TP_INLINE TpSlot *tp_slot(const TpWarp &w) {
  TpArena *const arena = (TpArena *)w.recording.arena;
  const uint32_t before = (uint32_t)(w.records - w.recording.arena) - arena->records_at;
  return (TpSlot *)(arena + 1) + (before >> __popc(w.recording.mask));
}
TP_INLINE TpWarp tp_claimed(const TpRecording &recording) {
  TpWarp w = {recording, 0, 0, 0};
  const uint32_t warp = threadIdx.x / 32;
  uint64_t ticket;
  TpArena *const arena = (TpArena *)recording.arena;
  if (!(recording.warps >> (warp < 31 ? warp : 31) & 1) || !tp_claim(arena, &ticket)) return w;
  const uint32_t place = (uint32_t)ticket & (arena->slots - 1), size = recording.mask + 1;
  TpSlot *const slot = (TpSlot *)(arena + 1) + place;
  slot->tag = recording.tag;
  slot->block = blockIdx.x;
  slot->warp = (uint16_t)warp;
  slot->flags = recording.limit == TP_ROUND;
  slot->sm = tp_multiprocessor();
  slot->ticket = (uint32_t)ticket;
  w.records = recording.arena + arena->records_at + (uint64_t)place * size;
  w.limit = recording.limit == TP_ROUND ? ~7u : 8 * tp_min(recording.limit, size / 8);
  return w;
}
TP_INLINE void tp_started(const TpWarp &w) {
  if (!w.records) return;
  TpSlot *const slot = tp_slot(w);
  slot->begin_clock = tp_clock();
  slot->begin_ns = tp_nanoseconds();
}
// By one thread, which records for its warp until it calls `tp_end`.
TP_INLINE TpWarp tp_begin_alone(const TpRecording &recording) {
  const TpWarp w = tp_claimed(recording);
  tp_started(w);
  return w;
}
// By a whole warp; its lane 0 records.
TP_INLINE TpWarp tp_begin(const TpRecording &recording) {
  TpWarp w = {recording, 0, 0, 0};
  if (threadIdx.x % 32 == 0) w = tp_begin_alone(recording);
  __syncwarp();
  return w;
}
// By a whole block: its warps begin together, though some wait for their slots longer than others.
TP_INLINE TpWarp tp_begin_block(const TpRecording &recording) {
  TpWarp w = {recording, 0, 0, 0};
  if (threadIdx.x % 32 == 0) w = tp_claimed(recording);
  __syncthreads();
  if (threadIdx.x % 32 == 0) tp_started(w);
  __syncwarp();
  return w;
}
// The warp is in this state from here on.  Six instructions (sm_80: seven), and no branch: that
// could keep matrix products from overlapping.
TP_INLINE void tp_mark(TpWarp &w, uint32_t state) {
  asm volatile("{ .reg .pred fits;\n"
               ".reg .b32 clock, low, high;\n"
               ".reg .b64 at;\n"
               "mov.u32 clock, %%clock;\n"
               "setp.lt.u32 fits, %0, %1;\n"
               "mov.b64 {low, high}, %2;\n"
               "lop3.b32 low, %0, %3, low, 0xea;\n"  // (%0 & %3) | low
               "mov.b64 at, {low, high};\n"
               "@fits st.global.v2.b32 [at], {clock, %4};\n"
               "add.u32 %0, %0, 8; }"
               : "+r"(w.made)
               : "r"(w.limit), "l"(w.records), "r"(w.recording.mask), "r"(state)
               : "memory");
}
// What was written is there for the host once `ready` is.
TP_INLINE void tp_end(TpWarp &w) {
  if (!w.records) return;
  const uint64_t clock = tp_clock(), ns = tp_nanoseconds();
  const uint32_t limit = tp_min(w.limit, w.recording.mask + 1);
  TpSlot *const slot = tp_slot(w);
  slot->end_clock = clock;
  slot->end_ns = ns;
  slot->wanted = w.made / 8;
  slot->kept = tp_min(w.made, limit) / 8;
  const uint32_t ready = slot->ticket + 1;
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&slot->ready), "r"(ready) : "memory");
  w.records = 0;
}
