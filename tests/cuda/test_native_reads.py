"""What native calls read of PyTorch's objects without PyTorch: the same as PyTorch says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from ctypes import c_int64, c_uint8, c_uint64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.runtime import hooks
from tileprof.runtime.cuda import native_launcher, object_layout
from tileprof.runtime.cuda.native_gate import gate

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(bool(native_launcher.why_not()), reason=native_launcher.why_not())
TYPES = ("float32", "bfloat16", "int8", "int64", "float8_e4m3fn", "bool")


def layout() -> object_layout.Layout:
    """The layout of this process."""
    found = object_layout.find_objects()
    assert found is not None
    return found.layout


@given(st.data())
def test_fields_are_what_pytorch_says(data: st.DataObject) -> None:
    """Rank, extents, strides, the address and the kind of views of any type, shape and place."""
    held = layout()
    assert held.direct == 1
    shape = data.draw(st.lists(st.integers(1, 4), max_size=5))
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    kind = getattr(torch, data.draw(st.sampled_from(TYPES)))
    first = data.draw(st.integers(0, 50))
    view = torch.empty(300, dtype=kind).as_strided(shape, strides, first)

    impl = view._cdata

    def read(at: int) -> int:
        return c_int64.from_address(impl + at).value

    rank = read(held.sizes_at)
    assert rank == view.dim()
    assert [read(held.sizes_at + 8 * (1 + d)) for d in range(rank)] == shape
    assert [read(held.strides_at + 8 * d) for d in range(rank)] == strides
    storage = read(held.storage_at)
    data_at = c_int64.from_address(storage + held.data_at).value
    assert data_at + read(held.first_at) * view.element_size() == view.data_ptr()
    assert c_uint8.from_address(storage + held.guarded_at).value == 0
    other = torch.empty(2, dtype=kind).requires_grad_(kind.is_floating_point)
    bits = [c_uint64.from_address(t._cdata + held.kind_at).value for t in (view, other)]
    assert len({word & held.kind_bits for word in bits}) == 1


def test_kinds_that_are_mistaken_for_one_another_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where two types have the same word, tensors are read by DLPack."""
    assert object_layout._kinds_differ(torch, layout().kind_at, layout().kind_bits)
    monkeypatch.setattr(object_layout, "_TYPES", ("float32", "int32"))
    assert not object_layout._kinds_differ(torch, layout().kind_at, 0xFF << 24)
    assert not object_layout._kinds_differ(torch, layout().first_at, layout().kind_bits)


# -- who hears of an operator's call


class Seen(torch.Tensor):  # type: ignore[misc]
    """A subclass, whose functions may do anything."""


def dispatching() -> AbstractContextManager[object]:
    """A mode that sees operators."""
    from torch.utils._python_dispatch import TorchDispatchMode

    mode: AbstractContextManager[object] = TorchDispatchMode()  # type: ignore[no-untyped-call]
    return mode


def functions() -> AbstractContextManager[object]:
    """A mode that sees functions of PyTorch."""
    from torch.overrides import TorchFunctionMode

    return TorchFunctionMode()


def profiling() -> AbstractContextManager[object]:
    """PyTorch's own profiler."""
    profiler: AbstractContextManager[object] = torch.autograd.profiler.profile()
    return profiler


@pytest.fixture
def asked() -> Callable[[tuple[Any, ...]], bool | None]:
    """The gate of an operator of a tensor, a number and a tensor that may be None."""
    assert native_launcher.launcher_library() is not None
    made = gate((0, 2), 3)
    assert made is not None
    return made


def test_gradients_are_told(asked: Callable[[tuple[Any, ...]], bool | None]) -> None:
    """Those of any tensor, where they are recorded."""
    plain, leaf = torch.zeros(2), torch.nn.Parameter(torch.zeros(2))
    cases = [(plain, plain), (plain, None), (leaf, None), (plain, leaf), (leaf * 2, leaf)]
    wanted = [False, False, True, True, True]
    assert [asked((a, 1, b)) for a, b in cases] == wanted
    with torch.no_grad():
        assert [asked((a, 1, b)) for a, b in cases] == [False] * 5


@pytest.mark.parametrize("mode", [dispatching, functions, profiling])
def test_modes_and_profilers_hear(
    asked: Callable[[tuple[Any, ...]], bool | None], mode: Callable[[], Any]
) -> None:
    """And the calls after them are nobody's again."""
    tensor = torch.zeros(2)
    for around, wanted in ((mode, None), (nullcontext, False)):
        with around():
            found = asked((tensor, 1, None))
        assert found is wanted


def test_transforms_hear(asked: Callable[[tuple[Any, ...]], bool | None]) -> None:
    """Inside of `vmap` and `grad`, also for tensors from outside."""
    outside = torch.zeros(3)
    found: list[bool | None] = []

    def inside(x: Any) -> Any:
        found.extend(asked((each, 1, None)) for each in (x, outside))
        return x.sum()

    torch.func.vmap(inside)(outside)
    torch.func.grad(inside)(outside)
    assert found == [None] * 4
    assert asked((outside, 1, None)) is False


def test_others_are_looked_at_by_python(
    asked: Callable[[tuple[Any, ...]], bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subclasses, what is no tensor, another number of arguments, and a listener to launches."""
    tensor = torch.zeros(2)
    assert asked((tensor.as_subclass(Seen), 1, None)) is None
    assert asked((tensor, 1, 3)) is None
    assert asked((tensor, 1)) is None
    assert asked((tensor, 1, None)) is False
    monkeypatch.setattr(hooks, "listener", object())
    assert asked((tensor, 1, None)) is None
