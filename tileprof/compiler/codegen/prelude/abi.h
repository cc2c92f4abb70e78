// What the host, the thread pool and an emitted kernel agree on.  `runtime/cpu/abi.py` mirrors it.
#pragma once
#include <stdint.h>

enum { TP_MAX_INDICES = 16, TP_NO_MEMORY = 1 << 30 /* a place of its own */ };
// A worker's state has a cache line to itself; its counts follow, by state.
enum { TP_SAMPLE_HEAD = 64 };

// What stopped a launch: the failure of the lowest block that failed.
typedef struct {
  int64_t block;               // linear index, first grid axis fastest; -1 outside a launch
  int32_t place;  // number of the op in the kernel's table of places; -1: nothing failed
  int32_t launch;              // which launch of the kernel
  int64_t index[TP_MAX_INDICES];  // the offending index, then the point of the parallel loops
} TpFailure;

typedef struct TpWorker TpWorker;
typedef struct TpRun TpRun;
typedef int (*TpBody)(const void *frame, TpWorker *worker, int64_t block);

// One run of a kernel; filled in by the host, results written by the launch.
struct TpRun {
  void (*launch)(TpRun *run, TpBody body, const void *frame, const int64_t *grid, uint64_t arena);
  void *(*begin_print)(TpRun *run, int64_t block, int32_t place, uint64_t bytes);
  void (*end_print)(TpRun *run);
  void **records;          // one record buffer for each worker, or null
  int64_t workers;         // how many threads may take part
  int64_t time_ns;         // in launches, added up
  int64_t blocks;          // run, added up over launches
  int64_t block_ns;        // of all blocks whose records were kept, added up
  int64_t launches;        // so far
  int64_t *grids;          // three extents for each launch of the kernel, written as they run
  char *printed;           // what `print` collected
  uint64_t printed_bytes;
  uint64_t printed_capacity;
  uint64_t printed_lost;   // messages that found no room
  char *samples;           // for each worker its state and how often it was seen in which, or null
  int64_t sample_bytes;    // of one worker
  int64_t states;
  int64_t period_ns;       // mean time between two looks; 0: it is chosen
  uint64_t looks;          // that found a worker in a block
  TpFailure failure;
  int64_t failing;         // 1 while a thread writes the failure
};

// A thread at work on the blocks of one launch.
struct TpWorker {
  TpRun *run;
  char *arena;     // 64-byte aligned memory for the buffers of a block
  void *records;   // its record buffer, or null
  int64_t block;   // linear index of the block at hand
  int64_t block_ns;  // its part of the run's
  uint32_t *state;   // where it says what it is at, or null
};

// What stands before each message in `printed`; the values follow, padded to 8 bytes.
typedef struct {
  int64_t block;
  uint64_t bytes;
  int32_t place, launch;
} TpMessage;

typedef int (*TpEntry)(const uint64_t *words, TpRun *run);
