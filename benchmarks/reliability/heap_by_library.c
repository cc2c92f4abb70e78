// Counts the bytes that each library of a process holds on the heap.
//
// In: every malloc, operator new and free of the process, where this library is preloaded
// (LD_PRELOAD).  Out: heap_by_library(text, size), which writes a line for each library that holds
// memory, "bytes blocks path", and one for each block of 512 KB or more, "block bytes path".  The
// library is the one whose code called the allocator.  Where HEAP_TOLD names a file, a line is added
// to it for each block or anonymous mapping of 128 KB or more as it is made, "seconds thread what
// bytes caller": what makes an arena grow is often given back at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { kShards = 256, kSlots = 1 << 15, kLibraries = 1024, kLarge = 512 << 10, kTold = 128 << 10 };

typedef struct { uintptr_t address; size_t size; uintptr_t caller; } Block;
typedef struct { pthread_mutex_t mutex; Block *blocks; size_t held; } Shard;
typedef struct { uintptr_t start, end; char path[256]; } Library;

static Shard shards[kShards];
static Library libraries[kLibraries];
static int library_count;
static uint64_t untracked;
// Other models allocate while a library is being opened.
static __thread int inside __attribute__((tls_model("initial-exec")));

static int add_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  uintptr_t wanted = *(uintptr_t *)data;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
    if (part->p_type != PT_LOAD || wanted < start || wanted >= end) continue;
    if (library_count >= kLibraries - 1) return 1;
    Library *made = &libraries[library_count];
    made->start = start;
    made->end = end;
    const char *path = info->dlpi_name[0] ? info->dlpi_name : "program";
    snprintf(made->path, sizeof made->path, "%s", path);
    ++library_count;
    return 1;
  }
  return 0;
}

static int find(uintptr_t address) {
  for (int i = 0; i < library_count; ++i)
    if (address >= libraries[i].start && address < libraries[i].end) return i;
  return -1;
}

// Only where heap_by_library is called: the loader itself calls malloc while its list is in change.
static uint32_t library_of(uintptr_t address) {
  int found = find(address);
  if (found < 0) {
    dl_iterate_phdr(add_library, &address);
    found = find(address);
  }
  return found < 0 ? kLibraries - 1 : (uint32_t)found;
}

static Shard *shard_of(uintptr_t address) {
  return &shards[(address >> 4) * 0x9E3779B1u >> 8 & (kShards - 1)];
}
static size_t slot_of(uintptr_t address) {
  return (size_t)((address >> 4) * 0x9E3779B97F4A7C15u >> 40) & (kSlots - 1);
}
static size_t after(size_t slot) { return (slot + 1) & (kSlots - 1); }
// The slot of a block, or the free one where it would be put.
static size_t place_of(const Block *blocks, uintptr_t address) {
  size_t at = slot_of(address);
  while (blocks[at].address && blocks[at].address != address) at = after(at);
  return at;
}

static int told = -1;
static struct timespec begun;

static void tell(const char *what, size_t size, void *caller) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double at = (double)(now.tv_sec - begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - begun.tv_nsec);
  char line[128];  // no allocation, and one write
  int length = snprintf(line, sizeof line, "%.3f %ld %s %zu %p\n", at, syscall(SYS_gettid), what,
                        size, caller);
  if (length > 0 && write(told, line, (size_t)length) < 0) told = -1;
}

