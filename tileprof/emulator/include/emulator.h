// What emitted text and the machine that runs it agree on: the thread at hand and its services.
// One block (or cluster, or some blocks that share a counter of tiles) runs at a time; each CUDA thread is a fiber, and only one runs at once.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Whether races are looked for: accesses of the text are instrumented.
#ifdef __SANITIZE_THREAD__
#define TP_WATCHED 1
#elif defined(__has_feature)
#define TP_WATCHED __has_feature(thread_sanitizer)
#else
#define TP_WATCHED 0
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __restrict__ __restrict
#define TP_SHARED_MEMORY(name) unsigned char *const name = tp_emulator::now->shared
// Each has 64 bytes behind dynamic shared memory.
#define TP_SHARED_VARIABLE(type, name)                       \
  type &name = *(type *)(tp_emulator::now->shared +          \
                         tp_emulator::STATIC_SHARED + 64 * __COUNTER__)

namespace tp_emulator {

// Where static shared memory starts; as much as anybody may ask for lies before.
constexpr size_t STATIC_SHARED = 252 * 1024;

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// What emitted text may read of the thread that runs it.
struct Seen {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, block_extent, grid_extent;
  unsigned char *shared = nullptr;
  unsigned cluster_rank = 0, cluster_size = 1;
};
extern Seen *now;

// Let other threads run, always or by chance; the chance is small where calls are many.
void yield();
void glance();
// As long as memory takes to answer, which is drawn.
void linger();
// End the launch with a message; the thread does not come back.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Position in the window of shared memory, as the hardware counts it; fails for other pointers.
uint32_t shared_address(const void *pointer);
bool is_shared(const void *pointer);
void check_aligned(const void *pointer, size_t bytes, const char *what);

// Accesses that are reported by hand where races are looked for: of several bytes, which compilers
// may leave to functions; and those of an atomic operation, which does not race with another one.
void note_access(const void *at, size_t bytes, bool write);
void atomic_begin(const void *at, size_t bytes);
void atomic_end();

// All 32 lanes of the warp meet; the last one runs `work` on what each lane brought.
void meet(const char *what, void *mine, void (*work)(void **lanes));

void barrier(int id, int threads, bool wait);
// A barrier of the whole block that counts the threads for which `x` holds.
int barrier_vote(bool x);
void cluster_arrive();
void cluster_wait();
void fence_async();
bool elect();

void mbarrier_init(uint64_t *barrier, int count);
void mbarrier_fence_init();
void mbarrier_arrive(uint64_t *barrier, int64_t expect, int block /* -1: this one */);
void mbarrier_wait(uint64_t *barrier, uint32_t parity);
bool mbarrier_test(uint64_t *barrier, uint32_t parity);
void mbarrier_invalidate(uint64_t *barrier);

// cp.async of `bytes`, of which the first `there` are read and the others become 0.
void copy_async(void *target, const void *source, int bytes, int there);
// Arrive at the barrier when the copies so far have landed.
void copy_arrive(uint64_t *barrier);
void copy_commit();
void copy_wait(int groups_left);

// A tensor map: what the driver writes into its 128 bytes; innermost dimension first.
struct Map {
  unsigned char *data;
  int32_t rank, type;  // type: a Number
  int64_t extent[5];
  int64_t stride[5];  // bytes
  int32_t box[5];
  int32_t swizzle;  // bytes
};
static_assert(sizeof(Map) <= 128, "a tensor map has 128 bytes");
enum class Number : int32_t { f16, bf16, f32, f64, tf32, e4m3, e5m2, s8, u8, s32, u32, s64, u64, b16 };

void map_load(void *target, const void *map, uint64_t *barrier, uint32_t mask /* 0: own */, int rank,
              const int *corner);
void map_store(const void *map, const void *source, int rank, const int *corner,
               char how /* = + < > */);
void bulk_load(void *target, const void *source, int bytes, uint64_t *barrier);
void bulk_store(void *target, const void *source, int bytes);
void bulk_commit();
void bulk_wait(int groups_left, bool only_read);

// D (64 x n) = A (64 x k) B (k x n) [+ D]; a descriptor, or registers for A.
struct Product {
  int n, k;
  Number a_type, b_type;
  bool a_in_registers, a_transposed, b_transposed, half_sums;
};
void wgmma(const Product &product, void *d, int registers, const uint32_t *a, uint64_t a_descriptor,
           uint64_t b_descriptor, bool accumulate);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int groups_left);

// D (16 x 8) += A (16 x k) B (k x 8) of a warp, k = 32 bytes of elements.
void mma(Number a_type, Number b_type, void *d, const uint32_t *a, const uint32_t *b);
// D (8 x 8) += A (8 x 4) B (4 x 8).
void mma_f64(double *d, const double *a, const double *b);
void load_matrices(uint32_t *r, int count, const void *row, bool transposed);
void store_matrices(void *row, const uint32_t *r, int count, bool transposed);

}  // namespace tp_emulator

#define threadIdx (tp_emulator::now->thread)
#define blockIdx (tp_emulator::now->block)
#define blockDim (tp_emulator::now->block_extent)
#define gridDim (tp_emulator::now->grid_extent)
#define __trap() tp_emulator::fail("__trap()")
