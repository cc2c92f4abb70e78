"""Tensors without elements give empty results, and sums over nothing are 0, on every device.

Results hold nothing until they are written.
"""

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.call_kernels import added_to_result, idle, matmul, twice
from tests.everywhere import results_everywhere
from tileprof.errors import KernelError, ShapeError, UninitializedError

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.mark.spread("shape0-True", "shape4-False")
@pytest.mark.parametrize(
    ("shape", "static"), [((0, 5, 5), True), ((0, 5, 5), False), ((5, 0, 3), False),
                          ((5, 5, 0), True), ((5, 5, 0), False)]
)  # fmt: skip
def test_product_with_an_extent_of_0(shape: tuple[int, int, int], static: bool) -> None:
    """Rows or columns that are not there give an empty product; K = 0 gives zeros."""
    m, n, k = shape
    given = [np.ones((m, k), np.float16), np.ones((k, n), np.float16)]
    for device, (found,) in results_everywhere(matmul, given, static=static):
        assert found.shape == (m, n), device
        assert not found.any(), device


def test_empty_rows_and_columns() -> None:
    """A grid of 0 blocks does nothing; a kernel may return before its launch for empty tensors."""
    for shape in ((0, 4), (3, 0)):
        for device, (found,) in results_everywhere(twice, [np.ones(shape, np.float32)]):
            assert found.shape == shape, device


def test_what_an_empty_tensor_cannot_be() -> None:
    """On-chip buffers have elements, and the error names the way out; a kernel that launches
    nothing for tensors with elements has forgotten to."""
    with pytest.raises(ShapeError, match="an extent of 0") as caught:
        twice(np.ones((3, 0), np.float32), early=False)
    assert "if N == 0" in caught.value.hint

    with pytest.raises(KernelError, match="launches nothing"):
        idle(np.ones(3, np.float32))


def test_profile_counts_the_launch_of_no_blocks() -> None:
    """It is a call like others, with 0 blocks and 0 bytes."""
    with tileprof.profile() as session:
        twice(np.ones((0, 4), np.float32))
    whole = session.snapshot().whole
    assert whole["count"] == 1
    assert whole.get("blocks", 0) == 0


def test_read_of_an_unwritten_result_is_named_where_its_documentation_says() -> None:
    """Other devices read what was in that memory; `T.empty` points to the interpreter."""
    with tileprof.device("interpreter"), pytest.raises(UninitializedError, match="`Y` is read"):
        added_to_result(np.ones(8, np.float32))
    assert 'tileprof.device("interpreter")' in (T.empty.__doc__ or "")
