// Kernels that stall at one known place, for one known reason.  A comment `hot` marks the line that
// stalls, `cause` the one it waits for.  All blocks do the same; `n` is the number of iterations.
using u32 = unsigned int;
using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* at) {
  return (u32)__cvta_generic_to_shared(at);
}

// 48 values in 32 registers: each iteration reloads spilled registers.
extern "C" __global__ void __launch_bounds__(1024, 2) spilled(float* out, const float* in, int n) {
  float r[48];
#pragma unroll
  for (int k = 0; k < 48; k++) r[k] = in[k * 1024 + threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 48; k++) r[k] = r[k] * r[(k + 1) % 48] + 1.0f;  // hot cause
  }
#pragma unroll
  for (int k = 0; k < 48; k++) out[k * 1024 + threadIdx.x] = r[k];
}

// Lanes are 8 words apart, so 8 of them meet in each of four banks.
extern "C" __global__ void __launch_bounds__(1024) bank_conflict(float* out, const float* in, int n) {
  __shared__ float held[8192];
  for (int k = threadIdx.x; k < 8192; k += blockDim.x) held[k] = in[k];
  __syncthreads();
  float sum = 0;
  u32 at = threadIdx.x * 8 & 8191;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 8; k++) sum += ((volatile float*)held)[at + k];  // hot cause
    at = at + 256 & 8191;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each lane reads a sector of its own, in a line that no other lane reads.
extern "C" __global__ void __launch_bounds__(1024) uncoalesced(float* out, const float* in, int n) {
  float sum = 0;
  u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * 32;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    sum += __ldcg(in + (at & (1u << 26) - 1));  // hot cause
    at += 32 * 132 * 1024;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Pointer chasing: each load's address is the value that the last load read.
extern "C" __global__ void __launch_bounds__(32) chased(float* out, const float* in, int n) {
  u32 at = threadIdx.x * 1031 + blockIdx.x * 40961;
#pragma unroll 1
  for (int i = 0; i < n; i++) at = (u32)__ldcg(in + (at & (1u << 26) - 1)) + at * 1664525u + 1013904223u;  // hot cause
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)at;
}

// Dependent arithmetic of fixed latency.
extern "C" __global__ void __launch_bounds__(32) chained(float* out, const float* in, int n) {
  float x = in[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 16; k++) x = x * 1.0001f + 0.5f;  // hot cause
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// Exponentials of many warps that share one unit.
extern "C" __global__ void __launch_bounds__(1024) exponentials(float* out, const float* in, int n) {
  float x[4] = {in[threadIdx.x], in[threadIdx.x + 1], in[threadIdx.x + 2], in[threadIdx.x + 3]};
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 4; k++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));  // hot cause
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[0] + x[1] + x[2] + x[3];
}

