"""Values, blocks, and how an op is declared.

An op is a class with `@op`: its fields are operands, attributes and regions, in the order of the
text form.  Ops are not changed after they are built; passes build new ones (`rewriter.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from tileprof.errors import Location

from .effects import DeclaredAccess, Effect, Queue, Resource
from .types import BufferType, DType, Type


class Value:
    """The result of an op or the argument of a block; `name` is a hint for the text form."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, name: str = "", owner: OpBase | None = None) -> None:
        self.type = type
        self.name = name
        self.owner = owner

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"

    @property
    def dtype(self) -> DType:
        """The element type of a scalar or of a buffer."""
        return self.type.dtype if isinstance(self.type, BufferType) else self.type

    @property
    def buffer(self) -> BufferType:
        """The type of a buffer value; TypeError for a scalar."""
        if not isinstance(self.type, BufferType):
            raise TypeError(f"%{self.name} is not a buffer but {self.type}")
        return self.type


class Block:
    """A list of ops with arguments: loop variables, block indices."""

    __slots__ = ("args", "ops")

    def __init__(self, args: list[Value] | None = None, ops: list[OpBase] | None = None) -> None:
        self.args = args if args is not None else []
        self.ops = ops if ops is not None else []


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Declaration of an op: the order of its fields and their roles."""

    name: str
    effect: Effect
    """Effect of the op on anything, its operands' memory included."""
    resource: Resource | None
    """Resource that it reads or writes besides the memory that operands name."""
    declared: bool
    """Whether the declaration says what the op reads and writes, or that it is nothing."""
    accesses: tuple[DeclaredAccess, ...]
    """One for each operand that names memory, also where the op itself leaves it alone."""
    touches: tuple[DeclaredAccess, ...]
    """Those of `accesses` that read or write, of one value and not of a list."""
    mnemonic_field: str
    """The attribute whose value is the op's name in the text form (`add` of `binary`), or ''."""
    operands: tuple[tuple[str, bool], ...]
    """Field name, and whether it holds a list."""
    positional: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...]
    """Field name and default (`dataclasses.MISSING` where there is none)."""
    kept: tuple[str, ...]
    """Fields that a copy of an op shares with it: all but operands, regions and results."""
    regions: tuple[str, ...]
    gives: Type | str | None
    """Type of the only result, or the field that has it: a type, or an operand of that type."""


OPS: dict[str, type[OpBase]] = {}
"""Every declared op by its name, and by each mnemonic that stands for it."""


def operand(
    effect: Effect | None = None,
    *,
    at: str = "",
    unless: str = "",
    optional: bool = False,
    default: Any = MISSING,
) -> Any:
    """Return a field that holds one value (None is allowed where `optional`, and may be left out
    with the `default` None). `effect`: what the op does to the memory or the ring that it names;
    `at` and `unless` as in `DeclaredAccess`.
    """
    meta = {"role": "operand", "effect": effect, "at": at, "unless": unless}
    return (
        field(default=None, metadata=meta) if optional or default is None else field(metadata=meta)
    )


def operands(effect: Effect | None = None) -> Any:
    """Return a field that holds a list of values; `effect` as in `operand`."""
    return field(metadata={"role": "operands", "effect": effect, "at": "", "unless": ""})


def attribute(
    *, default: Any = MISSING, positional: bool = False, read: Callable[[Any], Any] | None = None
) -> Any:
    """Return a field known at compile time; a positional one is printed without its name.

    `read` makes its value of what the text form holds, where that is text or a list for a type of
    its own; it raises ValueError for what it cannot read.
    """
    meta = {"role": "attribute", "positional": positional, "read": read}
    return field(metadata=meta) if default is MISSING else field(default=default, metadata=meta)


def region() -> Any:
    """Return a field that holds a block of ops."""
    return field(metadata={"role": "region"})


@dataclass(frozen=True, slots=True)
class Access:
    """One buffer that an op reads or writes, as its operand names it: an allocation, a parameter
    or a view."""

    value: Value
    reads: bool
    writes: bool
    indices: tuple[Value, ...] | None = None
    """The one element that is meant; None: all of `value`."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class OpBase:
    """Base of all ops: source location, and decisions of the compiler."""

    SPEC: ClassVar[OpSpec]

    span: Location | None = field(default=None, metadata={"role": "meta"})
    hint: str = field(default="", metadata={"role": "meta"})
    """Name hint for the result."""
    results: tuple[Value, ...] = field(default=(), init=False, metadata={"role": "meta"})

    def __post_init__(self) -> None:
        types = self.result_types()
        if types:
            self.results = tuple(Value(t, self.hint, self) for t in types)

    def result_types(self) -> tuple[Type, ...]:
        """Types of the results: what the declaration `gives`."""
        gives = self.SPEC.gives
        if isinstance(gives, str):
            held = getattr(self, gives)
            return (held if isinstance(held, DType) else held.type,)
        return () if gives is None else (gives,)

    def verify(self) -> Iterator[str]:
        """Sentences about what is wrong with this op; none when it is right."""
        return iter(())

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def operand_values(self) -> Iterator[Value]:
        """Yield all operands in order, lists flattened, absent ones left out."""
        for name, many in self.SPEC.operands:
            held = getattr(self, name)
            if many:
                yield from held
            elif held is not None:
                yield held

    def all_operand_values(self) -> Iterator[Value]:
        """Yield the operands of the op and of everything inside of it."""
        for each in self.with_inner_ops():
            yield from each.operand_values()

    @property
    def runs_in(self) -> Queue | None:
        """The queue in which accesses go on behind the op, until a `wait`; None: they end with
        it."""
        return None

    def accesses(self) -> Iterator[Access]:
        """Yield the buffers that the op itself reads or writes, without those of its regions."""
        for each in self.SPEC.touches:
            value = getattr(self, each.field)
            if value is not None and isinstance(value.type, BufferType):
                at = tuple(getattr(self, each.indices)) if each.indices else None
                reads = each.reads and not (each.unless and getattr(self, each.unless))
                yield Access(value, reads, each.writes, at)

    def all_accesses(self) -> Iterator[Access]:
        """Yield the buffers that the op and everything inside of it reads or writes."""
        yield from self.accesses()
        for each in self.inner_ops() if self.SPEC.regions else ():
            if each.SPEC.touches:
                yield from each.accesses()

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the regions."""
        for name in self.SPEC.regions:
            yield getattr(self, name)

    def inner_ops(self) -> Iterator[OpBase]:
        """Yield every op in the regions, outer before inner, in order."""
        for name in self.SPEC.regions:
            yield from walk(getattr(self, name))

    def with_inner_ops(self) -> Iterator[OpBase]:
        """Yield the op itself, then every op in its regions."""
        yield self
        for name in self.SPEC.regions:
            yield from walk(getattr(self, name))

    @property
    def mnemonic(self) -> str:
        """The op's name in the text form."""
        spec = self.SPEC
        return str(getattr(self, spec.mnemonic_field)) if spec.mnemonic_field else spec.name

    def __repr__(self) -> str:
        return f"<{self.mnemonic} at {self.span}>"


