"""Values of names while a kernel runs as plain Python: each knows and shows its value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.lang.values import Buffer, BufferRegion, Expr, Var
from tileprof.runtime.interpreter.buffers import Buffer as Memory

from .known import Fault, Known


def number_of(value: ir.Value) -> Any:
    """Return the number that a scalar value is; its error where reading it went wrong."""
    assert isinstance(value, Known)
    held = value.held
    if type(held) is Fault:
        raise held.error
    return held


class _Shown:
    """Value that is a number where Python needs one: a condition, an index of a list, a format."""

    __slots__ = ()

    def _now(self) -> Any:
        raise NotImplementedError

    def __bool__(self) -> bool:
        return bool(self._now())

    def __index__(self) -> int:
        return int(self._now())

    def __int__(self) -> int:
        return int(self._now())

    def __float__(self) -> float:
        return float(self._now())

    def __str__(self) -> str:
        return str(self._now())

    def __format__(self, spec: str) -> str:
        held = self._now()
        return format(held.item() if isinstance(held, np.generic) else held, spec)


class LiveScalar(_Shown, Expr):
    """A scalar.  Arithmetic follows the rules of the language; where Python needs a number it is
    one."""

    __slots__ = ()

    def _now(self) -> Any:
        return number_of(self.value)

    def __index__(self) -> int:
        if not self.value.dtype.is_integer:
            raise TypeError(f"{self.value.dtype} cannot be used as an integer")
        return super().__index__()

    def __hash__(self) -> int:
        return hash(self._now())

    def __repr__(self) -> str:
        return _shown(self.value)

    def numpy(self) -> Any:
        """The value as a NumPy scalar."""
        return np.asarray(self._now(), self.value.dtype.to_numpy())[()]


class LiveVar(_Shown, Var):
    """A variable that shows its value."""

    __slots__ = ()

    def _now(self) -> Any:
        buffer = self.buffer
        assert isinstance(buffer, LiveBuffer)
        return buffer.element(tuple(int(i) for i in self.indices))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        try:
            return f"{self.buffer.dtype!s}({self._now()})"
        except ValueError:
            return f"{self.buffer.dtype!s}(not set)"


class _Array:
    """NumPy's functions see what a buffer holds now, so that one can print `np.sum(tile)`."""

    __slots__ = ()

    def numpy(self) -> NDArray[Any]:
        """The values as an array over the same memory."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.numpy(), dtype=dtype, copy=bool(copy) or dtype is not None)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*map(_as_array, inputs), **options)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return function(*map(_as_array, inputs), **options)


def _as_array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, _Array) else value


class LiveBuffer(_Array, Buffer):
    """A tensor or an on-chip buffer over a NumPy array."""

    __slots__ = ()

    @property
    def memory(self) -> Memory:
        """Memory that the interpreter works on."""
        held = number_of(self.value)
        assert isinstance(held, Memory)
        return held

    def numpy(self) -> NDArray[Any]:
        """Return the values as an array over the same memory; what nobody wrote is arbitrary."""
        held = self.memory.data
        return held.reshape(self.memory.shape) if self.memory.lead else held

    def written(self) -> NDArray[np.bool_]:
        """Return a mask of the elements that have been written."""
        memory = self.memory
        shadow = memory.shadow
        if shadow is None:
            return np.ones(memory.shape, np.bool_)
        return np.asarray(shadow == memory.written).reshape(memory.shape)

    def element(self, at: tuple[int, ...]) -> Any:
        """One element; ValueError where it was never written."""
        if not self.written()[at]:
            raise ValueError("it was never written")
        return self.numpy()[at]

    def __repr__(self) -> str:
        head = f"{self.name or 'buffer'}: {self.type}"
        return f"{head}\n{_shown_array(self.numpy(), self.written())}"


class LiveRegion(_Array, BufferRegion):
    """A part of a buffer that shows its values."""

    __slots__ = ()

    def numpy(self) -> NDArray[Any]:
        """Return the values inside the buffer, as an array over the same memory."""
        return self._part(self._of.numpy())

    @property
    def _of(self) -> LiveBuffer:
        assert isinstance(self.buffer, LiveBuffer)
        return self.buffer

    def _part(self, held: NDArray[Any]) -> NDArray[Any]:
        starts = [int(number_of(o)) if isinstance(o, ir.Value) else int(o) for o in self.offsets]
        sizes = (n - s if e is None else e for s, e, n in zip(starts, self.extents, held.shape))
        return held[tuple(slice(s, s + max(e, 0)) for s, e in zip(starts, sizes))]

    def __repr__(self) -> str:
        starts = [int(number_of(o)) if isinstance(o, ir.Value) else int(o) for o in self.offsets]
        held = self.numpy()
        parts = ", ".join(f"{s}:{s + e}" for s, e in zip(starts, held.shape))
        shown = _shown_array(held, self._part(self._of.written()))
        return f"{self.buffer.name or 'buffer'}[{parts}]: {self.dtype!s}\n{shown}"


def _shown(value: ir.Value) -> str:
    assert isinstance(value, Known)
    if type(value.held) is Fault:
        return f"<{value.held.error.message}>"
    if value.dtype.kind == "index":
        return str(value.held)
    return f"{value.dtype}({value.held})"


def _shown_array(values: NDArray[Any], written: NDArray[np.bool_]) -> str:
    """Return the values, `–` where nobody wrote one."""
    if written.all():
        return np.array2string(values, separator=", ")
    if not written.any():
        return "(nothing written yet)"
    return np.array2string(_masked(values, written), separator=", ", formatter=_BLANK)


def _masked(values: NDArray[Any], written: NDArray[np.bool_]) -> NDArray[Any]:
    made = values.astype(object)
    made[~written] = None
    return made


_BLANK: Any = {"object": lambda x: "–" if x is None else str(x)}
