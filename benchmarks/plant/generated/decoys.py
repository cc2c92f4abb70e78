"""Operators whose pattern is real and whose cost is none: once a block, or off the critical path.

In: a program.  Out: sites, as other operators have them; their causes are those that nobody may
suggest to change. Whether one costs nothing is measured, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .operators import Operator, Site
from .programs import Program, dotted, walk
from .tile_operators import dotted_base

__all__ = ["DECOYS"]

_RANGES = ("range", "tl.range", "T.serial", "T.Pipelined")


def _copied_once(program: Program) -> Iterator[Site]:
    loops = list(program.loops("T.Pipelined"))
    for call in program.calls("T.copy"):
        single = not program.turns(call, *_RANGES)
        before = loops and call.lineno < loops[0][0].lineno
        if before and single and len(call.args) == 2 and not call.keywords:
            text = f'{program.segment(call)[:-1]}, prefer_instruction="sync")'
            yield Site((program.replace(call, text),), (), ("synchronous-copy", "shallow-pipeline"),
                       f"{program.segment(call.args[1])} by loads and stores, once")  # fmt: skip


def _double_once(program: Program) -> Iterator[Site]:
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) != 1 or program.turns(loop, *_RANGES):
            continue
        for node in walk(loop):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Mult | ast.Div)
                and isinstance(node.left, ast.Subscript)
            ):
                text = f"T.cast({program.segment(node.left)}, T.float64)"
                yield Site((program.replace(node.left, text),), (), ("slow-arithmetic",),
                           "a factor of float64, once a row")  # fmt: skip


def _guarded(program: Program) -> Iterator[Site]:
    """Take only values that are numbers."""
    for loop, _ in program.loops("T.Parallel"):
        for node in walk(loop):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and dotted_base(node)[:1].isupper()
                and not dotted_base(node).startswith("T.")
            ):
                text = program.segment(node)
                edit = program.replace(node, f"T.if_then_else({text} == {text}, {text}, 0)")
                yield Site((edit,), (), ("masked-work", "redundant-arithmetic",
                           "redundant-traffic"), "a guard")  # fmt: skip
                break


def _wide_index(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.program_id"):
        edit = program.replace(call, f"{program.segment(call)}.to(tl.int64)")
        yield Site((edit,), (), ("slow-arithmetic", "redundant-arithmetic"), "64 bits")


def _barrier_once(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.store"):
        if not program.turns(call, *_RANGES):
            edit = program.before(program.statement(call), "tl.debug_barrier()")
            yield Site((edit,), (call.lineno,), ("serial-work", "late-warps"), "a barrier, once")


def _masked(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.load"):
        for each in call.keywords:
            if each.arg == "mask":
                text = f"({program.segment(each.value)}) & (tl.program_id(0) >= 0)"
                yield Site((program.replace(each.value, text),), (), ("masked-work",),
                           "a mask that is always true")  # fmt: skip


def _doubled_sum(program: Program) -> Iterator[Site]:
    """Take one function of a sum of a whole row in float64."""
    for call in program.calls("tl.sqrt", "tl.rsqrt", "tl.log"):
        if not program.turns(call, *_RANGES) and "sum" in program.segment(call.args[0]):
            inner = f"({program.segment(call.args[0])}).to(tl.float64)"
            text = f"{dotted(call.func)}({inner}).to(tl.float32)"
            yield Site((program.replace(call, text),), (), ("slow-arithmetic",), "once a row")


_TILE, _TRITON = frozenset(("tile",)), frozenset(("triton",))
DECOYS: tuple[Operator, ...] = (
    Operator("copy-once", "decoy", _TILE, _copied_once, "Once a block, before many iterations."),
    Operator("double-once", "decoy", _TILE, _double_once, "Once a row."),
    Operator("guard-load", "decoy", _TILE, _guarded, "A comparison beside memory."),
    Operator("wide-index", "decoy", _TRITON, _wide_index, "A few instructions a thread."),
    Operator("barrier-once", "decoy", _TRITON, _barrier_once, "Once a block."),
    Operator("true-mask", "decoy", _TRITON, _masked, "A comparison beside memory."),
    Operator("double-row", "decoy", _TRITON, _doubled_sum, "Once a row."),
)  # fmt: skip
