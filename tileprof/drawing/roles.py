"""Scalars that warps load for themselves where a thread of their own loads the tiles.

In: a kernel after all passes, with the arguments of a call.  Out: each load of a scalar, with who
makes it: the one thread that loads ahead, or all warps that multiply.

A list of tiles or a count of them decides what is loaded and what is multiplied, so both sides may
read it, each as often as its own loops need it.  What a role does with tiles changes no scalar:
without that, it is a program that the interpreter runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.passes.pipeline.roles import written_globals
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone
from tileprof.runtime.events.access import Access, listening
from tileprof.runtime.interpreter import InterpreterExecutable

from .one_thread import by_one_thread
from .repeated_loads import Loops, Numbers

WARP = 32


@dataclass(frozen=True, slots=True)
class ScalarLoad:
    """Loads of a scalar by all blocks at once."""

    op: ir.Load
    buffer: str
    requests: int
    bytes: int
    """Bytes of one request."""


class _UnknownError(Exception):
    """A scalar follows from tiles, or from which block takes which tile."""


def is_scalar_load(op: ir.OpBase, fixed: set[ir.Value]) -> bool:
    """Return whether an op outside of parallel loops loads from one of these buffers."""
    return isinstance(op, ir.Load) and base(op.buffer) in fixed


def fixed_buffers(kernel: ir.Kernel, launch: ir.Launch) -> set[ir.Value]:
    """Return the parameters that a launch does not write."""
    return set(kernel.param_values()) - written_globals(launch)


def scalar_loads(
    kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]
) -> list[ScalarLoad] | None:
    """Return the loads of scalars of a kernel's launch by both roles; None where it has no roles,
    where it has several launches, or where scalars follow from more than scalars.  Nothing is
    written to the arguments."""
    launches = kernel.launches()
    if len(launches) != 1:
        return None
    (launch,) = launches
    roles = [op for op in launch.body.ops if isinstance(op, ir.Roles)]
    if len(roles) != 1:
        return None
    found: list[ScalarLoad] = []
    try:
        for block, warps in (
            (roles[0].producer, 1),
            (roles[0].consumer, max(launch.block_threads // WARP, 1)),
        ):
            scalars = _Scalars(fixed_buffers(kernel, launch), by_one_thread(block))
            program = _program(kernel, launch, roles[0], block, scalars)
            listener = _Listener(warps, scalars.alone, _repeated(program, scalars.alone))
            if any(isinstance(each, ir.Load) for each in program.ops()):
                with listening(listener):
                    InterpreterExecutable(program).run(values, symbols)
            found += listener.found
    except _UnknownError:
        return None
    return found


class _Listener:
    """Notes the loads of global memory of a role, which so many warps make."""

    def __init__(self, warps: int, alone: set[ir.OpBase], held: set[ir.OpBase]) -> None:
        self.found: list[ScalarLoad] = []
        self._warps = warps
        self._alone = alone
        """Loads that one thread makes."""
        self._held = held
        """Loads of what threads have already."""

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Begin a run."""

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Begin a launch."""

    def note(self, access: Access) -> None:
        """Note a load of each block that takes part."""
        if access.op in self._held:
            return
        if isinstance(access.op, ir.Load) and access.buffer.type.space == "global":
            made = np.broadcast_to(np.asarray(access.elements()), access.lanes)
            blocks = int(np.where(access.mask, made, 0).sum())
            width = access.buffer.type.dtype.bytes
            name = access.buffer.name
            warps = 1 if access.op in self._alone else self._warps
            self.found.append(ScalarLoad(access.op, name, blocks * warps, width))


def _program(
    kernel: ir.Kernel, launch: ir.Launch, roles: ir.Roles, role: ir.Block, scalars: _Scalars
) -> ir.Kernel:
    """Return a kernel whose launch computes the scalars of a role, and nothing else."""
    before = launch.body.ops[: launch.body.ops.index(roles)]
    if any(isinstance(each, ir.Load) for op in before for each in op.with_inner_ops()):
        raise _UnknownError
    body = ir.Block(launch.body.args, [*before, *role.ops])
    made = launch.with_body(scalars.block(body, {}))
    ops = [made if op is launch else op for op in kernel.body.ops]
    return kernel.with_body(ir.Block(kernel.body.args, ops))


def _repeated(kernel: ir.Kernel, alone: set[ir.OpBase]) -> set[ir.OpBase]:
    """Return the loads of a kernel's scalars that ask for what one in front of them did, in their
    block or in one around; a load that one thread makes `alone` is there for no other."""
    found: set[ir.OpBase] = set()

    def visit(block: ir.Block, loops: Loops, loaded: set[Hashable]) -> None:
        for op in block.ops:
            numbers.visit(op, loops)
            if isinstance(op, ir.Load) and (key := numbers.scalar(op)) is not None:
                if key in loaded:
                    found.add(op)
                elif op not in alone:
                    loaded.add(key)
            inside = loops | {op} if isinstance(op, ir.For | ir.While) else loops
            for each in op.blocks():
                for value in each.args:
                    numbers.bind(value, numbers.fresh(inside))
                visit(each, inside, set(loaded))

    for launch in kernel.launches():
        numbers = Numbers(launch, set(kernel.param_values()))
        visit(launch.body, frozenset(), set())
    return found


class _Scalars:
    """Copies of blocks that have scalars, their variables and the control flow around them."""

    def __init__(self, fixed: set[ir.Value], by_one_thread: set[ir.OpBase]) -> None:
        self._fixed, self._by_one_thread = fixed, by_one_thread
        self.alone: set[ir.OpBase] = set()
        """Copies of what one thread does."""
        self._gone: set[ir.Value] = set()
        """Values that nothing computes any more."""

    def block(self, block: ir.Block, mapping: dict[ir.Value, ir.Value]) -> ir.Block:
        """Return what is left of a block; `mapping` has the new values, and is extended."""
        made = ir.Block([ir.Value(each.type, each.name) for each in block.args])
        mapping.update(zip(block.args, made.args))
        for op in block.ops:
            if isinstance(op, ir.Parallel):
                continue
            regions = {name: self.block(getattr(op, name), mapping) for name in op.SPEC.regions}
            new = clone(op, mapping, regions)
            mapping.update(zip(op.results, new.results))
            if op in self._by_one_thread:
                self.alone.add(new)
            if self._keeps(new):
                made.ops.append(new)
            else:
                self._gone.update(new.results)
        return made

    def _keeps(self, op: ir.OpBase) -> bool:
        known = self._gone.isdisjoint(op.operand_values())
        match op:
            case ir.Load() if base(op.buffer).buffer.space == "global":
                if not known or base(op.buffer) not in self._fixed:
                    raise _UnknownError
                return True
            case ir.Store() if op.buffer.buffer.space == "local":
                if not known:
                    raise _UnknownError
                return True
            case ir.Alloc():
                return op.space == "local"
            case ir.Load():
                return known and op.buffer.buffer.space == "local"
            case ir.For() | ir.If() | ir.While() | ir.Scope():
                return self._keeps_around(op, known)
            case ir.Yield():
                if not known:
                    raise _UnknownError
                return True
            case ir.Break() | ir.Continue():
                return True
            case _:
                return known and is_pure(op)

    def _keeps_around(self, op: ir.OpBase, known: bool) -> bool:
        """Whether control flow is kept: where there are scalars inside."""
        matters = any(
            isinstance(each, ir.Load | ir.Store | ir.Break | ir.Continue) for each in op.inner_ops()
        )
        if not known and (matters or op.results):
            raise _UnknownError
        return matters or bool(op.results) or isinstance(op, ir.While)
