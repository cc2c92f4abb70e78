"""What a call says about arguments that a kernel cannot honour, on every device alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
from tests.call_kernels import add, blocks, increment
from tileprof.errors import ArgumentError, KernelError

DEVICES = ["cpu", "interpreter", "debug"]


def _on(device: str, function: Any) -> Any:
    """The kernel with calls that run on a device, or as plain Python."""
    if device == "debug":
        return tileprof.jit(function.function, debug=True)

    def call(*args: Any, **kwargs: Any) -> Any:
        with tileprof.device(device):
            return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("device", DEVICES)
def test_tensor_that_requires_gradients_is_refused_unless_nothing_records_them(device: str) -> None:
    """Results would have no gradient; detached tensors, `no_grad` and `autograd.Function` work."""
    torch = pytest.importorskip("torch")
    call = _on(device, add)
    a, b = torch.ones(3, requires_grad=True), torch.ones(3)
    call(b, b)
    with pytest.raises(ArgumentError, match="`A` requires gradients") as caught:
        call(a, b)
    assert "A.detach()" in caught.value.hint
    assert call(a.detach(), b).tolist() == [2, 2, 2]
    with torch.no_grad():
        assert call(a, b).tolist() == [2, 2, 2]

    class Add(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_: Any, x: Any, y: Any) -> Any:
            return call(x, y)

        @staticmethod
        def backward(_: Any, gradient: Any) -> Any:
            return gradient, None

    Add.apply(a, b).sum().backward()
    assert a.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("shape", "strides"), [((3, 4), (0, 4)), ((3, 4), (16, 0)), ((4, 4), (8, 4)), ((3, 3), (8, 16))]
)
def test_written_array_whose_elements_share_places_is_refused(
    shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Broadcast rows, sliding windows: which value stays would follow from the order of blocks."""
    held = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), shape, strides)
    with tileprof.device("interpreter"), pytest.raises(ArgumentError, match="one place in memory"):
        increment(held)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((3, 4), (16, 4)), ((3, 4), (4, 12)), ((2, 2), (8, 12)), ((1, 4), (0, 4))],
)
def test_written_array_of_any_strides_without_shared_places_is_taken(
    shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Transposed and interleaved rows, and extents of 1, whose strides say nothing."""
    held = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), shape, strides)
    with tileprof.device("interpreter"):
        increment(held)
    assert held.tolist() == np.ones(shape).tolist()


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@pytest.mark.parametrize("block", [0, -4])
def test_blocks_of_no_size_are_refused(device: str, block: int) -> None:
    """Every device says so before it runs anything; the cpu returned memory that nobody wrote."""
    with pytest.raises(KernelError, match=r"divided by 0|-4"):
        _on(device, blocks)(np.ones(10, np.float32), block=block)
