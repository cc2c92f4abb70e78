// The threads of the process: one pool, shared by every kernel, built as a library of its own.
//
// A launch hands out blocks in chunks, lowest first.  The calling thread works too and never waits
// for a thread that has not started: workers that wake up late find nothing to do.  After a
// failure no block above the lowest failed one is started, so the failure that is reported does
// not depend on the order in which threads ran.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "abi.h"
#include "clock.h"
#include "sampler.h"

#define TP_EXPORT extern "C" __attribute__((visibility("default")))

struct Job {
  TpRun *run;
  TpBody body;
  const void *frame;
  int64_t blocks, chunk;
  uint64_t arena;
  int64_t next;     // first block that nobody has taken; atomic
  int64_t workers;  // that take part
};

static struct {
  pthread_mutex_t launching;  // held for the length of a launch
  pthread_mutex_t state;      // guards what follows
  pthread_cond_t wake, done;
  Job *job;
  int64_t active;    // workers inside the job
  int64_t threads;   // workers that exist
  uint64_t serial;   // counts jobs
} pool;

static const uint64_t PRINT_LIMIT = 64ull << 20;

// -- memory of a thread, kept from launch to launch

struct Arena {
  char *memory;
  uint64_t size;
};
static pthread_key_t arena_key;
static __thread Arena arena;

static void free_arena(void *memory) { free(memory); }

static char *reserve(uint64_t size) {
  if (size > arena.size) {
    free(arena.memory);
    arena.memory = 0;
    arena.size = 0;
    void *memory = 0;
    if (posix_memalign(&memory, 4096, size)) return 0;
    arena.memory = (char *)memory;
    arena.size = size;
    pthread_setspecific(arena_key, memory);
  }
  return arena.memory;
}

// -- blocks

static const uint32_t IDLE = 0xffffffffu;  // the state of a worker that is in no block

static void run_block(const Job *job, TpWorker *worker, int64_t block) {
  worker->block = block;
  TpHeader *records = (TpHeader *)worker->records;
  if (worker->state) __atomic_store_n(worker->state, 0, __ATOMIC_RELAXED);
  if (!records) {
    job->body(job->frame, worker, block);
    if (worker->state) __atomic_store_n(worker->state, IDLE, __ATOMIC_RELAXED);
    return;
  }
  // Complete blocks only: where the buffer fills, what the block wrote is taken back.
  const uint64_t written = records->written, lost = records->lost;
  const int64_t start = now();
  job->body(job->frame, worker, block);
  if (records->lost != lost) {
    records->lost += records->written - written;
    records->written = written;
  } else {
    worker->block_ns += now() - start;
  }
}

// Run blocks until all are taken or one has failed.
static void run_blocks(Job *job, TpWorker *worker) {
  const TpFailure *failure = &job->run->failure;
  for (;;) {
    const int64_t first = __atomic_fetch_add(&job->next, job->chunk, __ATOMIC_RELAXED);
    if (first >= job->blocks) return;
    const int64_t end = first + job->chunk < job->blocks ? first + job->chunk : job->blocks;
    for (int64_t block = first; block < end; block++) {
      if (__atomic_load_n(&failure->place, __ATOMIC_ACQUIRE) >= 0 &&
          block > __atomic_load_n(&failure->block, __ATOMIC_RELAXED))
        return;
      run_block(job, worker, block);
    }
  }
}

static void take_part(Job *job, int64_t number) {
  TpWorker worker;
  worker.run = job->run;
  worker.arena = reserve(job->arena);
  if (!worker.arena) {
    // Whoever else has memory goes on; the launch has failed all the same.
    __atomic_store_n(&job->run->failure.block, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&job->run->failure.place, TP_NO_MEMORY, __ATOMIC_RELEASE);
    return;
  }
  worker.records = job->run->records ? job->run->records[number] : 0;
  worker.block_ns = 0;
  worker.state =
      job->run->samples ? (uint32_t *)(job->run->samples + number * job->run->sample_bytes) : 0;
  run_blocks(job, &worker);
  __atomic_fetch_add(&job->run->block_ns, worker.block_ns, __ATOMIC_RELAXED);
}

// -- threads

static void *work(void *) {
  uint64_t seen = 0;
  pthread_mutex_lock(&pool.state);
  for (;;) {
    while (!pool.job || pool.serial == seen || pool.job->workers >= pool.job->run->workers)
      pthread_cond_wait(&pool.wake, &pool.state);
    seen = pool.serial;
    Job *job = pool.job;
    const int64_t number = job->workers++;
    pool.active++;
    pthread_mutex_unlock(&pool.state);
    take_part(job, number);
    pthread_mutex_lock(&pool.state);
    if (--pool.active == 0) pthread_cond_signal(&pool.done);
  }
  return 0;
}

