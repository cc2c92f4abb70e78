"""What ops of lowered kernels are called, and which queues they start and wait for."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tileprof
from tests.cuda.compiled_kernels import kernel, lowered
from tests.ir.test_ir_text import EVERY_OP
from tileprof import ir
from tileprof.instrument.placement.stages import listed, op_name
from tileprof.instrument.placement.steps import Step, Steps, is_glue

marked: Any = importlib.import_module("tests.instrument.marked_kernels")


def steps_of(given: ir.Kernel, target: str = "sm_90a") -> list[tuple[ir.OpBase, Step]]:
    """The ops of a lowered kernel that have a step, in the order of the text."""
    made = lowered(given, target).kernel
    (launch,) = (op for op in made.body.ops if isinstance(op, ir.Launch))
    steps = Steps(launch)
    found = [(op, steps.of(op)) for op in ir.walk(launch.body)]
    return [(op, step) for op, step in found if step is not None]


def facts(name: str, target: str = "sm_90a") -> list[tuple[str, str, str, str, int]]:
    """Kind, name and queues of the steps of a kernel, without those inside of a `parallel`."""
    return list(
        dict.fromkeys(
            (s.kind, s.name, s.issues, s.retires, s.pending)
            for op, s in steps_of(kernel(name), target)
            if not isinstance(op, ir.Store)
        )
    )


def test_roles_of_a_product() -> None:
    """The producer's and the consumers' steps on one ring; a slot is freed behind its product."""
    ring = "ring of a, b"
    assert facts("small matmul") == [
        ("wait slot", "wait for a free slot", "", "", 0),
        ("load", "load A", ring, "", 0),
        ("load", "load B", ring, "", 0),
        ("compute", "fill c", "", "", 0),
        ("wait tile", "wait for a, b", "", ring, 0),
        ("issue", "gemm", "wgmma", "", 0),
        ("wait products", "wait for gemm", "", "wgmma", 0),
        ("barrier", "barrier", "", "", 0),
        ("write", "copy c → C_staged", "", "", 0),
        ("write", "write C", "bulk", "", 0),
        ("wait stores", "wait for stores of C", "", "bulk", 0),
    ]


def test_products_in_flight() -> None:
    """Slots that are freed late: a product runs on in the loop, and none behind it."""
    waits = [
        (s.retires, s.pending) for _, s in steps_of(kernel("gemm")) if s.kind == "wait products"
    ]
    assert waits == [("wgmma", 1), ("wgmma", 0)]


def test_groups_of_a_product() -> None:
    """Without roles: groups of cp.async, and products that are done at once."""
    found = facts("small matmul", "sm_80")
    assert ("load", "load A", "cp.async", "", 0) in found
    assert ("wait copies", "wait for a, b", "", "cp.async", 1) in found
    assert ("compute", "gemm", "", "", 0) in found
    assert ("write", "write C", "", "", 0) in found


def test_several_rings_and_sums_are_told_apart() -> None:
    """Slots by the tile, products by where their sums are."""
    names = [name for _, name, *_ in facts("flash_attention")]
    for name in (
        "wait for a free slot of Q_shared", "wait for a free slot of V_shared", "wait for K_shared",
        "gemm → scores", "wait for gemm → scores", "gemm → output", "reduce max → top",
        "compute scores (exp2)", "compute output (div)", "convert layout of scores",
    ):  # fmt: skip
        assert name in names


def test_elementwise_steps_say_what_they_are() -> None:
    """Loads, arithmetic and writes of a kernel without roles."""
    assert [name for _, name, *_ in facts("softmax")] == [
        "load X", "reduce max → top", "compute row (exp2)", "reduce sum → total",
        "compute row (div)", "write Y",
    ]  # fmt: skip


def test_index_arithmetic_and_glue_have_none() -> None:
    """They belong to the steps beside them."""
    made = lowered(tileprof.compile(marked.product).program.kernel, "sm_90a").kernel
    with_step = {type(op) for op, _ in steps_of(tileprof.compile(marked.product).program.kernel)}
    glue = {type(op) for op in made.ops() if is_glue(op)}
    assert glue >= {ir.RingCommit, ir.RingRelease, ir.Commit, ir.Fence}
    assert not with_step & (glue | {ir.Constant, ir.Binary, ir.View, ir.Alloc, ir.Ring})


@pytest.mark.parametrize(
    ("step", "title"),
    [
        (Step("load", "load A", ("A", "B", "A")), "load A, B"),
        (Step("write", "copy c → s", ("C",)), "write C"),
        (Step("compute", "fill c", ("fill", "gemm")), "compute (fill, gemm)"),
        (Step("compute", "compute c"), "compute"),
        (Step("barrier", "barrier"), "barrier"),
    ],
)
def test_titles_of_runs(step: Step, title: str) -> None:
    """What a run of steps is called."""
    assert step.title == title


def test_long_lists_are_cut() -> None:
    """Four names, then a sign that there are more."""
    assert listed("abcab") == "a, b, c"
    assert listed("abcdef") == "a, b, c, d, …"


def test_every_tile_op_has_a_name_and_a_step() -> None:
    """An op on tiles that is declared is measured, though no list names it."""
    kernel = ir.parse(EVERY_OP)
    (launch,) = [op for op in kernel.ops() if isinstance(op, ir.Launch)]
    found = {type(op): op for op in kernel.ops() if isinstance(op, ir.TILE_OPS)}
    assert set(found) == set(ir.TILE_OPS)
    for op in found.values():
        step = Steps(launch).of(op)
        assert op_name(op)
        assert step is not None
        assert step.name
