"""The kernels that measure roofs, as CUDA C++ for a target.

In: a target.  Out: one source with all kernels that the target can run, and the launch of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tileprof.compiler.cuda.emit.gemm.wgmma_header import Accumulator, Operand, WgmmaShape, header
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import Target
from tileprof.ir import types

MEMORY_THREADS: Final = 256
VECTORS: Final = (4, 8)
"""Accesses of 16 bytes of a thread in a turn: each kind of kernel is there with both numbers."""
SHARED_THREADS: Final = 512
SHARED_READS: Final = 32
ARITHMETIC_THREADS: Final = 512
CHAINS: Final = 16
LINKS: Final = 16
TENSOR_THREADS: Final = 256
"""Two warp groups, so that one has products under way while the other waits for its last."""
PRODUCTS: Final = 16
"""Products of a turn, one behind the other without a wait."""

_PANEL = 128
"""Bytes of K of an operand in shared memory: the width of its swizzle."""
_STEP = 32
"""Bytes of K that an instruction takes."""
_N, _M = 256, 64
_MMA_CHAINS = 8


@dataclass(frozen=True, slots=True)
class Product:
    """Multiplication of one type of elements by tensor cores."""

    dtype: str
    operand: Operand
    accumulator: Accumulator
    bits: int
    """Bits of an element in memory."""
    keep: int
    """Bits of a word of operands that are random."""
    set: int
    """Bits of a word that are 1: exponents near 0."""
    mma: str = ""
    """The instruction without `wgmma`, as the prelude names it; '' where there is none."""

    @property
    def name(self) -> str:
        """Name of the roof."""
        return f"tensor_{self.dtype}"

    @property
    def wgmma_k(self) -> int:
        """Elements of K that an instruction of a warp group takes."""
        return 8 * _STEP // self.bits

    def wgmma(self) -> WgmmaShape:
        """Return the largest instruction of a warp group."""
        return WgmmaShape(_N, self.wgmma_k, self.operand, self.operand, self.accumulator)

    def operations(self, target: Target) -> int:
        """Multiplications and additions of a block in a turn."""
        if target.has_wgmma:
            return TENSOR_THREADS // 128 * PRODUCTS * 2 * _M * _N * self.wgmma_k
        k = int(self.mma.split("k")[1].split("_")[0])
        return TENSOR_THREADS // 32 * PRODUCTS * _MMA_CHAINS * 2 * 16 * 8 * k

    def instruction(self, target: Target) -> str:
        """Return the instruction's name in PTX."""
        if target.has_wgmma:
            return f"wgmma m{_M}n{_N}k{self.wgmma_k}"
        return f"mma {self.mma.split('_')[0]}"


_ALL = (
    Product("bfloat16", "bf16", "f32", 16, 0x80FF80FF, 0x3F003F00, "m16n8k16_bf16"),
    Product("float16", "f16", "f32", 16, 0x87FF87FF, 0x38003800, "m16n8k16_f16"),
    Product("float8_e4m3", "e4m3", "f32", 8, 0x8F8F8F8F, 0x30303030),
    Product("tf32", "tf32", "f32", 32, 0x80FFFFFF, 0x3F000000, "m16n8k8_tf32"),
    Product("int8", "s8", "s32", 8, 0xFFFFFFFF, 0, "m16n8k32_s8"),
)  # fmt: skip


def products(target: Target) -> tuple[Product, ...]:
    """Return the types that a target's tensor cores multiply."""
    return tuple(each for each in _ALL if target.has_wgmma or each.mma)


def source(target: Target) -> CudaSource:
    """Return all kernels for a target, in one text."""
    made = products(target)
    kernel = _wgmma_kernel if target.has_wgmma else _mma_kernel
    parts = ("memory.cuh", "arithmetic.cuh", "clock.cuh", "tensor.cuh")
    matrices = "wgmma.cuh" if target.has_wgmma else "matrix.cuh"
    text = "".join(f'#include "{each}"\n' for each in (*parts, matrices))
    held = [(each, _text(each)) for each in parts]
    if target.has_wgmma:
        held.append((matrices, header(each.wgmma() for each in made)))
    needed = ["base.cuh"] if target.has_wgmma else ["base.cuh", matrices]
    headers = (*with_dependencies(needed), *held)
    text += "\n".join(map(kernel, made))
    return CudaSource("roofs", _defines() + text, headers, _launches(target), ())


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def _defines() -> str:
    numbers: dict[str, object] = {
        "MEMORY_THREADS": MEMORY_THREADS, "SHARED_THREADS": SHARED_THREADS,
        "SHARED_READS": SHARED_READS, "ARITHMETIC_THREADS": ARITHMETIC_THREADS, "CHAINS": CHAINS,
        "LINKS": LINKS, "NEVER": "0xffffffffu",
    }  # fmt: skip
    return "".join(f"#define {name} {value}\n" for name, value in numbers.items())


_A_BYTES, _B_BYTES = _M * _PANEL, _N * _PANEL
_SHARED = TENSOR_THREADS // 128 * _A_BYTES + _B_BYTES


