"""Values of names while a kernel is traced: scalars, variables, symbols, buffers, regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tileprof import ir
from tileprof.errors import Location, UnsupportedPython

from .context import current
from .dtypes import dtype, of
from .foreign import Foreign
from .scalar import Deferred, Scalar, refuse
from .spans import here

if TYPE_CHECKING:
    from .regions import Region

__all__ = [
    "Buffer", "BufferData", "BufferRegion", "Deferred", "Expr", "Placeholder", "Poison", "Scalar",
    "Symbol", "Var",
]  # fmt: skip


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
        """Place and type, if it stands for a Python name that a staged loop changes."""

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


class Placeholder(Scalar):
    """A `T.const` whose value the arguments have not given yet (`name` '' for what is computed
    from one)."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def _unknown(self) -> NoReturn:
        shown = f"`{self.name}`" if self.name else "an extent from `T.const`"
        refuse(
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
        """Return an error, as for every use."""
        self.fail()

    def __getitem__(self, key: Any) -> Any:
        self.fail()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.fail()


class Whole(Foreign):
    """A buffer or a part of one: operators work on elements."""

    __slots__ = ()

    def _operator(self, *_: Any) -> NoReturn:
        refuse(
            f"operators work on elements, not on {self!r}",
            "Loop over the elements: `for i, j in T.Parallel(m, n): C[i, j] = A[i, j] + B[i, j]`.",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _operator
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _operator
    __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _operator
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = __invert__ = _operator
    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = _operator


class Buffer(Whole):
    """A tensor argument or an on-chip buffer.  `buffer[i, j]` reads or writes an element,
    `buffer[i : i + 64, j]` is the region that a tile operation works on."""

    __slots__ = ("home", "shape", "value")

    def __init__(self, value: ir.Value, home: Region, shape: tuple[Any, ...]) -> None:
        self.value = value
        self.home = home
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
        """Return the memory space under TileLang's name."""
        names = {"shared": "shared.dyn", "fragment": "local.fragment"}
        return names.get(self.type.space, self.type.space)

    def __getitem__(self, key: Any) -> Any:
        return current().load(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        current().store(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        refuse("a buffer cannot be iterated over", "Use `for i in T.serial(n)`.")

    def __len__(self) -> int:
        refuse("`len` of a buffer", "Use `buffer.shape[0]`.")

    def __bool__(self) -> bool:
        refuse("a buffer is not a condition", "Use one of its elements: `buffer[i]`.")

    def __repr__(self) -> str:
        return f"<{self.type} `{self.name}`>"


class BufferData:
    """The memory of a buffer without its shape."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


class Range(NamedTuple):
    """Indices of a part of a dimension."""

    min: Any
    extent: Any


class BufferRegion(Whole):
    """A part of a buffer: an offset and an extent for each dimension.  An extent of None follows
    from the other operand of a tile operation.

    `counts` are extents that are known only when the kernel runs, by dimension; `extents` has None
    there.  `span` is where the part is written.
    """

    __slots__ = ("buffer", "counts", "extents", "offsets", "span")

    def __init__(
        self,
        buffer: Buffer,
        offsets: tuple[Any, ...],
        extents: tuple[int | None, ...],
        counts: Mapping[int, Any] | None = None,
        span: Location | None = None,
    ) -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.extents = extents
        self.counts = counts or {}
        self.span = span

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents."""
        return self.extents

    @property
    def region(self) -> tuple[Range, ...]:
        """First index and extent of each dimension, under TileLang's names."""
        return tuple(map(Range, self.offsets, self.extents))

    def __getitem__(self, key: Any) -> NoReturn:
        refuse(
            f"a region of `{self.buffer.name}` has no elements of its own",
            f"Give all indices at once: `{self.buffer.name}[i, j]`.",
        )

    def __repr__(self) -> str:
        return f"<a region of `{self.buffer.name}`>"
