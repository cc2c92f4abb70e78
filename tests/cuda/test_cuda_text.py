"""The text that is shown and the text that is compiled: lines, parameters, unused numbers."""
# A kernel annotates its arguments with tensors, which is not Python's typing.
# ruff: noqa: ANN001, ANN201, D103
# mypy: disable-error-code="valid-type,no-untyped-def,no-redef"

from __future__ import annotations

import importlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import binary
from tileprof.compiler import compile_kernel
from tileprof.compiler.codegen.writer import Line
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.text import pinned, render, without_unused
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.errors import Location


@tileprof.jit
def products(A, B, C, block: int = 64):
    M, N = T.const("M, N")
    A: T.Tensor((M, 128), T.float16)
    B: T.Tensor((128, N), T.float16)
    C: T.Tensor((M, N), T.float16)
    with T.Kernel(N // block, M // block, threads=128) as (bx, by):
        A_s = T.alloc_shared((block, 64), T.float16)
        B_s = T.alloc_shared((64, block), T.float16)
        C_l = T.alloc_fragment((block, block), T.float32)
        T.clear(C_l)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * block, k * 64], A_s)
            T.copy(B[k * 64, bx * block], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * block, bx * block])


@tileprof.jit
def rows(A):
    M, N = T.dynamic("M, N")
    A: T.Tensor((M, N), T.float32)
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            A[bx, i] = A[bx, i] + 1.0


def lowered(kernel: tileprof.Kernel, target: str) -> CudaProgram:
    return compile_cuda(compile_kernel(kernel.traced).kernel, find_target(target))


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_a_line_of_python_is_named_where_it_begins(target: str) -> None:
    """No two directives follow each other, and none repeats the one before."""
    text = lowered(products.compile(M=128, N=128), target).source.text
    lines = text.splitlines()
    named = [line for line in lines if line.startswith("#line")]
    assert named[0].endswith(f'"{__file__}"')
    assert all(a.split()[1] != b.split()[1] for a, b in pairwise(named))
    assert not any(a.startswith("#line") and b.startswith("#line") for a, b in pairwise(lines))
    assert len(named) < len(lines) / 4


def test_every_instruction_has_a_line_of_the_kernel() -> None:
    """Also where one line of Python became many lines of CUDA."""
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = products.compile(M=128, N=128)
    made = lowered(kernel, "sm_90a")
    cubin = compile_cubin(made.source, made.target, Controls())
    (function,) = binary.read(cubin.bytes).functions.values()
    source = Path(__file__).read_text().splitlines()
    outermost = [function.chain(each.offset)[-1] for each in function.instructions]
    assert {line.file for line in outermost} == {__file__}
    python = {source[line.line - 1].strip() for line in outermost}
    starts = ("with T.Kernel", "T.", "for k", "A_s", "B_s", "C_l")
    assert all(text.startswith(starts) for text in python), python
    assert "T.gemm(A_s, B_s, C_l)" in python


def test_parameters_are_those_that_the_text_uses() -> None:
    """Tiles that are copied by tensor maps need no pointers; extents, only where they count."""
    made = lowered(products.compile(M=128, N=128), "sm_90a").source
    assert [a.kind for a in made.launches[0].arguments] == ["map", "map", "map"]
    general = lowered(rows.compile(), "sm_90a").source
    (spec,) = general.launches
    head, _, body = general.text.partition("rows_0(")[2].partition(") {")
    names = re.findall(r"(\w+),?$", head, re.MULTILINE)
    assert len(names) == len(spec.arguments)
    assert all(re.search(rf"\b{name}\b", body) for name in names)


def test_lines_without_a_place_go_with_the_one_before() -> None:
    """Braces do; a new function returns to the text's own lines."""
    at = Location("a.py", 7)
    lines = [
        Line("head"),
        Line("  x;", at),
        Line("  y;", at),
        Line("}"),
        Line("next"),
        Line("  z;"),
    ]
    text = render(lines, "k.cu")
    assert text == 'head\n#line 7 "a.py"\n  x;\n  y;\n}\n#line 7 "k.cu"\nnext\n  z;\n'
    assert text.splitlines()[7 - 1] == "next"


def test_pinned() -> None:
    """What becomes code stands at its line; braces, comments and pragmas need no directive."""
    text = (
        'head\n#line 7 "a.py"\n  #pragma unroll\n  for (;;) {\n    x;\n  }\n  // y\n  y;\n'
        '#line 9\n  z;\n#line 10\n  { u; }\n}\n#line 15 "k.cu"\nnext\n  last;\n'
    )
    assert pinned(text, "k.cu") == (
        'head\n  #pragma unroll\n#line 7 "a.py"\n  for (;;) {\n#line 7 "a.py"\n    x;\n  }\n'
        '  // y\n#line 7 "a.py"\n  y;\n#line 9 "a.py"\n  z;\n  { u; }\n#line 10 "a.py"\n}\n'
        '#line 15 "k.cu"\nnext\n  last;\n'
    )


def test_unused_numbers() -> None:
    """Numbers that nothing in their block reads go, and those that only they read; not what may
    have an effect."""
    text = """
  const int a = tp_uniform(tp_thread >> 5);
  const int b = a + 1;
  const int c = tp_atomic<TpAdd>(p, 1);
  const int d = x[0];
  if (a) {
    const int e = 4;
  }
  {
    const int e = 5;
    use(e);
  }
"""
    kept = "\n".join(each.text for each in without_unused([Line(t) for t in text.split("\n")]))
    assert "int b" not in kept
    assert "int e = 4" not in kept
    assert all(each in kept for each in ("int a", "int c", "int d", "int e = 5"))


def test_a_product_that_wgmma_cannot_read_has_its_headers() -> None:
    """A tile that is also seen as a vector is multiplied by mma; the planned wait stays."""
    kernel = tileprof.compile(importlib.import_module("tests.lowering_kernels").reshaped)
    program = lowered(kernel, "sm_90a")
    assert "tp_wgmma_wait<0>();" in program.source.text
    assert "tp_mma_m16n8k16_f16(" in program.source.text
    given = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float16)
    found = np.zeros((64, 64), np.float32)
    emulate(program.source, program.kernel, [given, found])
    np.testing.assert_array_equal(found, given.astype(np.float32) @ given.astype(np.float32))
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    assert program.cubin.bytes


@tileprof.jit
def stairs(A, least: int = 1, most: int = 9):
    N = T.const("N")
    A: T.Tensor((8, N), T.float32)
    with T.Kernel(8, threads=32) as bx:
        for k in T.serial(T.min(T.max(bx + 1, least), most)):
            for i in T.Parallel(32):
                A[bx, i] += k


@pytest.mark.parametrize(("least", "most", "words"), [
    (1, 9, []), (1, 8, []), (0, 8, []), (2, 8, ["tp_max"]), (1, 7, ["tp_min"]), (8, 9, []),
    (3, 2, []),
])  # fmt: skip
def test_a_minimum_that_is_known(least: int, most: int, words: list[str]) -> None:
    """What an index of a block cannot reach is not compared with; what it can is."""
    program = lowered(stairs.compile(N=32, least=least, most=most), "sm_90a")
    text = program.source.text
    assert [w for w in ("tp_max", "tp_min") if f"{w}<" in text] == words
    found = np.zeros((8, 32), np.float32)
    emulate(program.source, program.kernel, [found], {})
    turns = [min(max(bx + 1, least), most) for bx in range(8)]
    want = np.array([[sum(range(n))] * 32 for n in turns], np.float32)
    np.testing.assert_array_equal(found, want)
