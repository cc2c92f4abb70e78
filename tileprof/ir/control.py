"""Launches, loops, branches, scopes, and the records that instrumentation inserts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from .core import Block, OpBase, Value, attribute, op, operand, operands, region
from .effects import Effect
from .scalar import constant_of
from .schedule import LaunchSchedule, LoopSchedule, launch_schedule, loop_schedule
from .tile import Hints
from .types import Type, bool_, index

LoopKind = Literal["serial", "unroll", "vectorized", "pipelined", "persistent"]
Edge = Literal["begin", "end"]
Origin = Literal["", "copy", "fill", "atomic"]


def _verify_args(body: Block, count: int) -> Iterator[str]:
    if [a.type for a in body.args] != [index] * count:
        yield f"the body takes {[str(a.type) for a in body.args]}, not {count} of type index"


def _constants(values: Sequence[Value]) -> tuple[int, ...] | None:
    found = tuple(int(n) for n in map(constant_of, values) if n is not None)
    return found if len(found) == len(values) else None


@op("launch", effect=Effect.CONTROL)
class Launch(OpBase):
    """Run `body` once for each block of the grid, in any order; its arguments are the block's
    indices, and a block's number counts the first of them fastest.  `threads` is the size of a
    block in threads, one number an axis."""

    grid: list[Value] = operands()
    threads: tuple[int, ...] = attribute()
    body: Block = region()
    hints: Hints = attribute(default=())
    schedule: LaunchSchedule = attribute(default=LaunchSchedule(), read=launch_schedule)

    @property
    def block_threads(self) -> int:
        """Threads of a block, as the author asked for."""
        return math.prod(self.threads)

    def scheduled(self, schedule: LaunchSchedule, body: Block | None = None) -> Launch:
        """Return the launch with these decisions, and with `body` where one is given."""
        held = self.grid, self.threads, self.body if body is None else body, self.hints
        return Launch(*held, schedule, span=self.span)

    def with_body(self, body: Block) -> Launch:
        """Return the launch with another body."""
        return self.scheduled(self.schedule, body)

    def verify(self) -> Iterator[str]:
        """One block index for each extent of the grid."""
        yield from _verify_args(self.body, len(self.grid))


@op("for", effect=Effect.CONTROL)
class For(OpBase):
    """Run `body` for start, start + step, … below stop, in order; `step` is positive or negative.

    `pipelined` overlaps copies of later iterations with the work of earlier ones and means the
    same; `persistent` marks the loop of a block over its share of tiles.  Where its body yields a
    number, that is the next one instead of the sum with `step`.
    """

    kind: LoopKind = attribute(positional=True)
    start: Value = operand()
    stop: Value = operand()
    step: Value = operand()
    body: Block = region()
    num_stages: int = attribute(default=0)
    hints: Hints = attribute(default=())
    schedule: LoopSchedule = attribute(default=LoopSchedule(), read=loop_schedule)

    @property
    def static_range(self) -> range | None:
        """Numbers that the loop counts through; None where a bound is known at launch only."""
        numbers = _constants([self.start, self.stop, self.step])
        return range(*numbers) if numbers is not None and numbers[2] else None

    def verify(self) -> Iterator[str]:
        """Bounds are `index` and the body takes one."""
        yield from _verify_args(self.body, 1)
        if {self.start.type, self.stop.type, self.step.type} != {index}:
            yield "the bounds of a loop are not of type index"


@op("parallel", effect=Effect.CONTROL)
class Parallel(OpBase):
    """Run `body` for every point of a box, in any order or at once.

    No two points may write one element.  A `local` buffer from outside is private to each point:
    it starts with its value from before, and is undefined after where a point writes it.
    """

    extents: list[Value] = operands()
    body: Block = region()
    hints: Hints = attribute(default=())
    layout: str = attribute(default="")
    """Assignment of points to threads, as text; '' leaves it to the backend."""
    origin: Origin = attribute(default="")
    """The tile op that a GPU backend made the loop of; '' for a loop of the author."""

    @property
    def static_extents(self) -> tuple[int, ...] | None:
        """Points of each dimension; None where one is known at launch only."""
        return _constants(self.extents)

    def verify(self) -> Iterator[str]:
        """Extents are `index`, one argument for each."""
        yield from _verify_args(self.body, len(self.extents))
        if any(e.type != index for e in self.extents):
            yield "an extent is not of type index"


@op("while", effect=Effect.CONTROL)
class While(OpBase):
    """Run `body` as long as `condition` yields true."""

    condition: Block = region()
    body: Block = region()

    def verify(self) -> Iterator[str]:
        """The condition yields one bool."""
        last = self.condition.ops[-1] if self.condition.ops else None
        if not isinstance(last, Yield) or [v.type for v in last.values] != [bool_]:
            yield "the condition does not yield one bool"


@op("if", effect=Effect.CONTROL)
class If(OpBase):
    """Run one of two blocks; where both yield, what they yield is the result."""

    condition: Value = operand()
    then: Block = region()
    otherwise: Block = region()

    def result_types(self) -> tuple[Type, ...]:
        """Return the types of what `then` yields."""
        last = self.then.ops[-1] if self.then.ops else None
        return tuple(v.type for v in last.values) if isinstance(last, Yield) else ()

    def verify(self) -> Iterator[str]:
        """The condition is bool; both blocks yield the same types."""
        if self.condition.type != bool_:
            yield f"the condition is {self.condition.type}, not bool"
        last = self.otherwise.ops[-1] if self.otherwise.ops else None
        other = [v.type for v in last.values] if isinstance(last, Yield) else []
        if other != [v.type for v in self.results]:
            yield "the two blocks yield different types"


@op("yield", effect=Effect.CONTROL)
class Yield(OpBase):
    """Give values to the op that holds this block; the last op of the block."""

    values: list[Value] = operands()


@op("break", effect=Effect.CONTROL)
class Break(OpBase):
    """Leave the innermost `for` or `while`."""


@op("continue", effect=Effect.CONTROL)
class Continue(OpBase):
    """Go on with the next iteration of the innermost `for` or `while`, or leave this point of the
    innermost `parallel`."""


@op("scope", effect=Effect.CONTROL)
class Scope(OpBase):
    """A named part of the kernel, for measurement; it changes nothing else."""

    name: str = attribute(positional=True)
    body: Block = region()


@op("record", effect=Effect.READ | Effect.WRITE, on="sites")
class Record(OpBase):
    """Note the time at which a site of the kernel begins or ends."""

    edge: Edge = attribute(positional=True)
    site: int = attribute()
