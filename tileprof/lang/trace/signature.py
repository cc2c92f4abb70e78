"""The signature of a trace: parameters, symbols, extents that the arguments give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Literal

from tileprof import ir
from tileprof.errors import ArgumentError, DTypeError, KernelError, Location, ShapeError
from tileprof.ir.sums import sum_of
from tileprof.ir.tile import Hints
from tileprof.ir.types import index
from tileprof.lang.dtypes import dtype_of, is_dtype
from tileprof.lang.static import as_number, is_number
from tileprof.lang.tensors import TensorType
from tileprof.lang.values import Buffer, Deferred, Expr, Placeholder, Poison, Symbol

from .buffers import PromotionKey
from .core import Retrace
from .evaluate import evaluator
from .extents import Product, product_of
from .random_numbers import RandomNumbers


@dataclass(frozen=True, slots=True)
class Given:
    """Facts about a tensor argument while its kernel is compiled; None for unknown."""

    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    contiguous: bool = True


@dataclass(frozen=True, slots=True)
class ExtentOrigin:
    """The part of an argument that gave an extent its value."""

    argument: str
    of: Literal["dimension", "stride"]
    at: int
    """Position of the dimension or stride."""


@dataclass(slots=True)
class Knowledge:
    """Knowledge that one trace of a kernel leaves for the next."""

    extents: dict[str, int]
    """Values of `T.const` names, and of symbols that are fixed at compile time."""
    widened: dict[PromotionKey, ir.DType] = field(default_factory=dict)
    """Types of promoted names."""
    staged: set[Location | None] = field(default_factory=set)
    """Loops whose condition Python knows at first and only the running kernel later."""
    named: set[str] = field(default_factory=set)
    """Names of extents that the kernel has."""
    origins: dict[str, ExtentOrigin] = field(default_factory=dict)
    """Source of the value of each `T.const` name."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced kernel, and how its symbols follow from the arguments."""

    kernel: ir.Kernel
    derived: Mapping[str, Callable[[Sequence[Any], Mapping[str, int]], int]]
    """Symbols that are computed from parameters and other symbols."""
    returned: tuple[int, ...]
    """Positions of the parameters that a call returns, in order."""
    params: tuple[str, ...]
    """The arguments of the function that are parameters of the kernel, in its order."""


