"""Random legal kernels: nothing is refused, and the batch changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.kernels import MATMUL, SOFTMAX, VECTOR_ADD
from tests.spread import examples
from tests.strategies import Case, cases
from tests.verified import parse
from tileprof import ir
from tileprof.runtime.interpreter import InterpreterExecutable
from tileprof.runtime.interpreter.dispatch import BATCH_BYTES, batch_size


def outcome(case: Case, **options: Any) -> tuple[list[bytes], int, dict[Any, int]]:
    """All arguments after a run, and what was guarded.

    Zeros have no sign: which of 0.0 and -0.0 is the lesser is undefined (docs/language.md), and
    NumPy's loops over few elements decide it in another way than those over many.
    """
    arguments = case.arguments()
    result = InterpreterExecutable(case.kernel, **options).run(arguments, case.extents)
    arrays = [np.where(a == 0, a.dtype.type(0), a).tobytes()
              for a in arguments if isinstance(a, np.ndarray)]  # fmt: skip
    return arrays, result.guarded, dict(result.guarded_by_line)


@given(case=cases(), batch=st.integers(2, 9))
@settings(max_examples=examples(20), deadline=None)
def test_batches_change_nothing(case: Case, batch: int) -> None:
    """Block by block, some at once, all at once: the same bits and the same guards."""
    expected = outcome(case, batch=1)
    assert outcome(case, batch=batch) == outcome(case) == expected


def launches(text: str) -> list[ir.Launch]:
    """The launches of a kernel."""
    return [op for op in parse(text).body.ops if isinstance(op, ir.Launch)]


def test_batch_size() -> None:
    """As many blocks as fit with their buffers and one temporary of their largest box."""
    (launch,) = launches(VECTOR_ADD)
    assert batch_size(launch, {}) == BATCH_BYTES // (128 * 8)
    (launch,) = launches(MATMUL)
    assert batch_size(launch, {}) == BATCH_BYTES // ((64 * 32 + 32 * 64 + 64 * 64) * 4)
    (launch,) = launches(SOFTMAX)
    assert batch_size(launch, {}) == BATCH_BYTES // (1024 * 4 + 4 + 4 + 1024 * 8)


def test_batch_size_of_extents_known_at_launch() -> None:
    """The extent of a box may follow from a symbol; one that is loaded is guessed."""
    text = """
kernel @k(%n: index, %x: global<4, int64>) {
  %c2 = constant 2 : index
  launch [%n] {threads = [32]} body(%bx: index) {
    %twice = mul %n, %c2 : index
    parallel [%twice] body(%i: index) {
      %own = alloc local {shape = [4]} : local<4, float64>
    }
  }
}
"""
    kernel = parse(text)
    (launch,) = (op for op in kernel.body.ops if isinstance(op, ir.Launch))
    assert batch_size(launch, {}) == BATCH_BYTES // (256 * (8 + 32))
    known: dict[ir.Value, object] = {kernel.param_values()[0]: 1000}
    assert batch_size(launch, known) == BATCH_BYTES // (2000 * (8 + 32))
