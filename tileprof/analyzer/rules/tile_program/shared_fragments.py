"""Fragments that are not in registers, because of how a loop goes through them.

Static: the compiler's remark that a fragment is in shared memory, and a loop of one index, of which
the fragment's indices are quotients and remainders. Threads get neighbouring numbers of that index,
so which thread has which element is not known to be the layout that products leave it in. Dynamic:
samples at shared memory accesses of all statements that use the fragment, and of what waits for
them. With a loop of as many indices as the fragment has, that time goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op
from tileprof.remarks.layouts import InSharedMemory

_SHARED = ("LDS", "STS", "LDSM", "STSM")
_PARTS = ("floordiv", "floormod")
_AUTHOR = (
    "Give the loop one index for each of the fragment's: `for i, j in T.Parallel(rows, columns)` in"
    " place of one index that is divided. Then its elements stay in registers."
)
_COMPILER = "The index is a quotient, or a remainder, of the loop's: that could be two loops."


def shared_fragments(case: KernelCase) -> Iterator[Draft]:
    """Fragments in shared memory for the sake of an index that is divided."""
    effects = effects_of(case.tiles)
    for remark, _ in case.decided(InSharedMemory, "buffer"):
        name = f"%{remark.name}"
        uses = [op for op in case.tiles.named("load", "store") if _of(effects, op) == name]
        divided = [op for op in uses if any(_is_part(effects, each) for each in op.listed)]
        if not divided:
            continue
        title = f"`{remark.name}` is in shared memory and not in registers"
        text = f"{remark.decision}: its indices are made by dividing that of a loop"
        static = Evidence("static", text, remark=remark)
        place = case.place(remark.location, remark.subject)
        cause, code = Cause(title, place, (static,), _AUTHOR, _COMPILER), case.sampled
        if code is None:
            yield cause.warning()
            continue
        where = case.at_lines(code, _lines(effects, case, name), code.named(*_SHARED))
        taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
        seen = sampled(code, taken, "are at it or wait for it")
        if code.share(taken) < COLD:
            leave = "Leave it: that takes no time."
            yield cause.ignored(", where it costs nothing", leave, seen)
            continue
        yield cause.costs(eliminated(taken, code.whole), seen)


def _of(effects: Effects, op: Op) -> str:
    """The buffer that a load, or a store, is of."""
    return effects.root(op.operands[1] if op.name == "store" else op.source)


def _is_part(effects: Effects, index: str) -> bool:
    op = effects.made.get(index)
    if op is None or op.name not in _PARTS:
        return False
    points = {name for each in effects.kernel.named("parallel") for name in each.arguments}
    return op.source in points


def _lines(effects: Effects, case: KernelCase, name: str) -> set[int]:
    """Of all statements that use a buffer."""
    return {
        op.line for op, _ in case.tiles.nested
        if op.line and any(effects.root(each) == name for each in op.operands)
    }  # fmt: skip
