"""What the statements of a tile kernel read and write, and which loops they depend on.

In: a kernel.  Out: `Effects`: for each statement the buffers that it reads and writes, whether it
writes all of what it writes, and what its values depend on: indices of loops, and buffers.

    copy %Q_tile, %Q_shared          reads Q, writes all of Q_shared, depends on %head, %by
    parallel … store %1, %x, [%i]    reads what %1 is loaded from, writes x

A value is named by what makes it, so two views of the same rows are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.values import Values, values_of
from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel

LOOPS = ("for", "parallel", "launch")
_HARMLESS = frozenset((
    "constant", "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min",
    "max", "pow", "atan2", "copysign", "and", "or", "xor", "shl", "shr", "neg", "not", "abs", "exp",
    "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "erf", "sigmoid", "floor", "ceil", "trunc", "round",
    "isnan", "isinf", "isfinite", "popcount", "clz", "lt", "le", "gt", "ge", "eq", "ne", "fma",
    "select", "cast", "bitcast", "yield", "view", "alloc", "reinterpret", "scope", "if", "for",
    "parallel", "load", "store", "fill", "reduce", "scan", *COPIES, *PRODUCTS,
))  # fmt: skip
"""Ops of which all is known that they read and write."""


@dataclass(frozen=True, eq=False)
class Effect:
    """Of one statement, with everything inside of it."""

    op: Op
    read: frozenset[str]
    """Buffers whose contents from before it are used."""
    written: frozenset[str]
    whole: frozenset[str]
    """Of the written ones, those that are written in full, whatever was there before."""
    depends: frozenset[str]
    """Indices of loops around it that it depends on."""
    known: bool
    """Whether it does nothing else, as an atomic does."""

    @property
    def lines(self) -> frozenset[int]:
        """In the kernel's source."""
        return frozenset(each.line for each in self.op.walk() if each.line)


class Effects:
    """Of all statements of one kernel."""

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        self.values: Values = values_of(kernel)
        self.made = {name: op for op, _ in kernel.nested for name in op.results}
        self.constant = frozenset(kernel.parameters) - {
            self.root(name) for op, _ in kernel.nested for name in _changed(op)
        }
        """Tensors that nothing in the kernel writes: elements loaded from them stay the same."""
        self._used: dict[str, frozenset[str]] = {}
        self._named: dict[str, object] = {}

    # -- buffers and values

    def root(self, name: str) -> str:
        """The buffer that a name is a view of, or the name."""
        while (op := self.made.get(name)) is not None and op.name in ("view", "reinterpret"):
            name = op.source
        return name

    def is_buffer(self, name: str) -> bool:
        """Whether a name is that of a buffer, or of a part of one."""
        held = self.kernel.types.get(name)
        return held is not None and bool(held.space)

    def used(self, name: str) -> frozenset[str]:
        """What a value, or the place of a view, goes back to: indices, and buffers that are loaded;
        for a branch also what decides it."""
        if name not in self._used:
            self._used[name] = frozenset()  # until it is known
            op = self.made.get(name)
            self._used[name] = frozenset([name]) if op is None else self._of_op(op)
        return self._used[name]

    def _of_op(self, op: Op) -> frozenset[str]:
        if op.name == "alloc":
            return frozenset()
        found = set[str]()
        if op.name == "load":
            found.add(self.root(op.source))
        elif op.name not in ("view", "reinterpret"):
            found |= self._all(op.operands)
        elif op.source in self.made:
            found |= self.used(op.source)
        found |= self._all(name for held in op.lists for name in held)
        for block in op.blocks:
            for each in block.ops:
                found |= self._of_op(each) - set(block.arguments)
        return frozenset(found)

    def _all(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self.used(name) for name in names if name != "_"))

    def identity(self, name: str) -> object:
        """What makes a value: equal for two that are the same wherever both are known."""
        if name not in self._named:
            self._named[name] = name
            op = self.made.get(name)
            if op is not None and (
                op.name not in ("alloc", "load", "for", "if")
                or (op.name == "load" and op.source in self.constant)
            ):
                self._named[name] = (
                    op.name, repr(op.words), tuple(map(self.identity, op.operands)),
                    tuple(tuple(map(self.identity, each)) for each in op.lists),
                    repr(sorted((k, repr(v)) for k, v in op.attributes.items())),
                )  # fmt: skip
        return self._named[name]

    # -- statements

    def of(self, op: Op) -> Effect:
        """Of a statement."""
        return _Reader(self, op).effect

    def turns(self, loop: Op) -> float:
        """How often a loop turns, on average over blocks; 0 where that is not known."""
        return self.values.mean_turns(loop) or 0.0


