"""Values of a Triton kernel that it stores and then loads from the same pointers.

In: a module's TTGIR.  Out: lines of such stores, with those of the loads.

    tt.store %p, %sum : tensor<1024x!tt.ptr<f32>, #blocked1>
    gpu.barrier
    %again = tt.load %q : tensor<1024x!tt.ptr<f32>, #blocked>        %q is %p in another layout

Pointers are the same if the same operations made them of the same values, layouts apart. An atomic
or a call between may hand the memory to other programs, as may a volatile load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.machine.triton_ops import LOOPS, Op, operations

__all__ = ["loaded_again"]

_LAYOUT = re.compile(r", #[\w.]+(?:<\{[^}]*\}>)?")
_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_ANEW = ("tt.load", "tt.atomic", "tt.call", "scf.", "tt.elementwise_inline_asm", "ttg.", "ttng.")
"""Operations whose results differ though their operands are the same."""
_HANDS_OVER = ("tt.atomic", "tt.call", "tt.elementwise_inline_asm")
_SAME = "ttg.convert_layout"


def loaded_again(text: str) -> tuple[tuple[int, int], ...]:
    """Return lines of stores and of later loads from the same pointers, in the same block of
    operations."""
    if "tt.store" not in text or text.count("tt.func ") != 1:
        return ()
    return tuple(dict.fromkeys(_in_region(operations(text), {}, {})))


def _in_region(op: Op, known: dict[str, str], values: dict[str, str]) -> Iterator[tuple[int, int]]:
    for region in op.regions:
        stored = dict[str, int]()
        for each in region.ops:
            if each.regions:
                yield from _in_region(each, known, values)
                if each.name in LOOPS or any(one.name == "tt.store" for one in each.walk()):
                    stored.clear()
            if each.name.startswith(_HANDS_OVER):
                stored.clear()
            pointer = known.get(each.operands[0], each.operands[0]) if each.operands else ""
            if each.name == "tt.store":
                stored[pointer] = each.line
            elif each.name == "tt.load" and pointer in stored and "isVolatile" not in each.text:
                yield stored[pointer], each.line
            elif each.name == _SAME and each.results:
                known[each.results[0]] = pointer
            elif len(each.results) == 1 and not each.name.startswith(_ANEW) and not each.regions:
                known[each.results[0]] = _value(each, known, values)


def _value(op: Op, known: dict[str, str], values: dict[str, str]) -> str:
    """Return a name that operations with the same result share, layouts apart; `values` are the
    names by the operations' texts."""
    made = _NAME.sub(lambda name: known.get(name[0], name[0]), _LAYOUT.sub("", op.text))
    return values.setdefault(made, f"#{len(values)}")
