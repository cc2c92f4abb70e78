"""One meaning: random kernels give the same results on every device and after every pass.

Exact results (integers, and floats through ops that are rounded once) are equal to the bit, zeros
of both signs taken as one.  The others are compared relative to the largest number of the tensor,
since sums in another order and library functions differ by a few units in the last place:

    float32   1e-5   (2**-24 a step, some ten sums of up to six terms)
    float64   1e-13  (2**-53 a step)

The other types hold exact results only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spread import examples
from tests.strategies import Case, cases, kernels
from tileprof import ir
from tileprof.compiler.build import find_compiler
from tileprof.compiler.codegen import emit
from tileprof.compiler.passes import decide, prove_bounds, set_aside, simplify
from tileprof.compiler.work import estimate
from tileprof.instrument import Mode, insert, strip
from tileprof.runtime.cpu.executable import CpuExecutable
from tileprof.runtime.device import RunResult
from tileprof.runtime.interpreter import InterpreterExecutable, OpClock

pytestmark = pytest.mark.usefixtures("optimised")

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
MODES: tuple[Mode, ...] = ("off", "scopes", "stages", "ops")

slow_draw = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
few = settings(max_examples=examples(20), deadline=None, suppress_health_check=slow_draw)


def _run(case: Case, kernel: ir.Kernel, batch: int | None = None) -> list[Any]:
    """The arguments after a run by the interpreter, `batch` blocks at once."""
    arguments = case.arguments()
    InterpreterExecutable(kernel, clock=OpClock(), batch=batch).run(arguments, case.extents)
    return arguments


def _same(case: Case, found: list[Any], expected: list[Any]) -> None:
    for param, exact, a, b in zip(case.kernel.params, case.exact, found, expected, strict=True):
        if not isinstance(param.type, ir.BufferType):
            continue
        x, y = (
            np.asarray(v).astype(np.float64 if v.dtype.kind != "i" else v.dtype) for v in (a, b)
        )
        if exact:
            np.testing.assert_array_equal(x, y, param.name)
            continue
        largest = np.max(np.abs(y[np.isfinite(y)]), initial=1.0)
        atol = TOLERANCE[param.type.dtype.name] * largest
        np.testing.assert_allclose(x, y, rtol=0, atol=atol, err_msg=param.name)


# Drawing a kernel at random takes most of the time, so each one is used for several checks.
@given(kernels())
@few
def test_random_kernels_keep_their_form(kernel: ir.Kernel) -> None:
    """A kernel is legal and the same after `parse(print_kernel(k))`; in every mode what is inserted
    is valid, and `strip` gives the kernel back to the letter; simplifying twice is simplifying
    once."""
    ir.verify(kernel)
    text = ir.print_kernel(kernel)
    assert ir.print_kernel(ir.parse(text)) == text
    located = ir.print_kernel(kernel, locations=True)
    for mode in MODES:
        inserted = insert(kernel, mode)
        ir.verify(inserted)
        assert ir.print_kernel(strip(inserted), locations=True) == located
    once = simplify(kernel)
    ir.verify(once)
    assert ir.print_kernel(simplify(once)) == ir.print_kernel(once)


@given(cases())
@few
def test_random_kernels_keep_their_results(case: Case) -> None:
    """The kernel as drawn, after each pass and with records computes the same, with one block at a
    time and with all at once; where loops and branches hang on indices alone its work is exact."""
    expected = _run(case, case.kernel)
    _same(case, _run(case, case.kernel, batch=1), expected)
    simple = simplify(case.kernel)
    decided = decide(simple)
    apart = set_aside(decided)
    proved = prove_bounds(apart)
    for kernel in (simple, decided, apart, proved, insert(proved, "ops")):
        _same(case, _run(case, kernel), expected)
    extents = dict(zip(case.kernel.symbols, case.extents, strict=True))
    work = estimate(case.kernel).evaluate({"n": 3}, extents)
    assert work.exact == (not work.reason)
    assert work.flops >= 0
    assert work.bytes > 0


def _after_passes(kernel: ir.Kernel) -> ir.Kernel:
    return prove_bounds(set_aside(decide(simplify(kernel))))


def _measured(kernel: ir.Kernel) -> ir.Kernel:
    return insert(_after_passes(kernel), "ops")


VARIANTS = {"as drawn": set_aside, "after passes": _after_passes, "measured": _measured}


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
@given(variant=st.sampled_from(list(VARIANTS)), case=cases())
@settings(few, max_examples=examples(12))
def test_cpu_agrees_with_the_interpreter(variant: str, case: Case) -> None:
    """Compiled code computes what the kernel means, and visits each site as often."""
    kernel = VARIANTS[variant](case.kernel)
    arguments = case.arguments()
    compiled = CpuExecutable(kernel, emit(kernel)).run(arguments, case.extents)
    _same(case, arguments, _run(case, case.kernel))
    if compiled.sites is not None:
        meant = InterpreterExecutable(kernel).run(case.arguments(), case.extents)
        assert _visits(compiled) == _visits(meant)


def _visits(result: RunResult) -> dict[tuple[int, ...], tuple[int, int]]:
    """Visits and visiting blocks of each path of sites."""
    assert result.sites is not None
    return {e.path: (e.count, e.blocks) for e in result.sites.entries()}
