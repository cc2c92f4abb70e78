/* What the watcher of a framework's allocator calls (native/observer/memory.cpp). Plain C; handed
 * over by address (`_recorder.memory_table()`), so that the watcher is linked with the framework
 * alone. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEPROF_MEMORY_VERSION 1

enum TileprofMemoryEvent {
  /* The allocator handed out memory, and has it back. */
  TILEPROF_ALLOCATED = 1,
  TILEPROF_RELEASED = 2,
  /* It took memory from the driver by an allocation of that address, or by mapping pages; it gave
   * memory back. */
  TILEPROF_RESERVED = 3,
  TILEPROF_MAPPED = 4,
  TILEPROF_RETURNED = 5,
  /* There was no memory for a request of so many bytes. */
  TILEPROF_FAILED = 6,
  /* So much was handed out, or taken from the driver, when the watcher began. */
  TILEPROF_ALLOCATED_BEFORE = 7,
  TILEPROF_RESERVED_BEFORE = 8,
};

typedef struct TileprofMemory {
  uint32_t version;
  /* Something happened in the calling thread, which may hold the allocator's lock: this calls
   * neither the framework nor Python nor CUDA, and throws nothing. */
  void (*event)(uint32_t event, uint32_t device, uint64_t address, uint64_t bytes);
} TileprofMemory;

#ifdef __cplusplus
}
#endif
