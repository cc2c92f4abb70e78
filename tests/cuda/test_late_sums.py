# mypy: disable-error-code="no-untyped-call, no-any-return"
"""Sums of loops that are added up across threads once, after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.studies import study
from tests.cuda import test_attention_emulated as attention
from tests.cuda.compiled_kernels import compile_together, function, need_machine_code
from tests.cuda.emulated import Joined
from tests.cuda.sum_kernels import JUMPS, PLACES, WORDS, SumKernel
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.layouts import SumsEachTime

Parts = tuple[tuple[str, tuple[str, ...]], ...]
LOOP: Parts = (("loop", ("scale", "sum")),)


def lowered(form: SumKernel, late: bool = True) -> CudaProgram:
    """What a kernel becomes."""
    return compile_cuda(form.kernel(), find_target("sm_90a"), Controls(late_sums=late))


def check(*forms: SumKernel, seed: int = 0) -> list[CudaProgram]:
    """They compute what NumPy does in float64; the numbers are such that float32 is exact."""
    programs = [lowered(form) for form in forms]
    joined = Joined(program.source for program in programs)
    for form, program in zip(forms, programs):
        found = form.arguments(seed)
        expected = form.expected(found)
        joined.emulate(program.source, program.kernel, found, seed=seed)
        given = np.asarray(found[-1], np.float64)
        np.testing.assert_array_equal(given, expected, err_msg=str(form))
    return programs


def ends(program: CudaProgram) -> list[ir.AllReduce]:
    """Where sums become whole."""
    return [o for o in program.kernel.ops() if isinstance(o, ir.AllReduce)]


def partial(program: CudaProgram) -> list[bool]:
    """Of each sum, whether threads keep their parts."""
    return [o.partial for o in program.kernel.ops() if isinstance(o, ir.Reduce)]


def reasons(program: CudaProgram) -> list[str]:
    """Why sums are not late, with lines as distances from the first line of `steps`."""
    return [str(r.rejected[0].reason) for r in program.remarks if r.op == "reduce" and r.rejected]


def line_of(text: str) -> int:
    """The first line of `sum_kernels.py` that begins so."""
    from tests.cuda import sum_kernels

    with open(sum_kernels.__file__, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if line.strip().startswith(text))


# -- what the pass leaves


def test_the_pass(golden: Callable[[str], None]) -> None:
    """The kernel after it: parts in the loop, the sum in front of its use, as the text says."""
    stages: dict[str, ir.Kernel] = {}
    form = SumKernel((("loop", ("scale", "sum", "join")),), rows=4, columns=256)
    compile_cuda(form.kernel(), find_target("sm_90a"), observe=lambda n, k: stages.update({n: k}))
    made = stages["late_sums"]
    ir.verify(made)
    text = ir.print_kernel(made)
    assert ir.print_kernel(ir.parse(text)) == text
    golden(text)


def test_a_loop_exchanges_nothing() -> None:
    """Neither by shuffles nor, where several warps share a row, through shared memory."""
    need_machine_code()
    forms = {rows: SumKernel(LOOP, rows=rows, columns=512, threads=128) for rows in (8, 2)}
    late = dict(zip(forms, check(*forms.values())))
    pairs = {rows: (lowered(form, late=False), late[rows]) for rows, form in forms.items()}
    compile_together(program for pair in pairs.values() for program in pair)
    for rows, (before, after) in pairs.items():
        (end,) = ends(after)
        assert (end.scratch is not None) == bool(end.warps) == (rows == 2)
        for program, count in ((before, 1), (after, 0)):
            whole = function(program)
            (loop,) = whole.loops
            found = Counter(i.name for i in whole.inside(loop))
            assert bool(found["SHFL"]) == bool(count)
            assert bool(found["BAR"]) == bool(count and end.warps)
        # The memory of the exchange is there once.
        assert sum("scratch" in (o.result.name or "") for o in _shared(after)) == bool(end.warps)


def _shared(program: CudaProgram) -> list[ir.Alloc]:
    found = [o for o in program.kernel.ops() if isinstance(o, ir.Alloc)]
    return [o for o in found if o.space == "shared"]


def test_a_part_that_is_added_to_a_total() -> None:
    """The sum of an iteration goes into the total; its own fragment is gone."""
    for program in check(*(SumKernel((("loop", (word,)),)) for word in ("join", "fma"))):
        assert partial(program) == [True]
        names = {o.result.name for o in program.kernel.ops() if isinstance(o, ir.Alloc)}
        assert "total" in names
        assert "part" not in names


TAKEN: dict[str, tuple[Parts, int]] = {
    "in a row": ((("once", ("sum",)), ("once", ("scale", "sum"))), 1),
    "loops in a row": ((*LOOP, ("once", ("sum",)), *LOOP), 1),
    "a loop in a loop": ((("nested", ("scale", "sum", "odd")),), 1),
    "a loop that is left": ((("loop", ("sum", "leave", "negate")),), 1),
    "a turn that is cut short": ((("loop", ("sum", "next", "abs")),), 1),
    "in a branch": ((("branch", ("sum", "scale")), *LOOP), 1),
    "cleared on the way": ((("loop", ("sum", "clear", "abs")),), 1),
    "used, and cleared for another": ((*LOOP, ("once", ("use", "clear")), *LOOP), 2),
    "two in each turn of a loop": ((("loop", ("clear", "sum", "abs", "use")),), 1),
    "two in each turn, and the turn ends": ((("loop", ("use", "clear", "sum", "abs")),), 1),
    "two in a turn that may be cut short": ((("loop", ("clear", "sum", "abs", "next", "use")),), 1),
}
"""Parts of kernels, and how often they add up across threads."""


def test_taken() -> None:
    """Sums that are late, wherever they begin and end."""
    forms = {name: (SumKernel(parts), count) for name, (parts, count) in TAKEN.items()}
    # Where sums begin and end is no matter of their type.
    parts, count = TAKEN["in a branch"]
    forms["integers"] = (SumKernel(parts, totals="int32", dtype="int8"), count)
    programs = check(*(form for form, _ in forms.values()))
    for (name, (_, count)), program in zip(forms.items(), programs):
        assert len(ends(program)) == count, name
        assert all(partial(program)), name
        assert not reasons(program), name


def test_a_part_that_is_more() -> None:
    """It is used itself, or what it is of has changed, or the total is used at once."""
    forms = {word: SumKernel((("loop", (word,)),)) for word in ("shown", "flip", "peek")}
    for word, program in zip(forms, check(*forms.values())):
        assert partial(program) == [False], word
        assert not ends(program), word


def test_a_sum_that_would_be_added_up_as_often() -> None:
    """It stays as it is."""
    forms = [SumKernel(((p, words),)) for p, words in
             (("once", ("sum",)), ("loop", ("clear", "sum", "use")))]  # fmt: skip
    for program in check(*forms):
        assert partial(program) == [False]
        assert not ends(program)
        assert not reasons(program)


def test_threads_with_rows_of_their_own() -> None:
    """There is nothing to exchange."""
    (program,) = check(SumKernel(LOOP, rows=256, columns=4, threads=32))
    assert partial(program) == [False]
    assert not [r for r in program.remarks if r.op == "reduce"]


# -- refusals


STORED = "Y[number, i] = total[i]"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "used in the loop": (
        {"parts": (("loop", ("sum", "use")),)},
        f"line {line_of(STORED)} uses `total`, and not to scale it",
    ),
    "used after it, and added to again": (
        {"parts": (*LOOP, ("once", ("use",)), *LOOP)},
        f"line {line_of(STORED)} uses `total`, and not to scale it",
    ),
    "begins as 1": (
        {"parts": LOOP, "start": 1},
        f"line {line_of('T.fill(total, form.start)')} sets `total`, and not to 0 or a multiple",
    ),
    "float16": (
        {"parts": LOOP, "totals": "float16", "dtype": "float16"},
        "the parts of `total` would be rounded to float16",
    ),
    "a sum that is used by itself": (
        {"parts": (("loop", ("shown", "sum")),)},
        f"line {line_of('total[i] = total[i] * factor[i] + shown[i]')} uses `total`, and not "
        "to scale it",
    ),
}


@pytest.mark.spread("used in the loop", "begins as 1", "float16")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """A remark at the sum says which line is in the way."""
    given, expected = REFUSED[name]
    program = lowered(SumKernel(**given))
    assert reasons(program) == [expected]
    said = next(r for r in program.remarks if r.subject == "reduce sum" and r.rejected)
    assert said.location is not None
    assert said.location.line == line_of("T.reduce_sum(x, total, dim=1, clear=False)")
    assert isinstance(said.decision, SumsEachTime)
    assert said.severity == "info"


def test_off() -> None:
    """With the control nothing changes, and nothing is said."""
    program = lowered(SumKernel((("loop", ("scale", "sum", "join")),)), late=False)
    assert partial(program) == [False, False]
    assert not ends(program)
    assert not [r for r in program.remarks if r.op == "reduce"]


# -- any of them


@st.composite
def forms(draw: st.DrawFn) -> SumKernel:
    """Parts in a row, of any words; rows lie in lanes, in warps, in both, and in copies."""

    def part() -> tuple[str, tuple[str, ...]]:
        place = draw(st.sampled_from(PLACES))
        words = draw(st.lists(st.sampled_from(WORDS), max_size=4))
        if place in ("loop", "nested"):
            words.insert(draw(st.integers(0, len(words))), draw(st.sampled_from(("", *JUMPS))))
        return place, tuple(w for w in words if w)

    totals = draw(st.sampled_from(["float32", "float32", "int32"]))
    parts = tuple(part() for _ in range(draw(st.integers(1, 3))))
    if totals == "int32":
        parts = tuple((p, tuple(w for w in words if w != "fma")) for p, words in parts)
    rows, columns, threads = draw(
        st.sampled_from(
            [(16, 32, 64), (4, 64, 64), (1, 96, 128), (2, 512, 128), (5, 33, 32), (4, 8, 128)]
        )
    )
    dtype = draw(st.sampled_from(["float32", "float16"])) if totals == "float32" else "int8"
    start = draw(st.sampled_from([0, 0, 0, 2]))
    return SumKernel(parts, rows, columns, threads, dtype, totals, start)


@given(drawn=st.lists(forms(), min_size=5, max_size=5), seed=st.integers(0, 99))
@settings(max_examples=2)
def test_any(drawn: list[SumKernel], seed: int) -> None:
    """Right, whatever was decided."""
    for program in check(*drawn, seed=seed):
        ir.verify(program.kernel)


# -- attention


Case = tuple[Any, list[Any], dict[str, int], Any]
"""A kernel, what it is given, extents known at launch, and what comes out."""


def forward() -> Case:
    """Two heads of queries, one of keys."""
    made = study("attention")
    given = list(made.inputs(1, 130, 300, 2, 1, 64))
    shape = {"batch": 1, "length": 130, "heads": 2, "dim": 64, "keys": 300, "groups": 1}
    kernel = made.attention.compile(**shape, causal=True)
    return kernel, given, {}, made.reference(*given, True)[0]


def several() -> Case:
    """Sequences of different lengths, one of them empty."""
    made = study("attention_varlen")
    given = list(made.inputs((70, 0, 131, 1), (70, 3, 200, 1), 2, 1, 64))
    shape = {"heads": 2, "dim": 64, "groups": 1, "ends": 5, "longest": 131}
    kernel = made.attention_varlen.compile(**shape, causal=True)
    return kernel, given, {"total_rows": 202, "total_keys": 274}, made.reference(*given, True)


def paged() -> Case:
    """Eight warps share a row, so that the sum goes through shared memory."""
    made = study("paged_attention")
    given = list(made.inputs((70, 128, 1), 16, 2, 64))
    shape = {"batch": 3, "heads": 16, "groups": 2, "dim": 64, "pages": 5, "size": 64, "most": 2}
    return made.paged_attention.compile(**shape, splits=1), given, {}, made.reference(*given)


def classic() -> Case:
    """Sums of a turn have a fragment of their own."""
    made = study("flash_attention")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((1, 130, 2, 64), dtype=np.float32) for _ in range(3)]
    kernel = made.flash_attention(1, 2, 130, 64, True)
    return kernel, given, {}, made.reference(*given, True)


ATTENTION: dict[str, Callable[[], Case]] = {
    "causal": forward,
    "several": several,
    "paged": paged,
    "classic": classic,
}


ALONE = ("classic",)
"""Those that run here.  The others are results of `test_attention_emulated.py`."""


@pytest.mark.spread("causal", "paged")
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    """Every sum of softmax is late, once for all loops of a block, and right in several orders of
    threads."""
    made, given, extents, expected = ATTENTION[name]()
    kernel: ir.Kernel = made.program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    sums = [o for o in program.kernel.ops() if isinstance(o, ir.Reduce) and o.kind == "sum"]
    assert sums
    assert all(o.partial for o in sums)
    assert len(ends(program)) == 1
    for seed in (2, 3) if name in ALONE else ():
        arrays = attention.arguments(kernel, given, extents)
        emulate(program.source, program.kernel, arrays, extents, seed=seed)
        out = next(p for p in kernel.params if p.name in ("Out", "Output"))
        found = np.asarray(arrays[kernel.params.index(out)], np.float64)
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert error < attention.LIMIT


SHAPE = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16, "dim": 128}


@pytest.mark.sweep
def test_shuffles_of_a_turn() -> None:
    """Four for maxima of two rows each, none for sums; nothing is spilled, and a turn adds 64
    numbers: those of two rows into two totals."""
    kernel = study("attention").attention.compile(**SHAPE).program.kernel
    whole = function(compile_cuda(kernel, find_target("sm_90a")))
    loops = [[i.name for i in whole.inside(loop)] for loop in whole.loops]
    turns = [names for names in loops if names.count("HGMMA") == 16]
    shortest = min(turns, key=len)
    turn = Counter(shortest)
    assert not {"LDL", "STL"} & {i.name for i in whole.reachable()}
    assert (turn["SHFL"], turn["FADD"]) == (4, 64)