class Tracer(RandomNumbers):
    """The context that writes a kernel."""

    def __init__(
        self, root: CodeType, given: Mapping[str, Given], knowledge: Knowledge, order: Sequence[str]
    ) -> None:
        super().__init__(root, knowledge.widened)
        self.given = given
        self.knowledge = knowledge
        self.order = order
        self.absent: frozenset[str] = frozenset()
        """Arguments of a call that are None; other unknown tensors are only not known yet."""
        self.params: dict[str, tuple[ir.Param, ir.Value]] = {}
        self.outputs: dict[str, tuple[ir.Param, ir.Value]] = {}
        self.symbols: dict[str, tuple[ir.Value, Location | None]] = {}
        self.derived: dict[str, ir.Value] = {}
        self.workspaces: set[ir.Value] = set()
        self.safe: dict[ir.Value, Any] = {}
        self._open: dict[str, Location | None] = {}
        self.launch_hints = []

    # -- extents

    def const(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Numbers where they are known, else placeholders until the arguments give them."""
        known = self.knowledge.extents
        self.knowledge.named.update(names)
        for name in names:
            if name not in known:
                self._open[name] = self.location()
        return tuple(known[n] if n in known else Placeholder(n) for n in names)

    def symbol(self, name: str) -> Expr:
        """Return the value of a symbol."""
        self.knowledge.named.add(name)
        if name in self.knowledge.extents:
            return self.constant(self.knowledge.extents[name], index)
        if name not in self.symbols:
            self.symbols[name] = ir.Value(index, name), self.location()
        return Expr(self.symbols[name][0], self.top)

    def _signature_dim(self, extent: Any, name: str) -> ir.Dim:
        match extent:
            case Symbol(name=symbol):
                self.symbol(symbol)
                return self.knowledge.extents.get(symbol, symbol)
            case Deferred():
                return self._signature_dim(self._deferred(extent), name)
            case Expr() if self.static(extent) is None:
                for symbol, (value, _) in self.symbols.items():
                    if value is extent.value:
                        return symbol
                self.derived[name] = self.index(extent)
                self.symbol(name)
                return name
        number = self.static(extent)
        assert number is not None
        return number

    def named_extent(self, extent: Any) -> str:
        """Return the name of an extent that is a product of symbols and numbers; ShapeError for
        another one."""
        value = self.index(extent)
        known = {v: Product(1, (n,)) for n, (v, _) in self.symbols.items()}
        found = product_of(value, known)
        if found is None:
            self.fail(
                ShapeError,
                "an extent of a view is known only when the kernel runs",
                "Extents are numbers, extents of the arguments, or products of these.",
            )
        if not found.symbols:
            return self.fail(ShapeError, f"an extent of {found.number}", "Give a number.")
        if found.name not in self.named_extents:
            self.derived[found.name] = value
            self.named_extents[found.name] = found
            self.symbol(found.name)
        return found.name

    # -- parameters

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """Return a parameter: a tensor, a scalar known at launch, or (any other annotation) a value
        known at compile time.
        """
        kind = scalar_type(annotation)
        if kind is not None:
            param = ir.Value(kind, name)
            self.params[name] = ir.Param(name, kind), param
            return Expr(param, self.top)
        if not isinstance(annotation, TensorType):
            return value
        if name in self.absent or (value is not None and not isinstance(value, Poison)):
            raise ArgumentError(
                f"argument `{name}` is {value!r:.60}, and a tensor of rank "
                f"{len(annotation.shape)} is expected",
                location=self.location(),
                hint="Pass a NumPy array, a PyTorch tensor or anything with DLPack."
                if value is not None
                else f"Pass one, or annotate it under `if {name} is not None:` where it may be "
                "missing.",
            )
        given = self.given.get(name, Given())
        self._bind(name, annotation, given)
        shape = tuple(
            extent
            if isinstance(extent, Placeholder)
            else self._signature_dim(extent, f"{name}_dim{at}")
            for at, extent in enumerate(annotation.shape)
        )
        settled = tuple(1 if isinstance(d, Placeholder) else d for d in shape)
        strides = self._strides(name, annotation, given)
        made = ir.Value(ir.BufferType(settled, annotation.kind, "global", strides), name)
        self.params[name] = ir.Param(name, made.buffer), made
        return self.buffer(made, shape)

    def _strides(
        self, name: str, annotation: TensorType, given: Given
    ) -> tuple[ir.Dim, ...] | None:
        if annotation.strides is not None:
            if len(annotation.strides) != len(annotation.shape):
                self.fail(
                    ShapeError,
                    f"`{name}` has {len(annotation.shape)} extents and "
                    f"{len(annotation.strides)} strides",
                    "Give one stride for each extent.",
                )
            return tuple(
                1 if isinstance(s, Placeholder) else self._signature_dim(s, f"{name}_stride{at}")
                for at, s in enumerate(annotation.strides)
            )
        if given.contiguous:
            return None
        names = [f"{name}_stride{at}" for at in range(len(annotation.shape))]
        for each in names:
            self.symbol(each)
        return tuple(names)

    def _bind(self, name: str, annotation: TensorType, given: Given) -> None:
        """Give `T.const` names the extents of the argument; start again when all are known."""
        if given.shape is not None and len(given.shape) != len(annotation.shape):
            raise ArgumentError(
                f"argument `{name}` has {len(given.shape)} dimensions, "
                f"and {len(annotation.shape)} are expected",
                location=self.location(),
                hint=f"Its shape is {given.shape}.",
            )
        sides = ((annotation.shape, given.shape), (annotation.strides or (), given.strides))
        for dims, actual in sides:
            for at, extent in enumerate(dims):
                if isinstance(extent, Placeholder) and extent.name and actual is not None:
                    if extent.name not in self.knowledge.extents:
                        self.knowledge.extents[extent.name] = actual[at]
                        of: Literal["dimension", "stride"] = "dimension"
                        if dims is not annotation.shape:
                            of = "stride"
                        self.knowledge.origins[extent.name] = ExtentOrigin(name, of, at)
                    self._open.pop(extent.name, None)
                    if not self._open:
                        raise Retrace
        for at, extent in enumerate(annotation.shape if given.shape is not None else ()):
            if isinstance(extent, int):
                self._compare(name, annotation, given.shape or (), at)

    def _compare(self, name: str, annotation: TensorType, shape: tuple[int, ...], at: int) -> None:
        """ArgumentError where an extent is another than a `T.const` name has by an argument before;
        extents that are numbers in the text are compared when the call is planned."""
        wanted, known = annotation.shape[at], self.knowledge.extents
        origins = {n: o for n, o in self.knowledge.origins.items() if known[n] == wanted}
        others = {n: o for n, o in origins.items() if o.argument != name}
        if shape[at] == wanted or not origins:
            return
        named = " or ".join(
            f"`{n}` by {o.of} {o.at} of `{o.argument}`" for n, o in (others or origins).items()
        )
        raise ArgumentError(
            f"argument `{name}` has {shape[at]} in dimension {at}, and {wanted} is expected, "
            f"which is {named}",
            location=self.location(),
            hint=f"Its shape is {shape}.",
        )

    def empty(self, shape: Sequence[Any], kind: ir.DType) -> Buffer:
        """Return a tensor that the call allocates."""
        at = len(self.outputs)
        self.need_consts()
        name = f"out{at}"
        dims = tuple(self._signature_dim(e, f"{name}_dim{n}") for n, e in enumerate(shape))
        made = ir.Value(ir.BufferType(dims, kind, "global"))
        self.outputs[name] = ir.Param(name, made.buffer, "out"), made
        return self.buffer(made)

    def alloc_global(self, shape: Sequence[Any], kind: ir.DType) -> Buffer:
        """Return a tensor for what one launch leaves to the next; the call allocates it and forgets
        it.
        """
        made = self.empty(shape, kind)
        self.workspaces.add(made.value)
        return made

    def need_consts(self) -> None:
        """An error where a `T.const` has no value though it is needed now."""
        for name, where in self._open.items():
            self.fail(
                KernelError, f"no argument gives the value of `{name}`", self._gives(name), at=where
            )

    def _gives(self, extent: str) -> str:
        """Return what would give the value of an extent: the likeliest mistake first."""
        strange = [n for n in self.knowledge.extents if n not in self.knowledge.named]
        if strange:
            return f"`{strange[0]}` was given, which is no extent of the kernel: pass `{extent}=…`."
        untold = [n for n in self.order if n in self.given and n not in self.params]
        if untold:
            return (
                f"Annotate `{untold[0]}` before this extent is used: "
                f"`{untold[0]}: T.Tensor(({extent}, …), dtype)`."
            )
        return (
            f"Use it as an extent of an argument, `A: T.Tensor(({extent}, …), dtype)`, or pass it: "
            f"`kernel.compile({extent}=…)`."
        )

    def launch(self, grid: Sequence[Any], threads: tuple[int, ...]) -> Any:
        """Return the blocks of a grid."""
        self.need_consts()
        return super().launch(grid, threads)

    # -- wishes

    def annotate(self, name: str, target: Any, hints: Hints) -> None:
        """A wish about the block, kept on the launch, or about a buffer."""
        self.need_launch(f"`T.{name}`")
        if target is None:
            self.launch_hints += hints
            return
        if not isinstance(target, Buffer):
            self.fail(
                DTypeError, f"a buffer is expected here, not {target!r:.60}", "Pass a buffer."
            )
        self.emit(ir.Annotate(name, self.whole(target), hints))

    def safe_value(self, buffer: Any, value: Any) -> None:
        """Set the value of guarded reads outside a global tensor."""
        if not isinstance(buffer, Buffer) or buffer.type.space != "global" or not is_number(value):
            self.fail(
                KernelError,
                "`T.annotate_safe_value` takes global tensors and numbers",
                "`T.annotate_safe_value({A: 0})`.",
            )
        self.safe[buffer.value] = as_number(value)

    # -- the end

    def finish(self, name: str, returned: Any, location: Location) -> Traced:
        """Return the kernel that was traced; `returned` is what the function gave back."""
        self.need_consts()
        if not any(isinstance(op, ir.Launch) for op in self.top.block.ops):
            self.may_launch_nothing(name, location)
        held = {n: self.params[n] for n in self.order if n in self.params}
        named = self._name_outputs(set(held))
        entries = [*held.values(), *named]
        self._check_symbols(entries)
        params = tuple(replace(p, safe_value=self.safe.get(v, 0)) for p, v in entries)
        values = [v for _, v in entries]
        body = ir.Block([*values, *(v for v, _ in self.symbols.values())], self.top.block.ops)
        sweep(body)
        kernel = ir.Kernel(name, params, tuple(self.symbols), body, location=location)
        derived = {
            n: evaluator(v, values, {s: held for s, (held, _) in self.symbols.items()})
            for n, v in self.derived.items()
        }
        return Traced(kernel, derived, self._returned(returned, values, location), tuple(held))

    def may_launch_nothing(self, name: str, location: Location | None) -> None:
        """KernelError unless some tensor has no elements: the author may return before the launch
        then."""
        known = [param.type for param, _ in (*self.params.values(), *self.outputs.values())]
        if not any(isinstance(held, ir.BufferType) and 0 in held.shape for held in known):
            raise KernelError(
                f"`{name}` launches nothing",
                location=location,
                hint="Its work stands in `with T.Kernel(blocks, threads=128) as bx:`.",
            )

    def _name_outputs(self, taken: set[str]) -> list[tuple[ir.Param, ir.Value]]:
        made: list[tuple[ir.Param, ir.Value]] = []
        for fallback, (param, value) in self.outputs.items():
            name = value.name or fallback
            while name in taken:
                name += "_"
            taken.add(name)
            value.name = name
            made.append((replace(param, name=name), value))
        return made

    def _check_symbols(self, entries: Sequence[tuple[ir.Param, ir.Value]]) -> None:
        given: set[str] = set()
        for param, _ in entries:
            if isinstance(param.type, ir.BufferType) and param.role == "in":
                given |= {d for d in (*param.type.shape, *(param.type.strides or ()))
                          if isinstance(d, str)}  # fmt: skip
        for name, (_, where) in self.symbols.items():
            if name not in given and name not in self.derived and not self._solved(name, given):
                self.fail(
                    KernelError,
                    f"no argument gives the value of `{name}`",
                    f"Use it as an extent of an argument: `A: T.Tensor(({name}, …), dtype)`.",
                    at=where,
                )

    def _solved(self, name: str, given: set[str]) -> bool:
        """Compute a symbol from an extent that is made of it alone, as `n` of `n + 1`; return
        whether there is one.  A call compares the extent with what it should be then."""
        symbol, _ = self.symbols[name]
        for extent, value in self.derived.items():
            found = sum_of(value)
            factor, rest = found.terms.get(symbol, 0), found.constant
            if extent not in given or len(found.terms) != 1 or factor < 1:
                continue
            solved = self.symbols[extent][0]
            for kind, number in (("sub", rest), ("floordiv", factor), ("max", 0)):
                constant = ir.Constant(number, index).result
                solved = ir.Binary(kind, solved, constant).result  # type: ignore[arg-type]
            self.derived = {name: solved, **self.derived}
            return True
        return False

    def _returned(
        self, returned: Any, values: list[ir.Value], location: Location
    ) -> tuple[int, ...]:
        held = returned if isinstance(returned, (tuple, list)) else (returned,)
        if returned is None:
            held = ()
        made = []
        for each in held:
            known = isinstance(each, Buffer) and any(
                each.value is v for _, v in self.outputs.values()
            )
            if not known:
                raise KernelError(
                    f"the function returns {each!r:.60}",
                    location=location,
                    hint="A kernel returns tensors from `T.empty(shape, dtype)`, or nothing.",
                )
            made.append(values.index(each.value))
        if len(set(made)) != len(made) or len(made) != len(self.outputs) - len(self.workspaces):
            raise KernelError(
                "not every tensor from `T.empty` is returned once",
                location=location,
                hint="Return all of them: `return C, D`.",
            )
        return tuple(made)


def scalar_type(annotation: Any) -> ir.DType | None:
    """Return the element type that an annotation names, for a scalar that is known at launch."""
    if is_dtype(annotation) or isinstance(annotation, ir.DType):
        return dtype_of(annotation)
    return None


_PURE = (ir.Constant, ir.Load, ir.Binary, ir.Unary, ir.Compare, ir.Cast)


def sweep(body: ir.Block) -> None:
    """Take out what nothing uses: elements that only named a place, ends of slices."""
    _sweep(body, Counter(v for op in ir.walk(body) for v in op.operand_values()))


def _sweep(block: ir.Block, uses: Counter[ir.Value]) -> None:
    kept: list[ir.OpBase] = []
    for op in reversed(block.ops):
        for inner in op.blocks():
            _sweep(inner, uses)
        if isinstance(op, _PURE) and not uses[op.result]:
            uses.subtract(op.operand_values())
        else:
            kept.append(op)
    block.ops[:] = reversed(kept)
