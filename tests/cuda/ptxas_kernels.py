"""CUDA texts that make ptxas say something, and the logs of `data/` that they gave.

`python -m tests.cuda.ptxas_kernels` writes the logs anew with the NVRTC that is installed.
"""

from __future__ import annotations

from pathlib import Path

from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.nvrtc import version
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target

DATA = Path(__file__).parent / "data"


def _wgmma(registers: int) -> str:
    """`tp_mma`: a bf16 product of 64 rows with an accumulator of so many registers."""
    names = ", ".join(f"%{i}" for i in range(registers))
    held = ", ".join(f'"+f"(d[{i}])' for i in range(registers))
    return f"""\
static __device__ __forceinline__ void tp_mma(float (&d)[{registers}], unsigned long long a) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{registers * 2}k16.f32.bf16.bf16 {{{names}}}, "
    "%{registers}, %{registers}, 1, 1, 1, 0, 0;" : {held} : "l"(a));
}}
"""


GROUPS = """\
static __device__ __forceinline__ void tp_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void tp_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> static __device__ __forceinline__ void tp_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
"""
HEADERS = tuple((f"mma{n}.cuh", GROUPS + _wgmma(n)) for n in (64, 128))


def source(body: str, *, bounds: str = "__launch_bounds__(128, 1)", name: str = "k") -> CudaSource:
    """A kernel `f(float *x, int *q, int n, unsigned long long a)`; line 1 of `body` is line 10 of
    `/author/kernel.py`."""
    headers = tuple(each for each in HEADERS if each[0] in body)
    includes = "".join(f'#include "{header}"\n' for header, _ in headers)
    for header, _ in headers:
        body = body.replace(f"// {header}\n", "")
    lines = "".join(f"#line {at}\n{line}\n" for at, line in enumerate(body.splitlines(), 10))
    text = (
        f'{includes}extern "C" __global__ void {bounds}\n'
        f"f(float *x, int *q, int n, unsigned long long a) {{\n"
        f'#line 10 "/author/kernel.py"\n{lines}}}\n'
    )
    return CudaSource(name, text, headers, (), ())


_START = """\
// mma64.cuh
float d[64]; for (int i = 0; i < 64; i++) d[i] = 0;
"""
_END = "for (int i = 0; i < 64; i++) x[threadIdx.x * 64 + i] = d[i];\n"
_ROLES = """\
if (threadIdx.x < 128) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); x[0] = n;
} else {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); x[n] = n * 2;
}
"""
_MANY = """\
float d[64]; for (int i = 0; i < 64; i++) d[i] = x[i * n];
__syncthreads();
for (int i = 0; i < 64; i++) x[i * 3 + n] = d[i] * d[(i + 7) % 64];
"""
_LARGE = """\
// mma128.cuh
float d[128], e[128], g[32];
for (int i = 0; i < 128; i++) d[i] = x[i], e[i] = x[i + n];
for (int i = 0; i < 32; i++) g[i] = x[i * n];
for (int k = 0; k < n; k++) {
  tp_fence();
  tp_mma(d, a + k);
  tp_mma(e, a + k);
  tp_commit();
  for (int i = 0; i < 32; i++) g[i] = g[i] * x[k + i] + g[(i + 1) % 32];
  tp_wait<0>();
}
for (int i = 0; i < 128; i++) x[i] = d[i] + e[i];
for (int i = 0; i < 32; i++) x[i * n] = g[i];
"""

KERNELS = {
    "clean": source(
        "extern __shared__ char e[]; __shared__ float s[64]; s[threadIdx.x] = e[n];\n"
        'asm volatile("bar.sync 3, 64;");\nx[0] = s[q[3]];\n'
    ),
    "reads": source(
        _START + "tp_fence();\ntp_mma(d, a);\nx[3] = d[5];\ntp_mma(d, a);\ntp_commit();\n"
        "tp_wait<0>();\n" + _END
    ),
    "defines": source(_START + "for (int k = 0; k < n; k++) {\n  tp_mma(d, a + k);\n}\n" + _END),
    "divergent": source(
        _START + "tp_fence();\nif (threadIdx.x > 64) {\n  tp_mma(d, a);\n  tp_commit();\n}\n"
        "d[2] += 1; tp_wait<0>();\n" + _END
    ),
    "wait": source(
        _START + "#pragma unroll 1\nfor (int k = 0; k < n; k++) {\n  tp_fence();\n"
        "  tp_mma(d, a + k);\n  tp_commit();\n  x[k] = d[5];\n}\ntp_wait<0>();\n" + _END
    ),
    "registers": source(_LARGE),
    "spill": source(_MANY, bounds="__launch_bounds__(1024, 2)"),
    "local": source(
        "float d[64]; for (int i = 0; i < 64; i++) d[i] = x[i * n];\n"
        "for (int i = 0; i < 64; i++) d[q[i]] += d[i];\nx[0] = d[q[3]];\n"
    ),
    "roles": source(_ROLES, bounds="__launch_bounds__(256, 1)"),
    "roles_unbounded": source(_ROLES, bounds=""),
}
TOO_MANY_REGISTERS = source(
    "// mma128.cuh\nfloat d[128]; for (int i = 0; i < 128; i++) d[i] = x[i];\n"
    "tp_fence();\ntp_mma(d, a);\ntp_commit(); tp_wait<0>();\n"
    "for (int i = 0; i < 128; i++) x[i] = d[i];\n",
    bounds="__launch_bounds__(512, 1)",
)


def main() -> None:
    """Write the logs."""
    folder = DATA / "nvrtc{}.{}".format(*version())
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in KERNELS.items():
        made = compile_cubin(each, find_target("sm_90a"), Controls())
        (folder / f"{name}.log").write_text(made.log)


if __name__ == "__main__":
    main()
