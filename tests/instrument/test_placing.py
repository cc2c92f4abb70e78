"""Marks: whichever way a warp goes through a kernel, they tell where it is and what goes on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import tileprof
from tests.cuda.compiled_kernels import STUDIES, kernel, lowered
from tests.instrument.walking import check_loops, check_scopes, check_steps, check_turns, walks
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.instrument import Mode, note_scopes, place_marks, strip_marks
from tileprof.instrument.placement.steps import Steps

marked: Any = importlib.import_module("tests.instrument.marked_kernels")
lowering: Any = importlib.import_module("tests.lowering_kernels")

MODES: tuple[Mode, ...] = ("scopes", "stages", "ops", "sample")
SMALL: dict[str, Any] = {
    "scoped product": marked.product,
    "branches": marked.branches,
    "whole turn": marked.whole_turn,
    "product": lowering.product(),
    "transpose": lowering.transpose,
}


@cache
def given(name: str) -> ir.Kernel:
    """A kernel by its name, before the passes for a GPU."""
    if name in SMALL:
        return tileprof.compile(SMALL[name]).program.kernel
    return kernel(name)


@cache
def made(name: str, mode: Mode, target: str = "sm_90a") -> ir.Kernel:
    """The kernel as it is after the pass that places marks."""
    seen: dict[str, ir.Kernel] = {}
    compile_cuda(given(name), find_target(target), instrument=mode, observe=seen.__setitem__)
    return seen["marks"]


# Attention without a mask is a loop of attention with one.
NAMES = [*SMALL, *(name for name in STUDIES if name != "flash_attention"), "gemm"]


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "sm_90a") for name in NAMES),
     *((name, "sm_80") for name in ("scoped product", "branches", "transpose", "matmul"))],
)  # fmt: skip
def test_marks_are_all_that_is_added(name: str, target: str) -> None:
    """A marked kernel is valid, goes through the text form, and is the plain one without them."""
    plain = ir.print_kernel(lowered(given(name), target).kernel)
    for mode in MODES:
        kernel = made(name, mode, target)
        ir.verify(kernel)
        text = ir.print_kernel(kernel)
        assert ir.print_kernel(ir.parse(text)) == text
        assert ir.print_kernel(strip_marks(kernel)) == plain
        if mode != "scopes":
            assert any(isinstance(op, ir.Mark) for op in kernel.ops())


def test_without_scopes_there_is_nothing_to_mark() -> None:
    """The kernel and its text are those of an unmeasured one."""
    clean = lowered(kernel("gemm"), "sm_90a")
    scoped = lowered(kernel("gemm"), "sm_90a", None, "scopes")
    assert ir.print_kernel(scoped.kernel) == ir.print_kernel(clean.kernel)
    assert scoped.source.text == clean.source.text
    assert scoped.source.headers == clean.source.headers
    assert scoped.source.launches[0].arguments == clean.source.launches[0].arguments


@pytest.mark.parametrize("name", ["scoped product", "branches"])
def test_off_leaves_no_trace_of_scopes(name: str) -> None:
    """The text is that of the kernel with its scopes taken apart by hand."""
    whole = given(name)

    def inline(op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Scope):
            return None
        builder.block.ops += op.body.ops
        return []

    bare = ir.rewrite(whole, inline)
    assert lowered(bare, "sm_90a").source.text == lowered(whole, "sm_90a").source.text


@pytest.mark.spread
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["scoped product", "branches", "whole turn", "softmax"])
def test_every_op_runs_in_its_scopes(name: str, mode: Mode) -> None:
    """Of what takes time: the scopes that are open are those of the author's text."""
    noted = note_scopes(given(name)).sites
    assert check_scopes(made(name, mode), noted, by_steps=mode != "scopes") > 50


@pytest.mark.parametrize("name", NAMES)
def test_every_step_runs_in_a_site_of_its_own(name: str) -> None:
    """In mode ops the innermost site is the step, and of a load's group the list of tensors."""
    assert check_steps(made(name, "ops")) > 10


@pytest.mark.spread
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_visits_end_with_the_turn_they_began_in(name: str, mode: Mode) -> None:
    """What lies inside of a loop is visited anew at each turn; what is around it goes on."""
    check_turns(made(name, mode))


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_is_visited_once(name: str) -> None:
    """Each time that control comes to it, however many turns it takes."""
    check_loops(made(name, "ops"))


def _launch(kernel: ir.Kernel) -> ir.Launch:
    return next(op for op in kernel.body.ops if isinstance(op, ir.Launch))


def test_no_op_without_a_mark_before_it() -> None:
    """A role begins with a mark, so that every step is in a state that was said."""
    for mode in MODES:
        for name in ("scoped product", "gemm", "flash_attention causal"):
            kernel = made(name, mode)
            if not kernel.states:
                continue
            for walk in walks(kernel, 5):
                for seen in walk:
                    if Steps(_launch(kernel)).of(seen.op) is not None:
                        assert seen.path is not None


def test_noted_scopes_are_no_part_of_a_place() -> None:
    """Two places are equal whatever the scope, so that nothing else changes."""
    noted = note_scopes(given("scoped product"))
    spans = [op.span for op in noted.ops() if op.span is not None]
    assert any(span.scope is not None for span in spans)
    assert all(span == replace(span, scope=None) for span in spans)
    assert [s.name for s in noted.sites] == ["main loop", "load", "multiply", "write back"]
    assert [s.parent for s in noted.sites] == [None, 0, 0, None]


def test_marks_are_placed_anew() -> None:
    """Of a marked kernel only the ops are looked at."""
    once = made("gemm", "ops")
    assert ir.print_kernel(place_marks(strip_marks(once), "ops")) == ir.print_kernel(once)
    assert ir.print_kernel(place_marks(once, "off")) == ir.print_kernel(strip_marks(once))


@pytest.mark.parametrize("mode", ["scopes", "stages", "ops"])
def test_marked_product(mode: Mode, golden: Callable[[str], None]) -> None:
    """The tables and the marks of a matrix product with scopes."""
    golden(ir.print_kernel(made("scoped product", mode)))
