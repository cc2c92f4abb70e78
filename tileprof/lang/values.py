"""What names stand for while a kernel is traced: scalars, variables, symbols, buffers, regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tileprof import ir
from tileprof.errors import Location, UnsupportedPython

from .context import active, current
from .dtypes import dtype, dtype_of, of
from .spans import here

if TYPE_CHECKING:
    from .regions import Region

__all__ = [
    "Buffer", "BufferData", "BufferRegion", "Deferred", "Expr", "Placeholder", "Poison", "Scalar",
    "Symbol", "Var",
]  # fmt: skip


def _no_python_value(what: str, hint: str) -> NoReturn:
    raise UnsupportedPython(what, location=here(), hint=hint)


def _binary(kind: str, left: Any, right: Any) -> Any:
    context = active()
    return Deferred(kind, (left, right)) if context is None else context.binary(kind, left, right)


def _unary(kind: str, value: Any) -> Any:
    context = active()
    return Deferred(kind, (value,)) if context is None else context.unary(kind, value)


class Scalar:
    """A number that is known when the kernel runs: operators on it write the program."""

    __slots__ = ()
    # NumPy scalars on the left must leave the operator to this class.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return of(current().dtype(self))

    def astype(self, kind: Any) -> Any:
        """The value converted to another element type."""
        return current().cast(self, dtype_of(kind))

    def __add__(self, other: Any) -> Any:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary("floormod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("floormod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return _binary("floordiv", self, other), _binary("floormod", self, other)

    def __pow__(self, other: Any) -> Any:
        return _binary("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("pow", other, self)

    def __and__(self, other: Any) -> Any:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> Any:
        return _binary("and", other, self)

    def __or__(self, other: Any) -> Any:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> Any:
        return _binary("or", other, self)

    def __xor__(self, other: Any) -> Any:
        return _binary("xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _binary("xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return _binary("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _binary("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return _binary("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _binary("shr", other, self)

    def __neg__(self) -> Any:
        return _unary("neg", self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return _unary("not", self)

    def __abs__(self) -> Any:
        return _unary("abs", self)

    def __lt__(self, other: Any) -> Any:
        return current().compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return current().compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return current().compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return current().compare("ge", self, other)

    def __eq__(self, other: object) -> Any:
        return current().compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return current().compare("ne", self, other)

    def __bool__(self) -> bool:
        _no_python_value(
            "this condition is known only when the kernel runs, and plain Python needs it now",
            "In a kernel or a `@T.macro`, `if`, `while`, `and`, `or`, `not` and `a if c else b` "
            "work; put `@T.macro` above a plain helper function, or use `T.if_then_else`.",
        )

    def __index__(self) -> int:
        _no_python_value(
            "this number is known only when the kernel runs, and plain Python needs it now",
            "It cannot index a list or be a size. To loop over Python objects, iterate over them "
            "(`for x in items`) or over `list(range(n))`: the compiler then unrolls the loop.",
        )

    def __int__(self) -> int:
        _no_python_value(
            "this number is known only when the kernel runs, and plain Python needs it now",
            'To convert the element type use `T.cast(x, "int32")`.',
        )

    def __float__(self) -> float:
        _no_python_value(
            "this number is known only when the kernel runs, and plain Python needs it now",
            'To convert the element type use `T.cast(x, "float32")`; for functions use `T.exp`, '
            "`T.sqrt`, … in place of `math` or `numpy`.",
        )

    def __iter__(self) -> Iterator[Any]:
        _no_python_value("a scalar of a kernel cannot be iterated over", "Use `T.serial(n)`.")

    def __round__(self, digits: int | None = None) -> Any:
        return _unary("round", self)


class Expr(Scalar):
    """A value of the program; `region` is the block in which it may be used."""

    __slots__ = ("region", "value")

    def __init__(self, value: ir.Value, region: Region) -> None:
        self.value = value
        self.region = region

    def __repr__(self) -> str:
        name = f" `{self.value.name}`" if self.value.name else ""
        return f"<{self.value.type} value{name} of the kernel>"


class Var(Scalar):
    """A variable: assignment to its name stores, reading it loads.  It lies in a `local` buffer of
    its own, or refers to an element of another one (`T.Ref`)."""

    __slots__ = ("buffer", "indices", "known", "promoted")

    def __init__(self, buffer: Buffer, indices: Sequence[Any] = (), *, known: bool = False) -> None:
        self.buffer = buffer
        self.indices = tuple(indices)
        self.known = known
        """Whether it has had a value from the start."""
        self.promoted: Any = None
        """Where it stands for a Python name that a staged loop changes: the place and the type."""

    def __getitem__(self, index: Any) -> Any:
        if index != 0:
            raise UnsupportedPython(
                "a variable has one element, `[0]`", location=here(), hint="Use its name alone."
            )
        return current().binary("add", self, 0)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.buffer[self.indices] = value

    def __repr__(self) -> str:
        return f"<{self.buffer.dtype} variable of the kernel>"


class Symbol(Scalar):
    """An extent or a stride that is known at launch, from the shapes of the arguments."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"T.dynamic({self.name!r})"


