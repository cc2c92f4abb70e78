"""Functions that a parallel loop calls more often than it has to.

In: a kernel.  Out: `PerPoint` for each line of a parallel loop that computes something again for
points of an axis that it does not depend on: what it is, for how many points it is the same, and
which part of the line's work it is. `Joined` for each line whose calls of a function one call could
replace.

    parallel [64, 512] i, j: … exp(load G, [i]) …       512 times the same exponential
    parallel [64, 512] i, j: … x / load S, [i] …        512 divisions by one number: a reciprocal

    parallel [64, 512] i, j: … exp(a) * exp(b)           exp(a + b)

What a thread computes for several of its points a compiler merges, so a line may cost nothing.
Loads of the same elements are left out: they come from L1, and two kernels on an H200 were no
faster with these elements in shared memory.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import PER_POINT_FUNCTIONS
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["Joined", "PerPoint", "joined_calls", "per_point"]

_FREE = ("constant", "view", "alloc", "yield", "parallel", "for", "if")
_FLOATS = ("float", "bfloat")
_POWERS = dict.fromkeys(("exp", "exp2", "exp10"), "+")
_JOINS: Mapping[str, Mapping[str, str]] = {
    "mul": {**_POWERS, "sqrt": "*", "rsqrt": "*"},
    "div": {**dict.fromkeys(_POWERS, "-"), "sqrt": "/"},
    "add": dict.fromkeys(("log", "log2", "log10"), "*"),
    "sub": dict.fromkeys(("log", "log2", "log10"), "/"),
}
"""What the arguments of two calls are joined by, where one call gives what an operation makes of
the results; keyed by that operation, and by function."""


@dataclass(frozen=True, eq=False)
class PerPoint:
    """Work in a line of a parallel loop that is the same for several of its points."""

    line: int
    """Line in the kernel's source."""
    names: tuple[str, ...]
    """Functions."""
    axes: tuple[str, ...]
    """Indices that it does not depend on."""
    times: int
    """For how many points it is the same."""
    part: float
    """Share of the line's instructions, 0 to 1."""


@dataclass(frozen=True, eq=False)
class Joined:
    """Calls in a line of a parallel loop that one call could replace, two by two."""

    line: int
    """Line in the kernel's source."""
    name: str
    """The function."""
    same: str
    """What two calls are, and the one that gives the same."""
    part: float
    """Share of the line's instructions that goes, 0 to 1."""


@lru_cache(maxsize=2)
def per_point(kernel: TileKernel) -> tuple[PerPoint, ...]:
    """Return all such work of a kernel, one for each line and set of axes."""
    effects = effects_of(kernel)
    return tuple(each for op in kernel.named("parallel") for each in _of(effects, op))


def _of(effects: Effects, loop: Op) -> Iterator[PerPoint]:
    inside = [op for op in loop.walk() if op is not loop and op.name not in _FREE]
    changed = {effects.root(op.operands[1]) for op in inside if op.name == "store"}
    whole = defaultdict[int, int](int)
    same: dict[tuple[int, tuple[str, ...]], dict[str, int]] = defaultdict(dict)
    for op in inside:
        work = PER_POINT_FUNCTIONS.get(op.name, 0)
        whole[op.line] += work or 1
        if not work or not _is_float(effects, op):
            continue
        # A division by one number is a product with its reciprocal, which stays.
        used = effects.used(op.operands[1] if op.name == "div" else op.result)
        axes = tuple(each for each in loop.arguments if each not in used)
        if axes and used and not used & changed:
            held = same[op.line, axes]
            held[op.name] = held.get(op.name, 0) + work - (op.name == "div")
    for (line, axes), names in same.items():
        times = math.prod(int(effects.values.turns.get(each, 1)) for each in axes)
        if times > 1:
            part = sum(names.values()) / whole[line] * (1 - 1 / times)
            yield PerPoint(line, tuple(names), axes, times, part)


@lru_cache(maxsize=2)
def joined_calls(kernel: TileKernel) -> tuple[Joined, ...]:
    """Return all such calls of a kernel, one for each line, function and operation."""
    effects = effects_of(kernel)
    uses = Counter(
        name for op, _ in kernel.nested for held in (op.operands, *op.lists) for name in held
    )
    return tuple(
        each for op in kernel.named("parallel") for each in _joined(effects, op, uses)
    )  # fmt: skip


def _joined(effects: Effects, loop: Op, uses: Counter[str]) -> Iterator[Joined]:
    inside = [op for op in loop.walk() if op is not loop and op.name not in _FREE]
    spellings = _Spellings(effects)
    whole, gone = defaultdict[int, dict[int, int]](dict), Counter[tuple[int, str, str]]()
    for op in inside:
        whole[op.line][spellings.of(op)] = PER_POINT_FUNCTIONS.get(op.name, 1)
        one, *others = (effects.made.get(name) for name in op.operands)
        held = _JOINS.get(op.name, {})
        if len(others) != 1 or one is None or (other := others[0]) is None or one is other:
            continue
        # A call for fewer points is rather made before the loop, and its result kept.
        axes = [effects.used(call.result).intersection(loop.arguments) for call in (one, other)]
        if (
            one.name == other.name in held and _is_float(effects, op) and axes[0] == axes[1]
            and uses[one.result] == uses[other.result] == 1
        ):  # fmt: skip
            name, by = one.name, {"mul": "*", "div": "/", "add": "+", "sub": "-"}[op.name]
            same = f"{name}(a) {by} {name}(b) is {name}(a {held[name]} b)"
            more = _taken_apart(spellings, one.source, other.source) if by == "*" else 0
            gone[other.line, name, same] += PER_POINT_FUNCTIONS[name] + more
    for (line, name, same), work in gone.items():
        yield Joined(line, name, same, min(1.0, work / sum(whole[line].values())))


@dataclass(frozen=True, eq=False)
class _Spellings:
    """Numbers of what ops compute: equal for those that a compiler merges in one statement."""

    effects: Effects
    _known: dict[Op, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    """By an op and the numbers of what it is given, so that shared parts are spelled once."""

    def of(self, op: Op) -> int:
        """Return the number of an op."""
        if op not in self._known:
            names = (*op.operands, *op.listed)
            made = ((name, self.effects.made.get(name)) for name in names)
            parts = tuple(
                name if each is None or each.blocks else self.of(each) for name, each in made
            )
            key = (op.name, op.words, parts) if op.name != "alloc" else op.result
            self._known[op] = self._numbers.setdefault(key, len(self._numbers))
        return self._known[op]


def _taken_apart(spellings: _Spellings, one: str, other: str) -> int:
    """Return how many instructions go beside a call, as one argument is what another leaves of a
    sum: their own sum is there already."""
    for part, rest in ((one, other), (other, one)):
        made, taken = spellings.effects.made.get(rest), spellings.effects.made.get(part)
        if made is None or taken is None or made.name != "sub":
            continue
        same = spellings.effects.made.get(made.operands[1])
        if same is not None and spellings.of(same) == spellings.of(taken):
            # The difference and the operation that joins the results go, and what is taken.
            return 2 + PER_POINT_FUNCTIONS.get(taken.name, 0)
    return 0


def _is_float(effects: Effects, op: Op) -> bool:
    held = effects.kernel.types.get(op.result)
    return held is not None and held.dtype.startswith(_FLOATS)