T = TypeVar("T")


@dataclass_transform(field_specifiers=(operand, operands, attribute, region), kw_only_default=False)
def op(
    name: str,
    *,
    effect: Effect | None = None,
    on: Resource | None = None,
    mnemonics: tuple[str, ...] = (),
    by: str = "",
    gives: Type | str | None = None,
) -> Callable[[type[T]], type[T]]:
    """Declare an op.  `effect`: what it does besides what its operands declare, and `on` what.
    With `mnemonics`, the attribute `by` chooses the name in the text form.  `gives` as in `OpSpec`;
    without it the class says in `result_types` what its results are."""

    def declare(cls: type[T]) -> type[T]:
        made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
        held = [f for f in fields(made) if f.metadata.get("role")]
        made.SPEC = _spec(name, effect, on, by, gives, held)
        for key in mnemonics or (name,):
            if key in OPS:
                raise ValueError(f"two ops are called {key!r}")
            OPS[key] = made
        return made  # type: ignore[no-any-return]

    return declare


def _spec(
    name: str,
    own: Effect | None,
    on: Resource | None,
    by: str,
    gives: Type | str | None,
    all_fields: list[Field[Any]],
) -> OpSpec:
    def with_role(*roles: str) -> list[Field[Any]]:
        return [f for f in all_fields if f.metadata["role"] in roles]

    attributes = [f for f in with_role("attribute") if f.name != by]
    naming = [f for f in with_role("operand", "operands") if f.metadata["effect"] is not None]
    effect = own or Effect.PURE
    if bool(effect & (Effect.READ | Effect.WRITE)) != (on is not None):
        raise ValueError(f"{name!r} does not say what besides its operands it reads or writes")
    for each in naming:
        effect |= each.metadata["effect"]
    accesses = tuple(map(_declared, naming))
    return OpSpec(
        name,
        effect,
        on,
        own is not None or bool(naming),
        accesses,
        tuple(
            access
            for each, access in zip(naming, accesses)
            if each.metadata["role"] == "operand" and (access.reads or access.writes)
        ),
        by,
        tuple((f.name, f.metadata["role"] == "operands") for f in with_role("operand", "operands")),
        tuple(f.name for f in attributes if f.metadata["positional"]),
        tuple((f.name, f.default) for f in attributes if not f.metadata["positional"]),
        ("span", "hint", *(f.name for f in with_role("attribute"))),
        tuple(f.name for f in with_role("region")),
        gives,
    )


def _declared(held: Field[Any]) -> DeclaredAccess:
    effect: Effect = held.metadata["effect"]
    reads, writes = Effect.READ in effect, Effect.WRITE in effect
    return DeclaredAccess(held.name, reads, writes, held.metadata["at"], held.metadata["unless"])


def users(ops: Iterable[OpBase]) -> dict[Value, list[OpBase]]:
    """Return those of the ops that use each value, in order; an op is there as often as it does."""
    found: dict[Value, list[OpBase]] = {}
    for each in ops:
        for value in each.operand_values():
            found.setdefault(value, []).append(each)
    return found


def walk(block: Block) -> Iterator[OpBase]:
    """Yield every op of a block and of the regions inside, outer before inner, in order."""
    # One generator for all depths: otherwise each op would be handed up through the generators of
    # all blocks around it, and passes spend much of their time here.
    outer: list[Iterator[OpBase]] = []
    ops = iter(block.ops)
    while True:
        for each in ops:
            yield each
            if regions := each.SPEC.regions:
                outer.append(ops)
                first, *others = [iter(getattr(each, name).ops) for name in regions]
                outer += reversed(others)
                ops = first
                break
        else:
            if not outer:
                return
            ops = outer.pop()


def walk_inner_first(block: Block) -> Iterator[OpBase]:
    """Every op of a block and of the regions inside, inner before outer, in order."""
    for each in block.ops:
        for inner in each.blocks():
            yield from walk_inner_first(inner)
        yield each
