"""Rings of slots against the ops that wait and arrive in the lowered kernel."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.drawing.kernels import product, ring, turned
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing import show
from tileprof.drawing.pipelines import Pipeline


def halves() -> list[np.ndarray]:
    """Operands of `ring`."""
    return [np.ones((128, 512), ml_dtypes.bfloat16) for _ in "AB"]


def test_a_ring_has_the_barriers_of_its_op() -> None:
    """Slots, bytes and arrivals are those of the `ring` op; the product frees its slot late."""
    made = show(ring, *halves())
    (held,) = made.machines[0].pipelines
    lowered = compile_cuda(made.watch.kernels[0], find_target("sm_90a")).kernel
    (op,) = (each for each in lowered.ops() if isinstance(each, ir.Ring))
    releases = [each for each in lowered.ops() if isinstance(each, ir.RingRelease)]
    assert (held.kind, held.slots, held.bytes) == ("mbarrier", op.stages, op.bytes)
    assert held.bytes == 2 * 128 * 64 * 2
    assert held.arrivals == op.consumers == 4
    assert held.lag == max(each.lag for each in releases)
    assert held.buffers == ("a", "b")
    assert {(each.op, each.buffer) for each in held.reads} == {
        ("async_gemm", "a"),
        ("async_gemm", "b"),
    }
    assert len({each.line for each in held.fills}) == 2


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_groups_of_cp_async_run_ahead(target: str) -> None:
    """Three slots: two groups are committed before an iteration waits for the older one."""
    ones = np.ones((70, 100), np.float32), np.ones((100, 40), np.float32)
    (held,) = show(product, *ones, target=target).machines[0].pipelines
    assert (held.kind, held.slots, held.pending, held.ahead) == ("cp.async", 3, 1, 2)
    assert held.buffers == ("a", "b")
    assert {each.op for each in held.reads} == {"gemm"}


def test_a_kernel_without_a_loop_has_no_slots() -> None:
    """Shared memory that is filled once is no ring."""
    found: tuple[Pipeline, ...] = show(turned, np.ones((64, 64), np.float32)).machines[0].pipelines
    assert found == ()
