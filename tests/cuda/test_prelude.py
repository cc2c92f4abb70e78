"""The CUDA prelude: every function compiles, to the instructions that are meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import pytest

from tileprof import binary
from tileprof.compiler.cuda.emit.gemm.wgmma_header import WgmmaShape, header
from tileprof.compiler.cuda.nvrtc import compile_text
from tileprof.compiler.cuda.prelude import text, with_dependencies
from tileprof.errors import InternalError

from .prelude_kernels import CALLS, Call

pytest.importorskip("cuda.bindings.nvrtc")

MOST_CHARACTERS = 200_000

HEADERS = tuple(
    f"{name}.cuh"
    for name in (
        *("base", "numbers", "functions", "memory", "barriers"),
        *("async", "shuffle", "matrix", "atomics", "tiles", "wgmma"),
    )
)
OPTIONS = ("--std=c++17", "--diag-suppress=177,550")


def _includes(headers: tuple[str, ...] = HEADERS) -> str:
    return "".join(f'#include "{name}"\n' for name in headers)


def _function(body: str, name: str) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__(384, 1) {name}(
    float *f, int *n, double *d, void *p, const __grid_constant__ TpTensorMap map) {{
  extern __shared__ __align__(1024) unsigned char sh[];
  const int i = threadIdx.x;
  {body}
}}
"""


def _compiled(
    source: str, target: str, headers: tuple[tuple[str, str], ...] | None = None
) -> bytes:
    """The cubin of a text, which must compile without a word."""
    given = with_dependencies(HEADERS) if headers is None else headers
    options = (*OPTIONS, f"--gpu-architecture={target}")
    made = compile_text(source, given, options, name="kernel.cu")
    assert made.ok, made.log
    assert not made.log.strip(), made.log
    return made.cubin


@cache
def _calls(target: str) -> Mapping[str, str]:
    """Instructions of each call of a target, compiled together: headers are read once."""
    functions = {f"kernel_{n}": call for n, call in enumerate(CALLS) if target in call.targets}
    bodies = [_function(call.body, name) for name, call in functions.items()]
    made = binary.read(_compiled(_includes() + "".join(bodies), target)).functions
    return {call.name: binary.listing(made[name]) for name, call in functions.items()}


@pytest.mark.spread
@pytest.mark.parametrize(
    ("call", "target"),
    [(call, target) for call in CALLS for target in call.targets],
    ids=lambda x: x.name if isinstance(x, Call) else x,
)
def test_instructions(call: Call, target: str) -> None:
    """What a call becomes."""
    sass = _calls(target)[call.name]
    for pattern in (*call.sass, *call.also.get(target, ())):
        assert re.search(pattern, sass), f"no {pattern} in\n{sass}"
    for pattern in call.without:
        assert not re.search(pattern, sass), f"{pattern} in\n{sass}"


def test_every_function_is_compiled() -> None:
    """No function is left out of the table of calls."""
    called = " ".join(call.body for call in CALLS) + " tp_wgmma_"
    written = "".join(text(name) for name in HEADERS)
    functions = set(re.findall(r"^(?:template .*)?(?:TP_INLINE|TP_SPECIAL) .*?\b(tp_\w+)\(",
                               written, re.MULTILINE))  # fmt: skip
    inner = {name for name in functions if len(re.findall(rf"\b{name}\b", written)) > 1}
    missing = {name for name in functions - inner if name not in called}
    assert len(functions) > 100
    assert not {name for name in missing if not name.startswith("tp_wgmma_")}


@pytest.mark.spread("base.cuh", "async.cuh", "matrix.cuh", "tiles.cuh", "wgmma.cuh")
@pytest.mark.parametrize("name", HEADERS)
def test_each_header_stands_alone(name: str) -> None:
    """A header includes what it needs."""
    source = f'#include "{name}"\nextern "C" __global__ void kernel(int *p) {{ *p = 1; }}\n'
    for target in ("sm_90a", "sm_80"):
        assert _compiled(source, target, with_dependencies([name]))


def test_headers_come_after_what_they_include() -> None:
    """NVRTC would take any order; readers would not."""
    names = [name for name, _ in with_dependencies(["memory.cuh", "async.cuh"])]
    assert names == ["base.cuh", "async.cuh", "numbers.cuh", "memory.cuh"]


def test_the_prelude_is_short() -> None:
    """NVRTC reads every header that a kernel needs; its seconds are in `benchmarks/costs.py`."""
    assert sum(len(text) for _, text in with_dependencies(HEADERS)) < MOST_CHARACTERS