// Have `count` workers besides the calling thread; fewer where the system refuses.
static void start_threads(int64_t count) {
  while (pool.threads < count) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const int refused = pthread_create(&thread, &attributes, work, 0);
    pthread_attr_destroy(&attributes);
    if (refused) return;
    pool.threads++;
  }
}

static void run_shared(Job *job) {
  pthread_mutex_lock(&pool.launching);
  pthread_mutex_lock(&pool.state);
  start_threads(job->run->workers - 1);
  pool.job = job;
  pool.serial++;
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.state);
  take_part(job, 0);
  pthread_mutex_lock(&pool.state);
  pool.job = 0;
  while (pool.active) pthread_cond_wait(&pool.done, &pool.state);
  pthread_mutex_unlock(&pool.state);
  pthread_mutex_unlock(&pool.launching);
}

static void launch(TpRun *run, TpBody body, const void *frame, const int64_t *grid,
                   uint64_t arena_size) {
  if (run->failure.place >= 0) return;
  int64_t blocks = 1;
  for (int d = 0; d < 3; d++) {
    run->grids[3 * run->launches + d] = grid[d];
    blocks *= grid[d] > 0 ? grid[d] : 0;
  }
  const int64_t start = now();
  // Chunks are small enough to even out blocks of unlike cost, and large enough to hide the counter.
  const int64_t share = blocks / (run->workers * 64);
  Job job = {run, body, frame, blocks, share < 1 ? 1 : share > 64 ? 64 : share, arena_size, 0, 1};
  Sampled sampled = {run, 0};
  if (run->samples) begin_sampling(&sampled);
  if (run->workers > 1 && blocks > 1)
    run_shared(&job);
  else if (blocks)
    take_part(&job, 0);
  if (run->samples) end_sampling(&sampled);
  run->time_ns += now() - start;
  run->blocks += blocks;
  run->launches++;
}

// -- what kernels print

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

// Room for a message of `bytes` after its head, held until `end_print`; null where there is none.
static void *begin_print(TpRun *run, int64_t block, int32_t place, uint64_t bytes) {
  const uint64_t padded = (bytes + 7) / 8 * 8, needed = sizeof(TpMessage) + padded;
  pthread_mutex_lock(&printing);
  if (run->printed_bytes + needed > run->printed_capacity) {
    const uint64_t capacity = run->printed_capacity * 2 + needed;
    void *moved = run->printed_bytes + needed > PRINT_LIMIT ? 0 : realloc(run->printed, capacity);
    if (!moved) {
      run->printed_lost++;
      pthread_mutex_unlock(&printing);
      return 0;
    }
    run->printed = (char *)moved;
    run->printed_capacity = capacity;
  }
  TpMessage *message = (TpMessage *)(run->printed + run->printed_bytes);
  message->block = block;
  message->bytes = bytes;
  message->place = place;
  message->launch = (int32_t)run->launches;
  run->printed_bytes += needed;
  return message + 1;
}
static void end_print(TpRun *) { pthread_mutex_unlock(&printing); }

// -- entry

static void reset(void) {
  memset(&pool, 0, sizeof pool);
  pthread_mutex_init(&pool.launching, 0);
  pthread_mutex_init(&pool.state, 0);
  pthread_cond_init(&pool.wake, 0);
  pthread_cond_init(&pool.done, 0);
  pthread_mutex_init(&printing, 0);
  reset_sampler();
}

static void begin(void) {
  pthread_key_create(&arena_key, free_arena);
  // A child has only the thread that forked: it starts threads of its own.
  pthread_atfork(0, 0, reset);
  reset();
}

// Before the first run, by any number of threads and any number of times: only the first call
// touches the pool, under which launches may run from then on.  Gives the size of TpRun, which the
// host compares with its own.
TP_EXPORT uint64_t tp_pool_start(void) {
  static pthread_once_t begun = PTHREAD_ONCE_INIT;
  pthread_once(&begun, begin);
  return sizeof(TpRun);
}

// Run a kernel from start to end.
TP_EXPORT int tp_pool_run(TpEntry entry, const uint64_t *words, TpRun *run) {
  run->launch = launch;
  run->begin_print = begin_print;
  run->end_print = end_print;
  run->failure.place = -1;
  entry(words, run);
  return run->failure.place >= 0 || run->printed_bytes || run->printed_lost;
}
TP_EXPORT void tp_pool_free(void *memory) { free(memory); }
