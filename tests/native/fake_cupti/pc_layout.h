// How CUPTI hands over samples of program counters, and how such reads are kept in a file.
//
// A file is a row of pieces, each with a `Piece` before it and zeros behind it up to 8 bytes. In a
// read the pointers are places from its begin on: records stand behind `Data`, then their stalls,
// then their names, each of which ends with a zero.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct Params {
  size_t size;
  void *own;
  void *context;
  void *first, *second, *third;
};
struct Stall {
  uint32_t reason, samples;
};
struct Pc {
  size_t size;
  uint64_t module, offset;
  uint32_t function, pad;
  char *name;
  size_t stalls;
  Stall *stall;
  uint32_t correlation;
};
struct Data {
  size_t size, room;
  uint64_t total, dropped;
  size_t records, remaining;
  uint64_t range;
  Pc *pc;
  uint64_t non_user;
  uint8_t full;
};
struct Attribute {
  uint32_t type;
  int32_t status;
  uint64_t value, second, third;
};

constexpr int32_t kMoreThanFits = 8;  // an answer that is no failure
constexpr uint32_t kBufferAttribute = 8;
constexpr size_t kStallName = 128;

// Stalls: their names, `kStallName` bytes each, then the device's numbers for them. A module: the
// answer for it, then its cubin. A read: what a call handed over; the last is what lay in the
// buffer of the configuration when sampling was disabled.
enum PieceKind : uint32_t { kFacts = 0, kStalls = 1, kModule = 2, kRead = 3, kLast = 4 };
struct Piece {
  uint32_t kind;
  int32_t result;  // of the call
  uint64_t bytes;
};
