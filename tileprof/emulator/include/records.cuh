// Records of warps: one thread runs at a time, so a claim needs no atomics, and time is a count of
// the questions for it.  `generated_records.h` has the structs, as `instrument/slots.py` prints them.
#pragma once
#include "base.cuh"

#include "generated_records.h"

#define TP_ROUND 0xffffffffu

struct TpWarp {
  TpRecording recording;
  TpSlot *slot;
  TpRecord *records;
};

static uint64_t tp_time = 0;

TP_INLINE bool tp_block_is_recorded(const TpRecording &recording) {
  if (!recording.arena || (blockIdx.x & recording.others) != recording.first) return false;
  if (!recording.turns) return true;
  bool chosen = false;
  if (threadIdx.x == 0) {
    const uint32_t turn = (uint32_t)(*(uint64_t *)recording.turns)++;
    chosen = turn < 64 || turn * 0x9e3779b9u >> 28 == 0;
  }
  return tp_emulator::barrier_vote(chosen) > 0;
}
TP_INLINE TpWarp tp_begin_alone(const TpRecording &recording) {
  TpWarp w = {recording, nullptr, nullptr};
  const uint32_t warp = threadIdx.x / 32;
  TpArena *const arena = (TpArena *)recording.arena;
  if (!(recording.warps >> (warp < 31 ? warp : 31) & 1)) return w;
  if (arena->claimed - arena->released >= arena->slots) {
    arena->lost++;
    return w;
  }
  if ((recording.mask + 1) / sizeof(TpRecord) != arena->capacity)
    tp_emulator::fail("a recording for slots of another size");
  arena->admitted++;
  const uint64_t ticket = arena->claimed++;
  const uint64_t place = ticket % arena->slots;
  w.slot = (TpSlot *)(arena + 1) + place;
  w.records = (TpRecord *)((char *)arena + arena->records_at) + place * arena->capacity;
  *w.slot = TpSlot{};
  w.slot->tag = recording.tag;
  w.slot->block = blockIdx.x;
  w.slot->warp = (uint16_t)warp;
  w.slot->flags = recording.limit == TP_ROUND;
  w.slot->ticket = (uint32_t)ticket;
  w.slot->begin_clock = w.slot->begin_ns = ++tp_time;
  return w;
}
TP_INLINE TpWarp tp_begin(const TpRecording &recording) {
  TpWarp w = {recording, nullptr, nullptr};
  tp_emulator::meet("tp_begin", nullptr, nullptr);
  if (threadIdx.x % 32 == 0) w = tp_begin_alone(recording);
  return w;
}
TP_INLINE TpWarp tp_begin_block(const TpRecording &recording) {
  tp_emulator::barrier(0, 0, true);
  return tp_begin(recording);
}
TP_INLINE void tp_mark(TpWarp &w, uint32_t state) {
  tp_emulator::glance();
  if (!w.slot) return;
  const uint32_t capacity = (w.recording.mask + 1) / sizeof(TpRecord);
  const uint32_t number = w.slot->wanted++;
  if (number >= w.recording.limit || (number >= capacity && !w.slot->flags)) return;
  w.records[number % capacity] = {(uint32_t)++tp_time, state};
  if (w.slot->kept < capacity) w.slot->kept++;
}
TP_INLINE void tp_end(TpWarp &w) {
  if (!w.slot) return;
  w.slot->end_clock = w.slot->end_ns = ++tp_time;
  w.slot->ready = w.slot->ticket + 1;
  w.slot = nullptr;
}