static void *note(void *made, size_t size, void *caller) {
  if (!made || inside) return made;
  if (size >= kTold && told >= 0) tell("malloc", size, caller);
  inside = 1;
  uintptr_t address = (uintptr_t)made;
  Shard *shard = shard_of(address);
  pthread_mutex_lock(&shard->mutex);
  if (!shard->blocks) {
    void *mapped = mmap(NULL, kSlots * sizeof(Block), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shard->blocks = mapped == MAP_FAILED ? NULL : mapped;
  }
  if (shard->blocks && shard->held < kSlots - 1) {
    size_t at = place_of(shard->blocks, address);
    if (!shard->blocks[at].address) ++shard->held;
    shard->blocks[at] = (Block){address, size, (uintptr_t)caller};
  } else {
    __atomic_fetch_add(&untracked, size, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&shard->mutex);
  inside = 0;
  return made;
}

static void forget(void *freed) {
  if (!freed || inside) return;
  uintptr_t address = (uintptr_t)freed;
  Shard *shard = shard_of(address);
  pthread_mutex_lock(&shard->mutex);
  Block *blocks = shard->blocks;
  if (blocks) {
    size_t at = place_of(blocks, address);
    if (blocks[at].address) {
      --shard->held;
      // Linear probing without tombstones: what follows moves back where it may.
      size_t hole = at;
      blocks[hole].address = 0;
      for (size_t next = after(hole); blocks[next].address; next = after(next)) {
        size_t home = slot_of(blocks[next].address);
        if (((next - home) & (kSlots - 1)) >= ((next - hole) & (kSlots - 1))) {
          blocks[hole] = blocks[next];
          blocks[next].address = 0;
          hole = next;
        }
      }
    }
  }
  pthread_mutex_unlock(&shard->mutex);
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) { return note(__libc_malloc(size), size, CALLER); }
void *calloc(size_t count, size_t size) {
  return note(__libc_calloc(count, size), count * size, CALLER);
}
void free(void *freed) { forget(freed); __libc_free(freed); }
void *realloc(void *former, size_t size) {
  forget(former);
  return note(__libc_realloc(former, size), size, CALLER);
}
void *memalign(size_t boundary, size_t size) {
  return note(__libc_memalign(boundary, size), size, CALLER);
}
void *aligned_alloc(size_t boundary, size_t size) {
  return note(__libc_memalign(boundary, size), size, CALLER);
}
int posix_memalign(void **made, size_t boundary, size_t size) {
  *made = note(__libc_memalign(boundary, size), size, CALLER);
  return *made ? 0 : ENOMEM;
}
void *mmap(void *wanted, size_t size, int access, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) && access != PROT_NONE && size >= kTold && told >= 0 && !inside)
    tell("mmap", size, CALLER);
  return (void *)syscall(SYS_mmap, wanted, size, access, flags, file, offset);
}
void *_Znwm(size_t size) { return note(__libc_malloc(size ? size : 1), size, CALLER); }
void *_Znam(size_t size) { return note(__libc_malloc(size ? size : 1), size, CALLER); }
void _ZdlPv(void *freed) { free(freed); }
void _ZdaPv(void *freed) { free(freed); }
void _ZdlPvm(void *freed, size_t size) { (void)size; free(freed); }
void _ZdaPvm(void *freed, size_t size) { (void)size; free(freed); }

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("HEAP_TOLD");
  clock_gettime(CLOCK_MONOTONIC, &begun);
  if (path) told = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  for (int i = 0; i < kShards; ++i) pthread_mutex_init(&shards[i].mutex, NULL);
}

// Writes the lines; returns how many bytes the whole text has.
size_t heap_by_library(char *text, size_t size) {
  static uint64_t bytes[kLibraries], blocks[kLibraries];
  inside = 1;
  memset(bytes, 0, sizeof bytes);
  memset(blocks, 0, sizeof blocks);
  size_t at = 0;
#define WRITE(...) \
  at += (size_t)snprintf(text + (at < size ? at : size), at < size ? size - at : 0, \
                         __VA_ARGS__)
  for (int i = 0; i < kShards; ++i) {
    pthread_mutex_lock(&shards[i].mutex);
    for (size_t j = 0; shards[i].blocks && j < kSlots; ++j) {
      Block *block = &shards[i].blocks[j];
      if (!block->address) continue;
      uint32_t library = library_of(block->caller);
      bytes[library] += block->size;
      ++blocks[library];
      if (block->size >= kLarge) WRITE("block %zu %s\n", block->size, libraries[library].path);
    }
    pthread_mutex_unlock(&shards[i].mutex);
  }
  for (int i = 0; i < kLibraries; ++i)
    if (blocks[i]) WRITE("%" PRIu64 " %" PRIu64 " %s\n", bytes[i], blocks[i], libraries[i].path);
  WRITE("%" PRIu64 " 0 untracked\n", untracked);
  inside = 0;
  return at;
}
