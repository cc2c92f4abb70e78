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
from tests.instrument.walking import Seen, path_of, walks
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.instrument import Mode, note_scopes, place_marks, strip_marks
from tileprof.instrument.steps import Steps, is_glue

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


NAMES = [*SMALL, *STUDIES, "gemm"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_marks_are_all_that_is_added(name: str, target: str) -> None:
    """A marked kernel is valid, goes through the text form, and is the plain one without them."""
    if (name, target) == ("gemm", "sm_80"):
        pytest.skip("its tiles do not fit there")
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


def _sites(kernel: ir.Kernel, seen: Seen) -> list[str]:
    return [kernel.sites[at].name for at in seen.path or ()]


def _scopes(noted: tuple[ir.Site, ...], op: ir.OpBase) -> list[str]:
    """Names of the scopes around an op, from what its place says."""
    at = op.span.scope if op.span is not None else None
    found: list[str] = []
    while at is not None:
        found.append(noted[at].name)
        at = noted[at].parent
    return found[::-1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["scoped product", "branches", "whole turn", "softmax"])
def test_every_op_runs_in_its_scopes(name: str, mode: Mode) -> None:
    """Of what takes time: the scopes that are open are those of the author's text."""
    noted = note_scopes(given(name)).sites
    kernel = made(name, mode)
    checked = 0
    for walk in walks(kernel):
        for seen in walk:
            if is_glue(seen.op) or not seen.op.SPEC.effect or isinstance(seen.op, ir.Alloc):
                continue
            if mode != "scopes" and Steps(_launch(kernel)).of(seen.op) is None:
                continue
            open_ = [s for s in seen.path or () if kernel.sites[s].kind == "scope"]
            assert [kernel.sites[s].name for s in open_] == _scopes(noted, seen.op), seen
            checked += 1
    assert checked > 100


def _launch(kernel: ir.Kernel) -> ir.Launch:
    return next(op for op in kernel.body.ops if isinstance(op, ir.Launch))


@pytest.mark.parametrize("name", NAMES)
def test_every_step_runs_in_a_site_of_its_own(name: str) -> None:
    """In mode ops the innermost site is the step, and of a load's group the list of tensors."""
    kernel = made(name, "ops")
    steps = Steps(_launch(kernel))
    checked = 0
    for walk in walks(kernel):
        for seen in walk:
            step = steps.of(seen.op)
            if step is None:
                continue
            (*_, site) = [kernel.sites[s] for s in seen.path or ()]
            assert site.kind == "op"
            names = step.what if step.kind == "load" else (step.name,)
            assert all(each in site.name for each in names), (step, site)
            assert (site.issues, site.retires, site.pending) == (
                step.issues, step.retires, step.pending,
            )  # fmt: skip
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_visits_end_with_the_turn_they_began_in(name: str, mode: Mode) -> None:
    """What lies inside of a loop is visited anew at each turn; what is around it goes on."""
    kernel = made(name, mode)
    inside = _inside_loops(kernel)
    for walk in walks(kernel):
        first: dict[int, Seen] = {}
        for seen in walk:
            for site, visit in zip(seen.path or (), seen.visits, strict=True):
                began = first.setdefault(visit, seen)
                for loop, turn in began.turns:
                    if site in inside.get(loop, ()):
                        assert (loop, turn) in seen.turns, (kernel.sites[site], seen)


def _inside_loops(kernel: ir.Kernel) -> dict[ir.OpBase, set[int]]:
    """The sites that are only marked inside of each loop."""
    found: dict[ir.OpBase, set[int]] = {}
    everywhere = [op for op in kernel.ops() if isinstance(op, ir.Mark)]
    for loop in kernel.ops():
        if isinstance(loop, (ir.For, ir.While)):
            own = {o for b in loop.blocks() for o in ir.walk(b) if isinstance(o, ir.Mark)}
            outside = {
                s
                for m in everywhere
                if m not in own
                for s in path_of(kernel, kernel.states[m.state].site)
            }
            held = {s for m in own for s in path_of(kernel, kernel.states[m.state].site)}
            found[loop] = held - outside
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_visit_is_not_cut(name: str) -> None:
    """Between two ops of one region, a loop or a prologue, there is no second visit: each loop's
    site is entered once for each time that control comes to the loop."""
    kernel = made(name, "ops")
    for walk in walks(kernel):
        visits: dict[tuple[int, object], set[int]] = {}
        for seen in walk:
            for depth, (loop, _) in enumerate(seen.turns):
                around = seen.turns[:depth]
                for site, visit in zip(seen.path or (), seen.visits, strict=True):
                    if kernel.sites[site].name == f"loop {_variable(loop)}":
                        visits.setdefault((site, (loop, around)), set()).add(visit)
        assert all(len(held) == 1 for held in visits.values())


def _variable(loop: ir.OpBase) -> str:
    return loop.body.args[0].name if isinstance(loop, ir.For) else ""


def test_no_op_without_a_mark_before_it() -> None:
    """A role begins with a mark, so that every step is in a state that was said."""
    for mode in MODES:
        for name in ("scoped product", "gemm", "flash_attention"):
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