def _wgmma_kernel(product: Product) -> str:
    """Return a kernel whose warp groups have 64 rows of A each and B in common."""
    shape = product.wgmma()
    result = "float" if product.accumulator == "f32" else "int32_t"
    return f"""\
extern "C" __global__ void __launch_bounds__({TENSOR_THREADS})
    roof_{product.name}(uint32_t *sink, int64_t turns) {{
  TP_SHARED_MEMORY(held);
  for (int i = threadIdx.x; i < {_SHARED} / 4; i += {TENSOR_THREADS})
    ((uint32_t *)held)[i] = tp_operand(i, {product.keep:#x}u, {product.set:#x}u);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const int group = tp_uniform(threadIdx.x / 128);
  const uint64_t a = tp_descriptor(held + {_B_BYTES} + group * {_A_BYTES}, 16, 1024, 128);
  const uint64_t b = tp_descriptor(held, 16, 1024, 128);
  {result} d[{shape.registers}];
  TP_UNROLL_ALL
  for (int i = 0; i < {shape.registers}; i++) d[i] = 0;
  TP_NO_UNROLL
  for (int turn = 0; turn < (int)turns; turn++) {{
    tp_wgmma_hold(d);
    tp_wgmma_fence();
    TP_UNROLL_ALL
    for (int i = 0; i < {PRODUCTS}; i++) {{
      const int at = i % {_PANEL // _STEP} * {_STEP};
      {shape.name}(d, tp_descriptor_advance(a, at), tp_descriptor_advance(b, at), 1);
    }}
    tp_wgmma_commit();
    tp_wgmma_wait<0>();
    tp_wgmma_hold(d);
  }}
  bool stored = false;
  TP_UNROLL_ALL
  for (int i = 0; i < {shape.registers}; i++) stored |= tp_impossible(d[i]);
  if (stored) *sink = 1;
}}
"""


def _mma_kernel(product: Product) -> str:
    """Return a kernel whose warps have operands in registers and several sums, none of which waits
    for another."""
    result = "float" if product.accumulator == "f32" else "int32_t"
    return f"""\
extern "C" __global__ void __launch_bounds__({TENSOR_THREADS})
    roof_{product.name}(uint32_t *sink, int64_t turns) {{
  uint32_t a[4], b[2 * {_MMA_CHAINS}];
  {result} d[4 * {_MMA_CHAINS}];
  TP_UNROLL_ALL
  for (int i = 0; i < 4; i++)
    a[i] = tp_operand(threadIdx.x * 4 + i, {product.keep:#x}u, {product.set:#x}u);
  TP_UNROLL_ALL
  for (int i = 0; i < 2 * {_MMA_CHAINS}; i++)
    b[i] = tp_operand(65536 + threadIdx.x * {2 * _MMA_CHAINS} + i,
                      {product.keep:#x}u, {product.set:#x}u);
  TP_UNROLL_ALL
  for (int i = 0; i < 4 * {_MMA_CHAINS}; i++) d[i] = i;
  TP_NO_UNROLL
  for (int turn = 0; turn < (int)turns; turn++) {{
    TP_UNROLL_ALL
    for (int i = 0; i < {PRODUCTS}; i++) {{
      TP_UNROLL_ALL
      for (int chain = 0; chain < {_MMA_CHAINS}; chain++)
        tp_mma_{product.mma}(d + 4 * chain, a, b + 2 * chain);
    }}
  }}
  bool stored = false;
  TP_UNROLL_ALL
  for (int i = 0; i < 4 * {_MMA_CHAINS}; i++) stored |= tp_impossible(d[i]);
  if (stored) *sink = 1;
}}
"""


# -- launches: pointers are `addresses` of a call by index, numbers its `symbols`

_READ = (
    *(Argument("pointer", index) for index in range(3)),
    *(Argument("symbol", index, types.int64) for index in range(2)),
)
_TURNS = (Argument("pointer", 0), Argument("symbol", 0, types.int64))


def _launches(target: Target) -> tuple[LaunchSpec, ...]:
    memory = [f"{kind}_{vectors}" for kind in ("hbm_read", "hbm_write", "hbm_copy", "l2_read")
              for vectors in VECTORS]  # fmt: skip
    arithmetic = ("fma_float32", "fma_float64", "exp2_float32")
    shared = _SHARED if target.has_wgmma else 0
    return (
        *(_launch(name, MEMORY_THREADS, _READ) for name in memory),
        _launch("shared_read", SHARED_THREADS),
        *(_launch(name, ARITHMETIC_THREADS) for name in arithmetic),
        *(_launch(each.name, TENSOR_THREADS, shared=shared) for each in products(target)),
        *(_launch(name, 32) for name in ("clock", "hold", "nothing")),
    )


def _launch(
    name: str, threads: int, arguments: tuple[Argument, ...] = _TURNS, shared: int = 0
) -> LaunchSpec:
    return LaunchSpec(f"roof_{name}", arguments, (), (), threads, shared)
