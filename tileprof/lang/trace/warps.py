"""Roles of warps, barriers between them, and values that the threads of a warp exchange."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tileprof import ir
from tileprof.errors import KernelError
from tileprof.lang.static import is_number
from tileprof.lang.values import Expr

from .control import Control
from .first_iterations import filled_before
from .threads import barriers, merging
from .threads.barriers import Barrier, BarrierElement, BarrierUse
from .threads.slots import run_ahead

_WARP = 32
"""Threads of a warp."""
_GROUP = 128
"""Threads of a warp group."""


class Warps(Control):
    """Statements of a kernel about the warps of its blocks."""

    barrier_uses: dict[ir.OpBase, BarrierUse]
    role_loads: set[ir.Block]
    """Bodies of loops around loads for which a barrier was named."""

    @contextmanager
    def launch(self, grid: Sequence[Any], threads: tuple[int, ...]) -> Iterator[Any]:
        """The blocks of a grid."""
        self.barrier_uses, self.role_loads, self.work_shape = {}, set(), None
        with super().launch(grid, threads) as held:
            yield held

    def finished(self, body: ir.Block) -> ir.Block:
        """Return the body of a launch without barriers and numbers of threads."""
        if self.barrier_uses or self.role_loads:
            numbers = {value: axis for axis, value in self.thread_numbers.items()}
            body = self._ordered(body, numbers)
        made = super().finished(body)
        filled_before(made)
        return made

    def _ordered(self, body: ir.Block, numbers: Mapping[ir.Value, int]) -> ir.Block:
        """Return the body of a launch in an order that its barriers allow, without them."""
        shape, refuse = self.block_shape, self._refuse_part
        reason: KernelError | None = None
        for merged in merging.orders(body, self.barrier_uses, self.role_loads, numbers, shape):
            try:
                slots = barriers.check_merged(
                    merged.body, merged.uses, merged.loops, numbers, shape, refuse
                )
            except KernelError as error:
                reason = reason or error
                continue
            groups = math.prod(shape) // _GROUP
            # Groups that only load leave a number that tiles do not divide among.
            if merged.products >= _GROUP and groups & (groups - 1):
                self.work_shape = (merged.products,)
            return run_ahead(merged.body, merged.loops, numbers, slots)
        try:
            barriers.check(body, self.barrier_uses, numbers, shape, refuse)
        except KernelError as error:
            raise reason or error from None
        return run_ahead(body, self.role_loads, numbers)

    # -- numbers

    def linear_thread(self) -> Any:
        """Return the number of a thread in its block, the first axis fastest."""
        number, stride = self.thread_number(0), 1
        for axis in range(1, len(self.block_shape)):
            stride *= self.block_shape[axis - 1]
            number = number + self.thread_number(axis) * stride
        return number

    @contextmanager
    def role(self, groups: Sequence[int], size: int) -> Iterator[None]:
        """Run a part in some groups of `size` threads only."""
        self.need_tile_place("`T.ws`")
        group = self.linear_thread() // size
        condition: Any = False
        for each in groups:
            condition = self.binary("or", self.compare("eq", group, each), condition)
        held = self.condition(condition)
        region = self.push("if")
        yield
        self.pop(region)
        if region.returns:
            self.fail(
                KernelError,
                "`T.thread_return` in `T.ws`",
                "Warp groups that have no more work leave `T.ws` at its end.",
            )
        self.emit(ir.If(held, region.block, ir.Block()), region.location)

    # -- barriers

    def alloc_barrier(self, counts: Sequence[Any]) -> Barrier:
        """Return barriers, one for each count of arrivals."""
        self.need_launch("`T.alloc_barrier`")
        self.thread_number(0)  # refused where a block runs as one
        numbers = [self.static(count, "a barrier") for count in counts]
        known = [n for n in numbers if n is not None and n >= 1]
        if not known or len(known) < len(numbers):
            self.fail(
                KernelError,
                f"`T.alloc_barrier` with the counts {list(counts)!r}",
                "Each is how many threads arrive in a phase, 1 or more, known at compile time: "
                "`T.alloc_barrier([128] * 2)`.",
            )
        return Barrier(known)

    def use_barrier(self, kind: Any, place: Any, parity: Any = None) -> None:
        """Arrive at a barrier, or wait for the end of its phase with a parity."""
        what = f"`T.mbarrier_{'arrive' if kind == 'arrive' else 'wait_parity'}`"
        self.need_tile_place(what)
        barrier = self.barrier(place, what)
        index = 0 if isinstance(place, Barrier) else place.index
        held = None if parity is None else self.index(parity)
        use = BarrierUse(kind, barrier, self.index(index), held)
        self.barrier_uses[self.emit(ir.Annotate(barriers.MARK, None, ()))] = use

    def barrier(self, place: Any, what: str) -> Barrier:
        """Return the barriers that an operand names."""
        found = place.barrier if isinstance(place, BarrierElement) else place
        if not isinstance(found, Barrier):
            self.fail(
                KernelError,
                f"{what} of {place!r:.60}",
                "It takes what `T.alloc_barrier` gives, or an element of it: `barriers[k % 2]`.",
            )
        return found

    def note_role_load(self) -> None:
        """Let the loop around a load of a role run it ahead."""
        loop = self.inner("for", "while", "parallel")
        if loop is not None and loop.kind == "for":
            self.role_loads.add(loop.block)

    # -- exchanges

    def shuffle(self, value: Any, source: Callable[[Any], Any], what: str) -> Any:
        """Return for each thread the value of the thread `source` of its own number."""
        self.need_tile_place(what)
        if is_number(value):
            return value
        me = self.linear_thread()
        row = self._shown_to_others(value, me)
        made = self.result(ir.Load(row, [self.index(source(me))]))
        self.epoch += 1
        return made

    def same_in_warp(self, value: Any) -> Any:
        """Return for each thread which threads of its warp have the value that it has."""
        self.need_tile_place("`T.match_any_sync`")
        me = self.linear_thread()
        held = self.value(value)
        row = self._shown_to_others(value, me)
        mask: Any = self.cast(0, ir.dtype("uint32"))
        for lane in range(_WARP):
            other = self.result(ir.Load(row, [self.index(me - me % _WARP + lane)]))
            alike = self.compare("eq", other, Expr(held, self.regions[-1]))
            bit = self.cast(1 << lane, ir.dtype("uint32"))
            mask = mask | self.select(alike, bit, self.cast(0, ir.dtype("uint32")))
        self.epoch += 1
        return mask

    def _shown_to_others(self, value: Any, me: Any) -> ir.Value:
        """Return shared memory with an element for each thread, its value."""
        held = self.value(value)
        threads = math.prod(self.block_shape)
        row = self.emit(ir.Alloc("shared", (threads,), held.dtype, hint="exchanged")).result
        self.emit(ir.Store(held, row, [self.index(me)]))
        return row
