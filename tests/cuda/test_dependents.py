# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.
"""Launches that start while the one before them on their stream ends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import binary, ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.launches import StartsEarly, StartsLate


def thrice() -> ir.Kernel:
    """Each launch reads, in another order, what the one before it wrote."""

    @T.prim_func
    def thrice(
        A: T.Tensor((256,), "float32"),
        B: T.Tensor((256,), "float32"),
        C: T.Tensor((256,), "float32"),
    ) -> None:
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] + 1
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = B[255 - bx * 128 - i] * 2
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = C[255 - bx * 128 - i]

    held: ir.Kernel = tileprof.compile(thrice).program.kernel
    return held


def compiled(target: str = "sm_90a", **controls: Any) -> CudaProgram:
    """The kernel for a target."""
    return compile_cuda(thrice(), find_target(target), Controls(**controls))


def functions(program: CudaProgram) -> list[str]:
    """The text of each function."""
    return program.source.text.split('extern "C"')[1:]


def test_waits_stand_first() -> None:
    """Before all reads, none of which is of memory that is said to change never."""
    program = compiled(early_launch=True)
    assert [spec.waits for spec in program.source.launches] == [True, True, True]
    for text in functions(program):
        calls = re.findall(r"^ +(tp_\w+)\(", text, re.M)
        assert calls[:2] == ["tp_launch_dependents", "tp_wait_dependencies"]
        assert text.count("tp_wait_dependencies") == 1
        assert "[" not in text[text.index("{") : text.index("tp_wait_dependencies")]
        assert "__restrict__" not in text


@pytest.mark.sweep
def test_machine_code_reads_after_the_wait() -> None:
    """`ACQBULK` is the wait; reads past a cache that would not see writes are there without it."""
    held = binary.read(compiled(early_launch=True).cubin.bytes).functions
    for name in ("thrice_0", "thrice_1", "thrice_2"):
        lines = binary.listing(held[name]).split("\n")
        wait = next(n for n, text in enumerate(lines) if "ACQBULK" in text)
        reads = [n for n, text in enumerate(lines) if "LDG" in text]
        assert reads
        assert min(reads) > wait
        assert not any("CONSTANT" in lines[n] for n in reads)


def test_only_where_it_is_asked_for() -> None:
    """And only by an architecture that can; a remark says so."""
    assert not any("dependen" in text for text in functions(compiled()))
    old = compiled("sm_80", early_launch=True)
    assert not any("dependen" in text for text in functions(old))
    told = [r for r in old.remarks if isinstance(r.decision, StartsLate)]
    assert len(told) == 3
    new = compiled(early_launch=True)
    told = [r for r in new.remarks if isinstance(r.decision, StartsEarly)]
    assert len(told) == 3


@pytest.mark.parametrize("early", [False, True])
def test_results(early: bool) -> None:
    """On the emulated GPU, which runs one launch after the other."""
    kernel, a = thrice(), np.arange(256, dtype=np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    source = compile_cuda(kernel, find_target("sm_90a"), Controls(early_launch=early)).source
    emulate(source, kernel, [a, b, c])
    np.testing.assert_array_equal(b, (a + 1) * 2)
