"""Arguments of a kernel that are tunable, and the values that they may have.

In: a function of tiles with its sizes bound; the author's configurations, or none.  Out: a `Space`.
Without configurations, an argument counts as tunable if its default is a positive whole number and
another value changes how the kernel is cut into tiles, and nothing that a caller can see:

    threads   the threads of a block change
    stages    the stages of pipelined loops change
    raster    the order of blocks changes
    tile      the buffers of a block, the grid, or a loop over elements, change

One that changes the types of tensors (a size), or arithmetic alone (a window, a factor), is not.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

from tileprof import ir
from tileprof.errors import TileprofError, UsageError
from tileprof.lang.trace import Traced

from .configurations import Configuration, Value

Role: TypeAlias = Literal["tile", "threads", "stages", "raster", "given"]
Trace: TypeAlias = Callable[[Mapping[str, Any]], Traced]
"""Traces the kernel with these values of tunable arguments."""

_THREADS = (64, 128, 256, 384, 512)
_STAGES = (1, 2, 3, 4, 5, 6, 8)
_RASTER = (1, 4, 8, 16, 32)
_TILE_STEPS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
"""Multiples of the default that a tile's side may have."""
_MOST_SIDE = 256
"""Largest side of a tile that is multiplied: two of them fill the registers of a block."""
_LEAST_SIDE = 16
"""Smallest side of a tile that is multiplied: an instruction's."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """One argument with its values, the smallest first."""

    name: str
    role: Role
    default: Value
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Configurations that may be chosen."""

    tunables: tuple[Tunable, ...]
    listed: tuple[Configuration, ...] = ()
    """The author's configurations; without any, all combinations of values."""
    controls: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    """Lowering controls with the values that are tried beside the default."""

    @property
    def default(self) -> Configuration:
        """The configuration of the author's defaults, or the first listed one."""
        own = Configuration(tuple((t.name, t.default) for t in self.tunables))
        return self.listed[0] if self.listed and own not in self.listed else own

    @property
    def size(self) -> int:
        """Number of configurations."""
        if self.listed:
            return len(self.listed)
        sizes = [len(t.values) for t in self.tunables] + [len(v) + 1 for _, v in self.controls]
        return math.prod(sizes)

    def roles(self) -> dict[str, Role]:
        """Roles by name."""
        return {t.name: t.role for t in self.tunables}

    def all(self) -> Iterator[Configuration]:
        """Yield every configuration, those with default controls only."""
        if self.listed:
            yield from self.listed
            return
        for values in product(*(t.values for t in self.tunables)):
            yield Configuration(tuple((t.name, v) for t, v in zip(self.tunables, values)))

    def neighbours(self, of: Configuration) -> Iterator[Configuration]:
        """Yield the configurations that differ in one step of one argument, or in two sides of a
        tile that change places; and in one control."""
        held = of.named
        for each in self.tunables:
            at = each.values.index(held[each.name])
            for step in (-1, 1):
                if 0 <= at + step < len(each.values):
                    yield of.replaced(each.name, each.values[at + step])
        yield from self._exchanged(of)
        for name, values in self.controls:
            for value in (None, *values):
                if (made := of.controlled(name, value)) != of:
                    yield made

    def _exchanged(self, of: Configuration) -> Iterator[Configuration]:
        """Yield configurations in which one side of a tile grows and another one shrinks."""
        sides = [t for t in self.tunables if t.role == "tile"]
        held = of.named
        for grown in sides:
            for shrunk in sides:
                up = grown.values.index(held[grown.name]) + 1
                down = shrunk.values.index(held[shrunk.name]) - 1
                if grown is not shrunk and up < len(grown.values) and down >= 0:
                    yield of.replaced(grown.name, grown.values[up]).replaced(
                        shrunk.name, shrunk.values[down]
                    )

    def steps(self, one: Configuration, other: Configuration) -> float:
        """Return how far apart two configurations are, in steps: of the values of an argument, 1
        for each control."""
        total = 0.0
        left, right = one.named, other.named
        for each in self.tunables:
            ends = left.get(each.name), right.get(each.name)
            total += _apart(*ends) ** 2
        total += len(set(one.controls) ^ set(other.controls))
        return math.sqrt(total)


def _apart(one: Value, other: Value) -> float:
    """Return the doublings between two numbers; 1 for two different values that are none."""
    if one == other:
        return 0.0
    if isinstance(one, int | float) and isinstance(other, int | float) and one > 0 < other:
        return abs(math.log2(one / other))
    return 1.0