class _Reader:
    """Walks a statement in its order."""

    def __init__(self, effects: Effects, op: Op) -> None:
        self.effects = effects
        self.read, self.written, self.whole = set[str](), set[str](), set[str]()
        self.used, self.known = set[str](), True
        self.inside = {name for each in op.walk() for name in each.results}
        self._statement(op, (), True)
        inner = {name for each in op.walk() for block in each.blocks for name in block.arguments}
        buffers = {name for name in self.used if effects.is_buffer(name)}
        self.effect = Effect(
            op, frozenset(self.read | buffers), frozenset(self.written), frozenset(self.whole),
            frozenset(self.used - buffers - inner), self.known,
        )  # fmt: skip

    def _statement(self, op: Op, around: tuple[Op, ...], sure: bool) -> None:
        self.known &= op.name in _HARMLESS
        for name in (*op.operands, *(each for names in op.lists for each in names)):
            self._from_outside(name)
        if op.name == "load":
            self._reads(op.source)
        elif op.name == "store":
            self._writes(op.operands[1], sure and self._covers(op, around))
        elif op.name in COPIES:
            self._reads(op.source)
            self._writes(op.operands[1], sure)
        elif op.name == "fill":
            self._writes(op.source, sure)
        elif op.name == "scan":
            self._sums_up(op.operands, True, sure)
        elif op.name == "reduce":
            self._sums_up(op.operands, op.attributes.get("clear") is not False, sure)
        elif op.name in PRODUCTS:
            self._sums_up(op.operands[:3], op.says("clear"), sure)
        turning = op.name != "for" or self.effects.turns(op) >= 1
        for block in op.blocks:
            for each in block.ops:
                self._statement(each, (*around, op), sure and op.name != "if" and turning)

    def _sums_up(self, operands: tuple[str, ...], clear: bool, sure: bool) -> None:
        *sources, target = operands
        for name in sources:
            self._reads(name)
        if not clear:
            self._reads(target)
        self._writes(target, sure and clear)

    def _reads(self, name: str) -> None:
        root = self.effects.root(name)
        if root not in self.whole:
            self.read.add(root)

    def _writes(self, name: str, whole: bool) -> None:
        root = self.effects.root(name)
        self.written.add(root)
        # A view of a tensor is all that a statement writes of it, but others read the rest.
        if whole and (name == root or self.effects.kernel.types[root].space == "global"):
            self.whole.add(root)

    def _from_outside(self, name: str) -> None:
        """What a value that was made before the statement goes back to."""
        is_known = name in self.effects.made or not self.effects.is_buffer(name)
        if name not in self.inside and name != "_" and is_known:
            self.used |= self.effects.used(name)

    def _covers(self, op: Op, around: tuple[Op, ...]) -> bool:
        """Whether the loops of a statement go through all elements of what a store writes."""
        effects, shape = self.effects, self.effects.kernel.types[op.operands[1]].extents
        inner = {name for each in around for name in each.arguments}
        if shape is None or len(shape) != len(op.listed):
            return False
        if effects.kernel.types[op.operands[1]].space == "global":
            return True
        for extent, index in zip(shape, op.listed):
            turns = effects.values.turns.get(index)
            if extent != 1 and not (
                index in inner and turns is not None and not turns.ndim and int(turns) == extent
            ):
                return False
        return len(set(op.listed)) == len(op.listed) or math.prod(shape) == 1


def _changed(op: Op) -> tuple[str, ...]:
    """Return the operands of an op that may be buffers which it writes."""
    if op.name in ("load", "view", "reinterpret"):
        return ()
    if op.name in COPIES:
        return op.operands[1:]
    return op.operands


@lru_cache(maxsize=2)
def effects_of(kernel: TileKernel) -> Effects:
    """Of a kernel; made once, as long as no other one is asked about."""
    return Effects(kernel)