SHAPES = {
    WgmmaShape(256, 16, "bf16", "bf16", "f32"): "HGMMA.64x256x16.F32.BF16",
    WgmmaShape(128, 16, "bf16", "bf16", "f32", True): "HGMMA.64x128x16.F32.BF16",
    WgmmaShape(64, 16, "f16", "f16", "f16"): "HGMMA.64x64x16.F16",
    WgmmaShape(64, 16, "f16", "f16", "f32", False, True, True): "HGMMA.64x64x16.F32",
    WgmmaShape(64, 16, "f16", "f16", "f16", True, False, True): "HGMMA.64x64x16.F16",
    WgmmaShape(8, 8, "tf32", "tf32", "f32"): "HGMMA.64x8x8.F32.TF32",
    WgmmaShape(192, 32, "e4m3", "e4m3", "f32"): "QGMMA.64x192x32.F32.E4M3.E4M3",
    WgmmaShape(64, 32, "e5m2", "e4m3", "f16", True): "QGMMA.64x64x32.F16.E5M2.E4M3",
    WgmmaShape(96, 32, "s8", "u8", "s32"): "IGMMA.64x96x32.S8.U8",
    WgmmaShape(24, 32, "u8", "u8", "s32", True): "IGMMA.64x24x32.U8.U8",
}


def _product(shape: WgmmaShape) -> str:
    type_ = {"f32": "float", "f16": "uint32_t", "s32": "int32_t"}[shape.accumulator]
    words, count = shape.a_in_registers, shape.registers
    a = "{1u, 2u, 3u, 4u}" if words else "tp_descriptor(sh, 16, 1024, 128)"
    next_ = "a" if words else "tp_descriptor_advance(a, 32)"
    return f"""
  {"const uint32_t a[4] =" if words else "const uint64_t a ="} {a};
  const uint64_t b = tp_descriptor(sh + 65536, 16, 1024, 128);
  {type_} acc[{count}];
  tp_wgmma_fence();
  {shape.name}(acc, a, b, 0);
  {shape.name}(acc, {next_}, tp_descriptor_advance(b, 32), 1);
  tp_wgmma_commit();
  tp_wgmma_wait<0>();
  tp_wgmma_hold(acc);
  for (int k = 0; k < {count}; k++) (({type_} *)p)[k * 128 + i] = acc[k];
"""


@cache
def _products() -> Mapping[str, str]:
    """Instructions of the product of each shape, compiled together."""
    headers = dict(with_dependencies(("async.cuh",))) | {"wgmma.cuh": header(SHAPES)}
    bodies = [_function(_product(shape), f"kernel_{shape.name}") for shape in SHAPES]
    source = _includes(tuple(headers)) + "".join(bodies)
    made = binary.read(_compiled(source, "sm_90a", tuple(headers.items()))).functions
    return {shape.name: binary.listing(made[f"kernel_{shape.name}"]) for shape in SHAPES}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_wgmma(shape: WgmmaShape) -> None:
    """The instruction of each shape, with registers that stay registers."""
    sass = _products()[shape.name]
    products = re.findall(r"[HQI]GMMA\S* .*", sass)
    assert len(products) == 2
    assert all(each.startswith(SHAPES[shape] + " ") or SHAPES[shape] in each for each in products)
    # The first ignores what the registers held.
    assert "!UPT" in products[0]
    assert "!UPT" not in products[1]
    assert "WARPGROUP.DEPBAR.LE" in sass
    assert not re.search(r"\b(LDL|STL)", sass)


def test_wgmma_transposes_show() -> None:
    """Immediates of the instruction; a shape is written once."""
    plain = WgmmaShape(64, 16, "f16", "f16", "f32")
    turned = WgmmaShape(64, 16, "f16", "f16", "f32", False, True, True)
    assert header([plain]).count("p, 1, 1, 0, 0;") == 1
    assert header([turned]).count("p, 1, 1, 1, 1;") == 1
    assert header([turned, plain, plain]).count("TP_INLINE void tp_wgmma_m64") == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((256, 8, "bf16", "bf16", "f32"), "k is 16"),
        ((260, 16, "bf16", "bf16", "f32"), "n is a multiple of 8"),
        ((40, 32, "s8", "s8", "s32"), "n is a multiple of 8"),
        ((64, 16, "bf16", "f16", "f32"), "do not go together"),
        ((64, 16, "bf16", "bf16", "f16"), "sums of bf16"),
        ((64, 32, "e4m3", "e4m3", "f32", False, False, True), "16 bits"),
        ((64, 16, "f16", "f16", "f32", True, True), "registers cannot"),
    ],
)
def test_wgmma_that_the_hardware_lacks(arguments: tuple[int, ...], reason: str) -> None:
    """Such shapes cannot be made."""
    with pytest.raises(InternalError, match=reason):
        WgmmaShape(*arguments)  # type: ignore[arg-type]
