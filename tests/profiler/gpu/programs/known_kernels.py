"""Kernels whose counters are known beforehand, loaded and launched by the driver alone."""

from __future__ import annotations

import ctypes as C

import torch

from tileprof.compiler.cuda import nvrtc

GIB = 1 << 30
TURNS = 256
TEXT = """
extern "C" __global__ void copy_all(const uint4 *from, uint4 *to) {
  const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  to[at] = from[at];
}
// Lane i reads word WAYS * i: that many lanes meet in each bank that is read.
extern "C" __global__ void conflicts(int *to, int ways) {
  __shared__ int held[32 * 32];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) held[i] = i & 3;
  __syncthreads();
  volatile int *at = held + threadIdx.x * ways;
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < TURNS; i++) sum += at[0];
  if (sum == -1) to[0] = sum;
}
// Lane i reads word STRIDE * i of global memory.
extern "C" __global__ void gather(const int *from, int *to, int stride) {
  const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int x = from[at * stride];
  if (x == -1) to[0] = x;
}
extern "C" __global__ void spill(int *to, int n) {
  int held[64];
  for (int i = 0; i < 64; i++) held[i] = i * n;
  for (int i = 0; i < 64; i++) held[(i * n) & 63] += held[(i + n) & 63];
  int sum = 0;
  for (int i = 0; i < 64; i++) sum += held[(i * n) & 63];
  if (sum == -1) to[0] = sum;
}
extern "C" __global__ void spin(int *to, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}
""".replace("TURNS", str(TURNS))

driver = C.CDLL("libcuda.so.1")


def check(code: int, what: str) -> None:
    """Fail where the driver does."""
    assert code == 0, (what, code)


class Kernels:
    """The functions, in PyTorch's context."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        major, minor = torch.cuda.get_device_capability()
        options = (f"--gpu-architecture=sm_{major}{minor}",)
        made = nvrtc.compile_text(TEXT, (), options, name="known.cu")
        assert made.ok, made.log
        self._module = C.c_void_p()
        check(driver.cuModuleLoadData(C.byref(self._module), made.cubin), "cuModuleLoadData")
        self._functions: dict[str, C.c_void_p] = {}

    def launch(self, name: str, blocks: int, threads: int, *given: object, shared: int = 0) -> None:
        """Launch on the current stream; ints are 32 bits, tensors their addresses."""
        if name not in self._functions:
            function = C.c_void_p()
            check(driver.cuModuleGetFunction(C.byref(function), self._module, name.encode()), name)
            self._functions[name] = function
        function = self._functions[name]
        if shared > 48 * 1024:
            check(driver.cuFuncSetAttribute(function, 8, shared), "cuFuncSetAttribute")
        held = [self._value(each) for each in given]
        places = (C.c_void_p * len(held))(*[C.addressof(each) for each in held])
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = driver.cuLaunchKernel(
            function, blocks, 1, 1, threads, 1, 1, shared, stream, places, None
        )
        check(code, f"launch of {name}")

    def _value(self, given):
        if isinstance(given, torch.Tensor):
            return C.c_uint64(given.data_ptr())
        return given if isinstance(given, C.c_longlong) else C.c_int(given)