// Multiplications of many warps: the pipe is full.
extern "C" __global__ void __launch_bounds__(1024) multiplied(float* out, const float* in, int n) {
  float x[8];
  for (int k = 0; k < 8; k++) x[k] = in[threadIdx.x + k];
  const float y = in[threadIdx.x + 9];
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 64; k++) x[k % 8] = x[k % 8] * y + 0.5f;  // hot cause
  }
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += x[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The first warp works; the others wait for it at a barrier.
extern "C" __global__ void __launch_bounds__(256) barrier_skew(float* out, const float* in, int n) {
  float x = in[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    if (threadIdx.x < 32) {
#pragma unroll 1
      for (int k = 0; k < 256; k++) x = x * 1.0001f + 0.5f;  // cause
    }
    __syncthreads();  // hot
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ bool passed(u32 barrier, u32 parity) {
  u32 is;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"  // hot
               " selp.b32 %0, 1, 0, p; }"
               : "=r"(is) : "r"(barrier), "r"(parity) : "memory");
  return is;
}

// The first warp works and then arrives at an mbarrier; the others poll it.
extern "C" __global__ void __launch_bounds__(256) mbarrier_wait(float* out, const float* in, int n) {
  __shared__ u64 held;
  const u32 barrier = shared_address(&held);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  __syncthreads();
  float x = in[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    if (threadIdx.x < 32) {
#pragma unroll 1
      for (int k = 0; k < 256; k++) x = x * 1.0001f + 0.5f;
      if (threadIdx.x == 0) arrive(barrier);  // cause
      __syncwarp();
    } else {
      while (!passed(barrier, i & 1)) {  // hot
      }
    }
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// A bulk copy (TMA) of 8 KB, waited for immediately.
extern "C" __global__ void __launch_bounds__(128) bulk_copy_wait(float* out, const float* in, int n) {
  __shared__ alignas(128) float held[2048];
  __shared__ u64 place;
  const u32 barrier = shared_address(&place);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  __syncthreads();
  float x = 0;
  u32 at = blockIdx.x * 2048;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;" ::"r"(barrier) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];"  // cause
                   ::"r"(shared_address(held)), "l"(in + (at & (1u << 26) - 1)), "r"(barrier) : "memory");
    }
    while (!passed(barrier, i & 1)) {  // hot
    }
    x += held[threadIdx.x];
    at += 2048 * 132;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// Copies by cp.async, waited for immediately.
extern "C" __global__ void __launch_bounds__(256) copy_wait(float* out, const float* in, int n) {
  __shared__ alignas(16) float held[1024];
  const u32 to = shared_address(held + threadIdx.x * 4);
  float x = 0;
  u32 at = (blockIdx.x * 256 + threadIdx.x) * 4;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + (at & (1u << 26) - 1)) : "memory");  // cause
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");  // hot
    x += held[threadIdx.x * 4];
    at += 132 * 1024;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// A memory fence after each write.
extern "C" __global__ void __launch_bounds__(256) fenced(float* out, const float* in, int n) {
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    ((volatile float*)out)[blockIdx.x * blockDim.x + threadIdx.x] = i;  // cause
    __threadfence();  // hot
  }
}

// Sleeps of a microsecond.
extern "C" __global__ void __launch_bounds__(256) slept(float* out, const float* in, int n) {
#pragma unroll 1
  for (int i = 0; i < n; i++) __nanosleep(1000);  // hot cause
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[0];
}

// Narrow stores without a pause: their queue is full.
extern "C" __global__ void __launch_bounds__(1024) stored(float* out, const float* in, int n) {
  u32 at = blockIdx.x * blockDim.x * 8 + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 8; k++) __stcg(out + (at + k * 1024 & (1u << 24) - 1), (float)i);  // hot cause
  }
}

#if __CUDA_ARCH__ == 900

__device__ __forceinline__ void product(float (&d)[32], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
               "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                 "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                 "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                 "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Descriptor of a tile without swizzle: address, and strides of 128 and 256 bytes.
__device__ __forceinline__ u64 tile(const void* at) {
  return (u64)(shared_address(at) >> 4 & 0x3fff) | (u64)8 << 16 | (u64)16 << 32;
}

// Matrix products, one at a time.
extern "C" __global__ void __launch_bounds__(128) serialised_products(float* out, const float* in, int n) {
  __shared__ alignas(1024) unsigned short held[8192];
  for (int k = threadIdx.x; k < 8192; k += 128) held[k] = 0;
  __syncthreads();
  float d[32] = {};
  const u64 a = tile(held), b = tile(held + 4096);
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    begin_products();
    product(d, a, b);  // cause
    commit_products();
    wait_for_products();  // hot
  }
  float sum = 0;
  for (int k = 0; k < 32; k++) sum += d[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Matrix products back to back, with one wait for all at the end of each iteration.
extern "C" __global__ void __launch_bounds__(128) grouped_products(float* out, const float* in, int n) {
  __shared__ alignas(1024) unsigned short held[8192];
  for (int k = threadIdx.x; k < 8192; k += 128) held[k] = 0;
  __syncthreads();
  float d[32] = {};
  const u64 a = tile(held), b = tile(held + 4096);
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    begin_products();
#pragma unroll
    for (int k = 0; k < 16; k++) product(d, a, b);  // cause
    commit_products();
    wait_for_products();  // hot
  }
  float sum = 0;
  for (int k = 0; k < 32; k++) sum += d[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
#endif
