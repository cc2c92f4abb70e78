"""Atomics that give nothing back need no order among themselves, and every other access does."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for, results_everywhere

RNG = np.random.default_rng(13)


@tileprof.jit
def counted(A, mixed: bool = False, given: bool = False):
    """How often each of 16 numbers is there; `mixed`: with greatest ones, `given`: with places."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    out = T.empty((16,), T.int32)
    places = T.empty((N,), T.int32)
    with T.Kernel(1, threads=64) as _:
        count = T.alloc_shared((16,), T.int32)
        T.clear(count)
        for s in T.serial(N // 64):
            for i in T.Parallel(64):
                if given:
                    places[s * 64 + i] = T.atomic_add(count[A[s * 64 + i]], 1, return_prev=True)
                else:
                    places[s * 64 + i] = 0
                    T.atomic_add(count[A[s * 64 + i]], 1)
            if mixed:
                for i in T.Parallel(64):
                    T.atomic_max(count[A[s * 64 + i]], 3)
        T.copy(count, out)
    return out, places


def _in_loop(**static: Any) -> int:
    """Count the barriers of the loop that a GPU runs."""
    kernel = counted.compile(np.zeros(256, "i4"), **static).program.kernel
    text = compiled_for(kernel, "sm_90a", None, {}).source.text
    body = text.partition("for (int s = 0;")[2].partition("\n  }\n")[0]
    assert "tp_atomic<" in body
    return body.count("tp_barrier")


@pytest.mark.spread("static1-1")
@pytest.mark.parametrize(
    ("static", "barriers"), [({}, 0), ({"given": True}, 1), ({"mixed": True}, 2)]
)
def test_counts(static: dict[str, bool], barriers: int) -> None:
    """Sums alone have no barrier between iterations; values that are used, or two kinds, do."""
    assert _in_loop(**static) == barriers
    a = RNG.integers(0, 16, 256).astype("i4")
    right = np.zeros(16, "i4")
    for part in a.reshape(-1, 64):
        right += np.bincount(part, minlength=16).astype("i4")
        if static.get("mixed"):
            right[part] = np.maximum(right[part], 3)
    for device, (found, _) in results_everywhere(counted, [a], **static):
        np.testing.assert_array_equal(found, right, err_msg=device)
