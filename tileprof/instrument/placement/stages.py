"""Stages of a block: the parts that run between two pipelined loops, and those inside one.

    prologue | loop k: [copy A, B | compute (gemm)] | epilogue

A block of ops that directly holds pipelined loops is cut before and after each.  The body of a
pipelined loop is cut where it changes between reading global memory, computing and writing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.memory import base

NAMES_SHOWN = 4
"""Distinct ops that the name of a part lists."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive ops of one block; with an empty name they are not measured as a whole."""

    name: str
    ops: Sequence[ir.OpBase]
    location: Location | None = None


def split(block: ir.Block, owner: ir.OpBase) -> list[Stage]:
    """Return the ops of a block, in order, as stages; `owner` is the op that holds the block."""
    ops, last = block.ops, block.ops[-1:]
    leaving = last if last and isinstance(last[0], (ir.Yield, ir.Break, ir.Continue)) else []
    staying = ops[: len(ops) - len(leaving)]
    if is_pipelined(owner):
        stages = _parts(staying, owner.span)
    elif any(is_pipelined(op) for op in staying):
        stages = _around_loops(staying)
    else:
        stages = [Stage("", staying)]
    return [*stages, Stage("", leaving)]


def is_pipelined(op: ir.OpBase) -> bool:
    """Return whether an op is a pipelined loop."""
    return isinstance(op, ir.For) and op.kind == "pipelined"


def _around_loops(ops: Sequence[ir.OpBase]) -> list[Stage]:
    runs = [(loop, list(run)) for loop, run in groupby(ops, is_pipelined)]
    at_loops = [i for i, (loop, _) in enumerate(runs) if loop]
    stages: list[Stage] = []
    for i, (loop, run) in enumerate(runs):
        if loop:
            stages += [_loop_stage(op) for op in run]
        elif not any(_works(op) for op in run):
            stages.append(Stage("", run))
        else:
            name, beside = "between loops", i + 1
            if i < at_loops[0]:
                name = "prologue"
            elif i > at_loops[-1]:
                name, beside = "epilogue", i - 1
            stages.append(Stage(name, run, runs[beside][1][0].span))
    return stages


def _loop_stage(loop: ir.OpBase) -> Stage:
    assert isinstance(loop, ir.For)
    return Stage(f"loop {loop.body.args[0].name}".rstrip(), [loop], loop.span)


def _parts(ops: Sequence[ir.OpBase], location: Location | None) -> list[Stage]:
    """Return runs of one role; ops that only prepare others go with those that follow."""
    runs: list[tuple[str, list[ir.OpBase]]] = []
    waiting: list[ir.OpBase] = []
    for op in ops:
        waiting.append(op)
        if not _works(op):
            continue
        role = _role(op)
        if runs and runs[-1][0] == role:
            runs[-1][1].extend(waiting)
        else:
            runs.append((role, waiting))
        waiting = []
    if len(runs) < 2:
        # The loop's own site says it all.
        return [Stage("", ops)]
    taken: dict[str, int] = {}
    stages = []
    for role, run in runs:
        name = _part_name(role, run)
        taken[name] = taken.get(name, 0) + 1
        stages.append(Stage(name if taken[name] == 1 else f"{name} {taken[name]}", run, location))
    return [*stages, Stage("", waiting)]


def _works(op: ir.OpBase) -> bool:
    """Return whether an op takes time of its own, unlike index arithmetic and declarations."""
    if op.SPEC.regions:
        return any(_works(inner) for block in op.blocks() for inner in block.ops)
    return bool(op.SPEC.effect) and not isinstance(
        op, (ir.Load, ir.Annotate, ir.Yield, ir.Break, ir.Continue)
    )


def _role(op: ir.OpBase) -> str:
    inside = [_leaf_role(o) for o in ir.walk(ir.Block([], [op])) if not o.SPEC.regions]
    roles = {role for role in inside if role}
    return roles.pop() if len(roles) == 1 else "compute"


def _leaf_role(op: ir.OpBase) -> str:
    match op:
        case ir.Copy(source=source) if source.buffer.space == "global":
            return "copy"
        case ir.Copy(target=target) | ir.TileAtomic(target=target) if (
            target.buffer.space == "global"
        ):
            return "write"
        case _:
            return "compute" if _works(op) else ""


def _part_name(role: str, ops: Iterable[ir.OpBase]) -> str:
    inside = list(ir.walk(ir.Block([], list(ops))))
    if role == "copy":
        return f"copy {listed(buffer_name(o.source) for o in inside if isinstance(o, ir.Copy))}"
    if role == "write":
        targets = (o.target for o in inside if isinstance(o, (ir.Copy, ir.TileAtomic)))
        return f"write {listed(map(buffer_name, targets))}"
    names = listed(name for name in map(op_kind, inside) if name)
    return f"compute ({names})" if names else "compute"


def listed(names: Iterable[str]) -> str:
    """Return the distinct names, the first few of many."""
    distinct = list(dict.fromkeys(names))
    more = ["…"] if len(distinct) > NAMES_SHOWN else []
    return ", ".join([*distinct[:NAMES_SHOWN], *more])


def buffer_name(value: ir.Value) -> str:
    """Return the name of a buffer, of the base where it is a view; its space where it has none."""
    held = base(value)
    return held.name or held.buffer.space


def op_kind(op: ir.OpBase) -> str:
    """Return the name of a tile op or a parallel loop in a list; '' for every other op."""
    match op:
        case ir.Reduce(kind=kind) | ir.Scan(kind=kind):
            return f"{op.mnemonic} {kind}"
        case ir.TileAtomic(kind=kind):
            return f"atomic {kind}"
        case _:
            return op.mnemonic if isinstance(op, (*ir.TILE_OPS, ir.Parallel)) else ""


def op_name(op: ir.OpBase) -> str:
    """Return the name of the site of a tile op or a parallel loop; '' for an op that gets none."""
    match op:
        case ir.Copy(source=source, target=target):
            return f"copy {buffer_name(source)} → {buffer_name(target)}"
        case ir.Fill(target=target) | ir.TileAtomic(target=target):
            return f"{op_kind(op)} {buffer_name(target)}"
        case _:
            return op_kind(op)
