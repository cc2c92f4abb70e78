# mypy: disable-error-code="valid-type, no-untyped-def"
"""Assertions that a tile program checks on the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tileprof
import tileprof.lang as T
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only
from tileprof.ir import plain_kernel
from tileprof.profile import Profile


@tileprof.jit
def added(X: T.Tensor((64, 4096), T.float32)):  # noqa: ANN201
    """Add up rows, and check each sum."""
    Y = T.empty((4096,), T.float32)
    with T.Kernel(8, threads=128) as b:
        sums = T.alloc_fragment((512,), T.float32)
        T.clear(sums)
        for k in T.serial(64):
            for i in T.Parallel(512):
                sums[i] += X[k, b * 512 + i]
                T.device_assert(sums[i] == sums[i])
        T.copy(sums, Y[b * 512 : b * 512 + 512])
    return Y


def checked(waiting: int, issued: int) -> Profile:
    """`added` with samples at its assertion, 100 of all 1,000 of which issue."""
    kernel = plain_kernel(added.compile().program.kernel)
    line = next(op.line for op, _ in kernel.nested if op.name == "assert")
    code = [
        ("LDG.E R2, desc[UR8][R4.64]", {"long_scoreboard": 900 - waiting}, 1, line - 1),
        ("FADD R3, R2, R3", {"selected": 100 - issued}, 1, line - 1),
        ("FSETP.NEU.AND P0, PT, R3, R3, PT", {"wait": waiting, "selected": issued}, 1, line),
        ("@!P1 BRA 0x0", {}, 1, line - 2),
        ("EXIT", {}, 0, line + 1),
    ]
    held = on_h200(Made(code=code, attributes=launch(128)))
    (info,) = held.tables.kernels
    tables = replace(held.tables, kernels=(replace(info, program=kernel),))
    return replace(held, tables=tables)


@pytest.mark.parametrize(("waiting", "issued", "part"), [(400, 20, 0.42), (0, 60, 0.6)])
def test_what_is_larger_of_time_and_issue_slots_goes(
    waiting: int, issued: int, part: float
) -> None:
    """Waits for the values that are checked stand at the statements beside the check."""
    finding = only(checked(waiting, issued), "redundant-work")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - part), rel=1e-3)
    assert finding.kernel_gain.low < finding.kernel_gain.mid < finding.kernel_gain.high


def test_a_check_that_takes_no_time() -> None:
    """Nothing is suggested."""
    assert [e.severity for e in found(checked(0, 0), "redundant-work")] == ["ignore"]
