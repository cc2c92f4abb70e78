"""Random pipelined loops on the emulated GPU against the interpreter, to the bit: whole numbers
whose sums every type holds.

The random kernels of `test_cuda_differential.py` are of tiny tiles; here tiles are as large as
tensor cores and asynchronous copies take them, and what is drawn is how loads, products and control
flow are put together, which target it is for, and what the compiler may use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cuda.emulated import Joined
from tests.cuda.random_pipelines import WORDS, Pipeline
from tests.everywhere import arrays_of, compiled_for, hardly_aligned
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.errors import KernelError
from tileprof.runtime.interpreter import InterpreterExecutable

DTYPES = ["bfloat16", "float16", "float32", "int8", "float8_e4m3"]
SIZES = [1, 7, 31, 64, 72, 96, 127, 128]
LENGTHS = [1, 7, 32, 63, 100, 101, 128, 160]
EVEN = [64, 128, 192, 256]
"""Sizes with which TMA has no difficulty."""
TILES = [(64, 64, 32), (64, 64, 64), (128, 64, 32), (64, 32, 64)]
LARGE = [(256, 128, 32), (256, 72, 32), (128, 96, 32), (64, 160, 64), (128, 192, 32), (64, 224, 32)]
"""Tiles that go in slices, and results as wide as few instructions are."""
SMALL = [(1, 8), (1, 16), (2, 8), (3, 16), (3, 32), (5, 40), (2, 48), (9, 80)]
"""Tiles of few bytes, and panels of few rows."""
SINGLE = {"touch", "plain", "leave", "next", "guard"}
"""Words that keep loads from a producer warp group."""


@st.composite
def pipelines(draw: st.DrawFn, smooth: bool) -> Pipeline:
    """A form of the loop; `smooth` ones have what the fastest instructions ask for."""
    words: set[str] = draw(st.sets(st.sampled_from(WORDS), max_size=3))
    if smooth:
        words -= SINGLE
    if "chain" in words:
        words -= {"skip", "two", "same", "computed"}
    if "skip" in words or "computed" in words or "chain" in words:
        words -= {"scaled"}
    if "computed" in words:
        words -= {"skip"}
    if "two" in words:
        words -= {"same"}
    dtype = draw(st.sampled_from(DTYPES))
    rows = smooth and dtype not in ("bfloat16", "float16")
    if rows and "chain" in words:
        words |= {"turned"}
    symbols = not smooth and "shaped" not in words and draw(st.booleans())
    return Pipeline(
        m=draw(st.sampled_from(EVEN if smooth else SIZES)),
        n=draw(st.sampled_from(EVEN if smooth else SIZES)),
        k=draw(st.sampled_from(EVEN if smooth else LENGTHS)),
        tile=draw(st.sampled_from(TILES * 4 + LARGE)),
        dtype=dtype,
        ta=not rows and draw(st.booleans()),
        tb=rows or draw(st.booleans()),
        stages=draw(st.integers(2 if smooth else 1, 4)),
        threads=draw(st.sampled_from([128, 256])),
        words=frozenset(words),
        symbols=symbols,
        small=draw(st.sampled_from(SMALL)),
        turns=draw(st.sampled_from([None, None, 0, 1, 2, 7])),
    )


@st.composite
def allowed(draw: st.DrawFn, smooth: bool) -> Controls:
    """What the compiler may use."""
    names = ["vectorize", "rasterize", "delayed_release", "overlap", "peel", "late_sums"]
    if not smooth:
        names += ["swizzle", "async_copy", "tma", "wgmma", "tensor_cores", "warp_specialization"]
    options: dict[str, Any] = dict.fromkeys(
        draw(st.sets(st.sampled_from(names), max_size=2)), False
    )
    options["persistent"] = draw(st.sampled_from([None, True, True, False]))
    options["tile_order"] = draw(st.sampled_from([None, None, "static", "dynamic"]))
    options["ping_pong"] = draw(st.sampled_from([None, None, True, False]))
    options["stages"] = draw(st.sampled_from([None, None, 3] if smooth else [None, None, 1, 3]))
    if smooth:
        options["cluster"] = draw(st.sampled_from([None, None, 2, 4]))
    return Controls(**options)


@st.composite
def both(draw: st.DrawFn) -> tuple[Pipeline, Controls]:
    """A loop and what may be used for it."""
    smooth = draw(st.booleans())
    return draw(pipelines(smooth)), draw(allowed(smooth))


def check(
    pipeline: Pipeline, target: str, controls: Controls, seeds: int = 2, *, aligned: bool = True
) -> bool:
    """Whether the kernel fits; what it computes is what the interpreter does, for several orders of
    threads and of late data."""
    kernel, extents = pipeline.kernel(), pipeline.extents()
    unaligned = frozenset[int]() if aligned else arrays_of(kernel)
    try:
        program = compiled_for(kernel, target, controls, extents, unaligned)
    except KernelError as error:
        if "of shared memory" not in error.message:
            raise
        return False
    compare(pipeline, kernel, program, emulate, seeds, aligned=aligned)
    return True


def compare(
    pipeline: Pipeline, kernel: ir.Kernel, program: CudaProgram, run: Callable[..., object],
    seeds: int = 2, *, aligned: bool = True,
) -> None:  # fmt: skip
    """The program computes what the interpreter does."""
    ir.verify(program.kernel)
    extents, expected = pipeline.extents(), pipeline.arguments()
    InterpreterExecutable(kernel).run(expected, [extents[s] for s in kernel.symbols])
    for seed in range(seeds):
        found = pipeline.arguments() if aligned else hardly_aligned(pipeline.arguments())
        run(program.source, program.kernel, found, extents, seed=seed)
        for param, one, other in zip(kernel.params, found, expected, strict=True):
            same = np.asarray(one, np.float64), np.asarray(other, np.float64)
            np.testing.assert_array_equal(*same, err_msg=param.name)


@given(
    target=st.sampled_from(["sm_90a", "sm_80"]),
    drawn=both(),
    aligned=st.sampled_from([True, True, True, False]),
)
@settings(max_examples=examples(9), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_pipelines(target: str, drawn: tuple[Pipeline, Controls], aligned: bool) -> None:
    """Any of them, with any controls, and tensors at any address."""
    pipeline, controls = drawn
    check(pipeline, target, controls, aligned=aligned)


FOUND = {
    "a copy in place beside others that run ahead": (
        Pipeline(dtype="float32", words=frozenset({"touch", "two"})), Controls(),
    ),
    "a gather whose extents are constants of the loop around": (
        Pipeline(m=1, n=64, k=1, words=frozenset({"plain", "two"})), Controls(),
    ),
    "rows known at launch that TMA cannot copy": (
        Pipeline(m=1, n=1, k=1, tile=(64, 64, 32), tb=True, stages=1, symbols=True), Controls(),
    ),
    "rows known at launch that have no chunks": (
        Pipeline(m=7, n=31, k=63, tile=(64, 64, 32), symbols=True), Controls(tma=False, stages=3),
    ),
    "two loops, of which one only has tiles for a producer": (
        Pipeline(m=64, n=64, words=frozenset({"again", "guard"})), Controls(),
    ),
    "slots of a small tile, and of a row, where TMA cannot begin": (
        Pipeline(m=128, n=128, words=frozenset({"small"}), small=(3, 8), stages=3),
        Controls(persistent=True),
    ),
    "panels of few rows where TMA cannot begin": (
        Pipeline(words=frozenset({"small", "two"}), small=(3, 48), stages=3), Controls(),
    ),
    "tiles stored by TMA at one place, turn by turn": (
        Pipeline(
            m=192, n=192, k=64, tb=True, threads=256, words=frozenset({"guard", "writes"})
        ), Controls(),
    ),
}  # fmt: skip
"""What random ones have shown."""


OF_TMA = (
    "rows known at launch that TMA cannot copy", "tiles stored by TMA at one place, turn by turn",
)  # fmt: skip
"""Those that only a target with TMA takes another way for."""


CASES = [
    *((name, "sm_90a") for name in FOUND),
    *((name, "sm_80") for name in FOUND if name not in OF_TMA),
]


@cache
def found() -> tuple[dict[tuple[str, str], CudaProgram], Joined]:
    """The programs of all cases, and their joint text."""
    made = {}
    for name, target in CASES:
        pipeline, controls = FOUND[name]
        made[name, target] = compiled_for(pipeline.kernel(), target, controls, pipeline.extents())
    return made, Joined(program.source for program in made.values())


@pytest.mark.spread
@pytest.mark.parametrize(("name", "target"), CASES)
def test_found(name: str, target: str) -> None:
    """Loops that were once lowered wrongly."""
    programs, joined = found()
    pipeline, _ = FOUND[name]
    compare(pipeline, pipeline.kernel(), programs[name, target], joined.emulate)


@pytest.mark.spread("words0")
@pytest.mark.parametrize("words", [("two", "again"), ("outer", "rows"), ("chain", "before")])
def test_masked(words: tuple[str, ...]) -> None:
    """One loop as three, beside others and inside of one."""
    pipeline = Pipeline(m=256, k=256, words=frozenset({"masked", *words}))
    kernel = pipeline.kernel()
    program = compile_cuda(kernel, find_target("sm_90a"))
    compare(pipeline, kernel, program, emulate)
    said = [str(r.decision) for r in program.remarks if r.subject == "loop k"]
    assert len(said) == 1
    assert said[0].startswith("the first and last iterations have the mask")
