"""Results that stand in the text where they are used, and those that get a name.

A value that the author named, or that is used more than once, is a C++ constant of its own.
What is used once in the same block is written in place; a load only where nothing between it and
the statement that needs it can change what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileprof import ir

from .expressions import is_pure

_CHANGES = ir.Effect.WRITE | ir.Effect.CONTROL
_REPEATED = (ir.For, ir.While, ir.Parallel, ir.Launch)


def flat(block: ir.Block) -> list[ir.OpBase]:
    """The ops of a block with those of its scopes in their place: a scope leaves no trace."""
    found: list[ir.OpBase] = []
    for op in block.ops:
        found += flat(op.body) if isinstance(op, ir.Scope) else [op]
    return found


def inlined(ops: Sequence[ir.OpBase], uses: Mapping[ir.Value, list[ir.OpBase]]) -> set[ir.OpBase]:
    """The ops of a flat block that get no statement."""
    chosen: set[ir.OpBase] = set()
    # Where the statement stands that an op ends up in; later ops are settled first.
    statement: dict[ir.OpBase, int] = {}
    for at in range(len(ops) - 1, -1, -1):
        op = ops[at]
        statement[op] = at
        if not (is_pure(op) or isinstance(op, ir.Load)):
            continue
        users = uses.get(op.result, [])
        if len(users) != 1 or users[0] not in statement or op.result.name:
            continue
        place = statement[users[0]]
        if isinstance(op, ir.Load) and (
            isinstance(ops[place], _REPEATED)
            or any(o.SPEC.effect & _CHANGES for o in ops[at + 1 : place])
        ):
            continue
        chosen.add(op)
        statement[op] = place
    return chosen