def listed_space(configurations: Sequence[Configuration], signature: inspect.Signature) -> Space:
    """Return the space of an author's configurations; UsageError for one that sets what is no
    argument, or where they do not set the same arguments."""
    if not configurations:
        raise UsageError("there is no configuration to tune", hint="Give at least one, or none.")
    names = configurations[0].named.keys()
    for each in configurations:
        for name in each.named.keys() - signature.parameters.keys():
            raise UsageError(
                f"a configuration sets `{name}`, which is not an argument",
                hint=f"The arguments are: {', '.join(signature.parameters)}.",
            )
        if each.named.keys() != names:
            raise UsageError(
                f"configurations differ in the arguments that they set: `{each}`",
                hint=f"Set {', '.join(names)} in each of them.",
            )
    parameters = signature.parameters
    tunables = []
    for name in names:
        values = tuple(dict.fromkeys(each.named[name] for each in configurations))
        default = parameters[name].default
        held = values[0] if default is inspect.Parameter.empty else default
        tunables.append(Tunable(name, "given", held, _sorted(values)))
    return Space(tuple(tunables), tuple(dict.fromkeys(configurations)))


def _sorted(values: tuple[Value, ...]) -> tuple[Value, ...]:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return tuple(sorted(numbers)) if len(numbers) == len(values) else values


def found_space(
    signature: inspect.Signature, fixed: Mapping[str, Any], trace: Trace, *, on_gpu: bool
) -> Space:
    """Return the space that a kernel's own text leaves open; UsageError where it leaves none."""
    base = _Cut.of(trace({}))
    tunables = []
    for name, parameter in signature.parameters.items():
        default = parameter.default
        if name in fixed or type(default) is not int or default < 1:
            continue
        role = _role(name, default, base, trace)
        values = _values(role, default, base.products > 0) if role else ()
        if role and len(values) > 1 and (on_gpu or role == "tile"):
            tunables.append(Tunable(name, role, default, values))
    if not tunables:
        raise UsageError(
            "the kernel has no argument that could be tuned",
            hint="Make tile sizes, stages or threads arguments with defaults, as `block_M=128`, "
            "and leave them out of --set; or give configurations.",
        )
    return Space(tuple(tunables), controls=_controls(base) if on_gpu else ())


def _role(name: str, default: int, base: _Cut, trace: Trace) -> Role | None:
    """Return what another value of an argument changes; None for a size, or for arithmetic."""
    for value in (2 * default, default // 2, default + 1):
        if value < 1 or value == default:
            continue
        try:
            other = _Cut.of(trace({name: value}))
        except TileprofError:
            continue
        except Exception:  # the author's own, about a value that the kernel cannot have
            continue
        return base.role_of(other)
    return None


def _values(role: Role, default: int, products: bool) -> tuple[Value, ...]:
    match role:
        case "threads":
            held = {*_THREADS, default}
        case "stages":
            held = {*_STAGES, default}
        case "raster":
            held = {*_RASTER, default}
        case _:
            held = {int(default * step) for step in _TILE_STEPS if default * step >= 1}
            if products and default >= _LEAST_SIDE:
                held = {v for v in held if _LEAST_SIDE <= v <= max(_MOST_SIDE, default)}
    return tuple(sorted(held))


def _controls(base: _Cut) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """Return the lowering controls that may pay for a kernel of this form."""
    held: list[tuple[str, tuple[Value, ...]]] = []
    if base.pipelined and base.products:
        held += [("cluster", (2,)), ("persistent", (False,))]
    if base.pipelined and base.products > 1:
        held += [("overlap", (False, True)), ("ping_pong", (False, True))]
    return tuple(held)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Division of a kernel into tiles, and what its callers see of it."""

    seen: tuple[object, ...]
    """Names, types and roles of arguments and results."""
    threads: tuple[tuple[int, ...], ...]
    stages: tuple[int, ...]
    hints: tuple[object, ...]
    tiles: tuple[object, ...]
    """Buffers of blocks, and extents of grids and of loops over elements."""
    products: int
    pipelined: bool

    @classmethod
    def of(cls, traced: Traced) -> _Cut:
        """Return the cut of a traced kernel."""
        kernel = traced.kernel
        # What one launch passes to the next is no caller's business.
        shown = [p for at, p in enumerate(kernel.params) if p.role == "in" or at in traced.returned]
        ops = list(kernel.ops())
        launches = kernel.launches()
        loops = [op for op in ops if isinstance(op, ir.For) and op.num_stages]
        buffers = [op for op in ops if isinstance(op, ir.Alloc)]
        sizes = [op.grid for op in launches]
        sizes += [op.extents for op in ops if isinstance(op, ir.Parallel)]
        grids = [tuple(map(ir.constant_of, each)) for each in sizes]
        advice = [str(op.hints) for op in launches]
        advice += [repr((op.name, op.hints)) for op in ops if isinstance(op, ir.Annotate)]
        return cls(
            tuple((p.name, p.type, p.role) for p in shown),
            tuple(op.threads for op in launches),
            tuple(op.num_stages for op in loops),
            tuple(advice),
            (*((op.space, op.shape, op.dtype) for op in buffers), *grids),
            sum(isinstance(op, ir.Gemm) for op in ops),
            bool(loops),
        )

    def role_of(self, other: _Cut) -> Role | None:
        """Return what differs between two cuts of a kernel, by an argument."""
        if self.seen != other.seen:
            return None
        if self.threads != other.threads:
            return "threads"
        if self.tiles != other.tiles:
            return "tile"
        if self.stages != other.stages:
            return "stages"
        return "raster" if self.hints != other.hints else None