class Deferred(Scalar):
    """Arithmetic on symbols outside of a kernel, written when the kernel is."""

    __slots__ = ("kind", "operands")

    def __init__(self, kind: str, operands: tuple[Any, ...]) -> None:
        self.kind = kind
        self.operands = operands


class Placeholder(Scalar):
    """A `T.const` whose value the arguments have not given yet (`name` '' for what is computed
    from one)."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def _unknown(self) -> NoReturn:
        shown = f"`{self.name}`" if self.name else "an extent from `T.const`"
        _no_python_value(
            f"{shown} is used before an argument gives its value",
            "Annotate the arguments (`A: T.Tensor((M, K), dtype)`) before this line.",
        )

    def __bool__(self) -> bool:
        self._unknown()

    def __index__(self) -> int:
        self._unknown()

    def __iter__(self) -> Iterator[Any]:
        self._unknown()


class Poison(Scalar):
    """Stands for a name that has no single value here; using it says why."""

    __slots__ = ("cause", "hint", "location")

    def __init__(self, cause: str, hint: str, location: Location | None = None) -> None:
        self.cause = cause
        self.hint = hint
        self.location = location

    def fail(self) -> NoReturn:
        """Raise the error."""
        raise UnsupportedPython(self.cause, location=self.location or here(), hint=self.hint)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.fail()

    def __bool__(self) -> bool:
        self.fail()

    def __index__(self) -> int:
        self.fail()

    def __iter__(self) -> Iterator[Any]:
        self.fail()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An error, as for every use."""
        self.fail()

    def __getitem__(self, key: Any) -> Any:
        self.fail()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.fail()


class Buffer:
    """A tensor argument or an on-chip buffer.  `buffer[i, j]` reads or writes an element,
    `buffer[i : i + 64, j]` is the region that a tile operation works on."""

    __slots__ = ("region", "shape", "value")

    def __init__(self, value: ir.Value, region: Region, shape: tuple[Any, ...]) -> None:
        self.value = value
        self.region = region
        self.shape = shape
        """Extents: numbers, and `Symbol`s for those known at launch."""

    @property
    def type(self) -> ir.BufferType:
        """Shape, element type and space."""
        return self.value.buffer

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return of(self.value.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The name that the author gave it."""
        return self.value.name

    @property
    def strides(self) -> tuple[Any, ...]:
        """Strides in elements."""
        held = self.type.strides
        if held is not None:
            return tuple(Symbol(s) if isinstance(s, str) else s for s in held)
        strides: list[Any] = [1]
        for extent in self.shape[:0:-1]:
            strides.insert(0, extent * strides[0])
        return tuple(strides[: self.ndim])

    @property
    def data(self) -> BufferData:
        """The memory, for `T.Tensor(shape, dtype, buffer.data)`."""
        return BufferData(self)

    def scope(self) -> str:
        """The memory space under TileLang's name."""
        names = {"shared": "shared.dyn", "fragment": "local.fragment"}
        return names.get(self.type.space, self.type.space)

    def __getitem__(self, key: Any) -> Any:
        return _tracer().load(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _tracer().store(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        _no_python_value("a buffer cannot be iterated over", "Use `for i in T.serial(n)`.")

    def __len__(self) -> int:
        _no_python_value("`len` of a buffer", "Use `buffer.shape[0]`.")

    def __bool__(self) -> bool:
        _no_python_value("a buffer is not a condition", "Use one of its elements: `buffer[i]`.")

    def __repr__(self) -> str:
        return f"<{self.type} `{self.name}`>"


class BufferData:
    """The memory of a buffer without its shape."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


class BufferRegion:
    """A part of a buffer: an offset and an extent for each dimension.  An extent of None follows
    from the other operand of a tile operation."""

    __slots__ = ("buffer", "extents", "offsets")

    def __init__(
        self, buffer: Buffer, offsets: tuple[Any, ...], extents: tuple[int | None, ...]
    ) -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.extents = extents

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents."""
        return self.extents

    def __repr__(self) -> str:
        return f"<a region of {self.buffer!r}>"


def _tracer() -> Any:
    # Buffers of this class are made by the tracing context only.
    return current()
