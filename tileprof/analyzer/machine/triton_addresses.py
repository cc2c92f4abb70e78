"""Where a Triton kernel's addresses come from, as its TTGIR tells.

In: a module's text.  Out: lines of accesses whose pointers are loaded as numbers, of which nothing
is known; the line at which programs take their number from a counter.

    %i = tt.load %table : !tt.ptr<i64>                   what 16 bytes begin at is not known of
    %p = tt.int_to_ptr %i : i64 -> !tt.ptr<bf16>         %p, so elements are accessed one by one
    %ticket = tt.atomic_rmw add, …, %counter, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32
"""

from __future__ import annotations

import re

from tileprof.analyzer.machine.triton_ops import Op, constant_of, from_memory, operations

__all__ = ["loaded_pointers", "ticket_line"]

_POINTED = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout",
            "tt.int_to_ptr")  # fmt: skip
_ACCESSES = ("tt.load", "tt.store", "ttg.async_copy_global_to_local")
_ONE = re.compile(r"tt\.atomic_rmw add, .*: \(!tt\.ptr<i(?:32|64)>, i(?:32|64), i1\)")
_OTHERS = ("tt.atomic", "isVolatile = true", "tt.call", "inline_asm", "extern_elementwise")
"""Operations by which programs may wait for each other, in the order in which they take numbers."""


def loaded_pointers(text: str) -> tuple[int, ...]:
    """Return lines of accesses to tiles whose pointers were loaded as numbers, and whose places
    behind these were not."""
    if "tt.int_to_ptr" not in text:
        return ()
    ops = list(operations(text).walk())
    pointers, lines = set[str](), dict[int, None]()
    placed = from_memory(ops)
    for op in ops:
        known = "tt.divisibility" in op.text
        if op.name == "tt.addptr" and op.operands[1] in placed:
            continue
        if op.name == "tt.int_to_ptr" or (op.name in _POINTED and op.operands[0] in pointers):
            pointers.update(() if known else op.results)
        elif op.name in _ACCESSES and "tensor<" in op.text and op.operands[0] in pointers:
            lines.setdefault(op.line)
    return tuple(line for line in lines if line)


def ticket_line(text: str) -> int:
    """Return the line at which each program takes its number from a counter in memory, once; 0 for
    none, or where programs may wait for those that took theirs before."""
    if sum(text.count(each) for each in _OTHERS) != 1 or "tt.atomic_rmw add" not in text:
        return 0
    functions = [op for op in operations(text).walk() if op.name == "tt.func"]
    ops = functions[0].regions[0].ops if len(functions) == 1 else []
    constants = {op.results[0]: constant_of(op) for op in ops if op.name == "arith.constant"}
    for op in ops:
        if _ONE.match(op.text) and constants.get(op.operands[1]) == 1.0:
            return op.line if _is_used(op, functions[0]) else 0
        if op.regions or op.name in _ACCESSES:
            return 0  # a count of programs that have done something, as for the last of them
    return 0


def _is_used(op: Op, function: Op) -> bool:
    return any(op.results[0] in each.operands for each in function.walk() if op.results)
