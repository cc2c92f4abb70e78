"""CUDA C++ that the tests compile; lines are counted from the one with `// line 1`."""

INLINED = """// line 1
__device__ __forceinline__ float square(float x, float y) {
  return x * x + y;  // line 3
}
__device__ __forceinline__ float fourth(float x) {
  return square(square(x, 1.0f), 2.0f);  // line 6
}
extern "C" __global__ void inlined(float* p) {
  float a = p[threadIdx.x];
  a = square(a, 5.0f);  // line 10
  a = fourth(a);  // line 11
  p[threadIdx.x] = a;
}
"""

NEST = """// line 1
extern "C" __global__ void nest(float* p, int n, int m) {
  float s = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    float t = p[i];  // line 6
#pragma unroll 1
    for (int j = 0; j < m; j++) {
      __syncthreads();  // line 9
      t = t * p[j] + s;  // line 10
    }
    s += t;
  }
  p[threadIdx.x] = s;  // line 14
}
"""

SPILL = """// line 1
extern "C" __global__ void __launch_bounds__(1024, 2) spill(const float* a, float* b, int n) {
  float r[48];
#pragma unroll
  for (int k = 0; k < 48; k++) r[k] = a[k * 1024 + threadIdx.x];  // line 5
#pragma unroll 1
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 48; k++) r[k] = r[k] * r[(k + 1) % 48] + a[i];  // line 9
  }
#pragma unroll
  for (int k = 0; k < 48; k++) b[k * 1024 + threadIdx.x] = r[k];  // line 12
}
"""

LOCAL_ARRAY = """// line 1
extern "C" __global__ void local_array(int* p, int n) {
  int buffer[32];
  for (int i = 0; i < 32; i++) buffer[i] = p[i];
#pragma unroll 1
  for (int i = 0; i < n; i++) buffer[p[i] & 31] += i;
  p[threadIdx.x] = buffer[n & 31];
}
"""

SWITCH = """// line 1
extern "C" __global__ void choose(int* p, int n) {
  int v = p[threadIdx.x];
  switch (n) {
    case 0: v = v * 3 + 1; break;
    case 1: v = v / 7; break;
    case 2: v = __popc(v); break;
    case 3: v = __clz(v); break;
    case 4: v ^= 0x1234; break;
    case 5: v = v * v; break;
    case 6: v = v % 13; break;
    case 7: v = __brev(v); break;
  }
  p[threadIdx.x] = v;
}
"""

CALLS = """// line 1
__device__ __noinline__ int fibonacci(int n) {
  return n <= 1 ? n : fibonacci(n - 1) + fibonacci(n - 2);  // line 3
}
extern "C" __global__ void calls(int* p, int n) {
  __shared__ int shared[100];
  shared[threadIdx.x % 100] = n;
  __syncthreads();
  p[threadIdx.x] = fibonacci(n) + shared[n];  // line 9
}
"""

DIVIDE = """// line 1
extern "C" __global__ void divide(float* p, long long* q, int n) {
  for (int i = 0; i < n; i++) {
    p[i] = p[i] / p[i + n];  // line 4
    q[i] = q[i] % q[i + n];  // line 5
  }
}
"""

ASYNC = """// line 1
extern "C" __global__ void async_copy(const char* g, float* o) {
  __shared__ __align__(16) char tile[4096];
  unsigned s = (unsigned)__cvta_generic_to_shared(tile), a[4], b[2];
  float c[4] = {0, 0, 0, 0};
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(s + threadIdx.x * 16), "l"(g + threadIdx.x * 16));
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
  __syncthreads();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(s + threadIdx.x * 16));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1]) : "r"(s + 2048 + threadIdx.x * 16));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  c[0] += __shfl_xor_sync(~0u, c[0], 1);
  atomicAdd(o, c[1]);
  *(float4*)(o + 4 + threadIdx.x * 4) = make_float4(c[0], c[1], c[2], c[3]);
}
"""

_REGISTERS = ", ".join(f"%{i}" for i in range(64))
_OPERANDS = ", ".join(f'"+f"(c[{i}])' for i in range(64))
WGMMA = f"""// line 1
extern "C" __global__ void __launch_bounds__(128)
wgmma(const unsigned long long* d, float* o, const char* map, int n) {{
  extern __shared__ char tile[];
  unsigned s = (unsigned)__cvta_generic_to_shared(tile), barrier = s + 65536;
  float c[64];
#pragma unroll
  for (int i = 0; i < 64; i++) c[i] = 0;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier));
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < n; k++) {{
    if (threadIdx.x == 0) {{
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;" :: "r"(barrier));
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1, {{%2, %3}}], [%4];"
                   :: "r"(s), "l"(map), "r"(k * 64), "r"(64), "r"(barrier) : "memory");
    }}
    asm volatile("{{\\n.reg .pred p;\\nWAIT_%=:\\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n"
                 "@p bra DONE_%=;\\nbra WAIT_%=;\\nDONE_%=:\\n}}" :: "r"(barrier), "r"(k & 1));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{{{_REGISTERS}}}, %64, %65, 1, 1, 1, 0, 0;"
                 : {_OPERANDS} : "l"(d[k]), "l"(d[k + 8]));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
#pragma unroll
  for (int i = 0; i < 64; i++) o[i * 128 + threadIdx.x] = c[i];
}}
"""

SHARED = {
    "inlined": INLINED,
    "nest": NEST,
    "spill": SPILL,
    "local_array": LOCAL_ARRAY,
    "choose": SWITCH,
    "calls": CALLS,
    "divide": DIVIDE,
    "async_copy": ASYNC,
}
"""Kernels for every architecture, by name."""
