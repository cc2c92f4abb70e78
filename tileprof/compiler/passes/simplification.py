"""Compute what is known, compute nothing twice, drop what nobody uses.

    %a = mul %bx, %c1 : index           // c1 is 1
    %b = add %i, %a : index
    %c = add %i, %a : index
    if %true then {                     →   %b = add %i, %bx : index
      store %x, %y, [%b]                    store %x, %y, [%b]
    } otherwise {                           store %x, %z, [%b]
    }
    store %x, %z, [%c]

Rules
- A pure op on constants becomes its value (`folding.py`), one with a law becomes what the law says
  (`identities.py`), one that was computed before in the same or an enclosing block is not repeated.
- `if` on a constant becomes the branch taken; one whose branches only yield becomes `select`; one
  that only holds another becomes one on both conditions; an empty one goes.
- Loops that never run, assertions that hold, and ops behind a `break` or `continue` go.
- What nobody uses goes: pure ops, loads, and `local` buffers that are only stored to.
Integer divisions stay where they are run: they may fail, so none is computed earlier than before.
"""

from __future__ import annotations

from typing import Any, get_args

from tileprof import ir
from tileprof.ir.rewriter import opened

from .folding import fold
from .identities import identity, number_of
from .liveness import live_ops

ROUNDS = 16
"""More than any kernel needs: one round opens the way for the next only through nested branches."""

_SCALAR = tuple(each for each in get_args(ir.ScalarOp) if each is not ir.Constant)
_SHARED = (*_SCALAR, ir.Constant, ir.View, ir.Reinterpret)
"""Ops of which one is enough.  Not `alloc`: two buffers are two buffers."""

Known = dict[tuple[Any, ...], ir.Value]


def simplify(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with constants folded, nothing computed twice and nothing unused."""
    text = ""
    for _ in range(ROUNDS):
        kernel = kernel.with_body(_Simplifier(live_ops(kernel.body)).block(kernel.body, {}))
        before, text = text, ir.print_kernel(kernel)
        if text == before:
            break
    return kernel


class _Simplifier:
    def __init__(self, live: set[ir.OpBase]) -> None:
        self._live = live
        self._mapping: dict[ir.Value, ir.Value] = {}

    def block(self, block: ir.Block, known: Known) -> ir.Block:
        """A simpler copy; `known` holds what enclosing blocks have computed."""
        made = opened(block, self._mapping)
        self._ops(block.ops, ir.Builder(made), dict(known))
        return made

    def _ops(self, ops: list[ir.OpBase], builder: ir.Builder, known: Known) -> bool:
        """Append simpler ops; whether what follows is never reached."""
        for op in ops:
            if op not in self._live:
                continue
            builder.span = op.span
            if isinstance(op, ir.If) and (taken := self._taken(op, ops[-1])) is not None:
                if self._inline(op, taken, builder, known):
                    return True
                continue
            results = self._op(op, builder, known)
            self._mapping.update(zip(op.results, results, strict=True))
            if isinstance(op, (ir.Break, ir.Continue)):
                return True
        return False

    def _get(self, value: ir.Value) -> ir.Value:
        return self._mapping.get(value, value)

    def _taken(self, op: ir.If, last: ir.OpBase) -> ir.Block | None:
        """The branch that is always taken; None where it is not known, or cannot end the block."""
        condition = number_of(self._get(op.condition))
        if condition is None:
            return None
        taken = op.then if condition else op.otherwise
        leaves = any(isinstance(each, (ir.Break, ir.Continue)) for each in ir.walk(taken))
        return None if leaves and isinstance(last, ir.Yield) else taken

    def _inline(self, op: ir.If, taken: ir.Block, builder: ir.Builder, known: Known) -> bool:
        last = taken.ops[-1] if taken.ops else None
        if not isinstance(last, ir.Yield):
            return self._ops(taken.ops, builder, known)
        self._ops(taken.ops[:-1], builder, known)
        self._mapping.update(zip(op.results, map(self._get, last.values), strict=True))
        return False

    def _op(self, op: ir.OpBase, builder: ir.Builder, known: Known) -> tuple[ir.Value, ...]:
        if isinstance(op, _SHARED):
            return (self._pure(ir.clone(op, self._mapping, {}), builder, known),)
        if self._never_runs(op):
            return ()
        regions = {n: self.block(getattr(op, n), known) for n in op.SPEC.regions}
        new = ir.clone(op, self._mapping, regions)
        if isinstance(new, ir.If):
            return _branch(new, builder)
        return builder.emit(new).results

    def _never_runs(self, op: ir.OpBase) -> bool:
        match op:
            case ir.For(start=start, stop=stop, step=step):
                found = [number_of(self._get(v)) for v in (start, stop, step)]
                if None in found or found[2] == 0:
                    return False
                low, high, by = (int(n or 0) for n in found)
                return len(range(low, high, by)) == 0
            case ir.Parallel(extents=extents):
                return any((n := number_of(self._get(e))) is not None and n <= 0 for e in extents)
            case ir.While(condition=condition):
                last = condition.ops[-1]
                assert isinstance(last, ir.Yield)
                return len(condition.ops) == 1 and number_of(self._get(last.values[0])) is False
            case ir.Assert(condition=held):
                return number_of(self._get(held)) is True
            case _:
                return False

    def _pure(self, op: ir.OpBase, builder: ir.Builder, known: Known) -> ir.Value:
        """The value of a pure op: known, lawful, or computed here."""
        if isinstance(op, _SCALAR):
            numbers = [number_of(v) for v in op.operand_values()]
            if None not in numbers:
                folded = fold(op, [n for n in numbers if n is not None])
                if folded is not None:
                    op = ir.Constant(folded, op.result.dtype, span=op.span, hint=op.hint)
        lawful = ir.Builder(ir.Block(), op.span)
        if (equal := identity(op, lawful)) is not None:
            for each in lawful.block.ops:
                shared = self._share(ir.clone(each, self._mapping, {}), builder, known)
                self._mapping[each.result] = shared
            return self._get(equal)
        return self._share(op, builder, known)

    def _share(self, op: ir.OpBase, builder: ir.Builder, known: Known) -> ir.Value:
        key = _key(op)
        if key not in known:
            known[key] = builder.emit(op).result
        return known[key]


def _key(op: ir.OpBase) -> tuple[Any, ...]:
    """Equal for ops that compute the same."""
    spec = op.SPEC
    # `repr` tells 0.0 from -0.0 and 1 from True, which compare equal.
    names = (*spec.positional, *(n for n, _ in spec.attributes))
    held = tuple(repr(getattr(op, name)) for name in names)
    return (op.mnemonic, held, *op.operand_values())


def _branch(op: ir.If, builder: ir.Builder) -> tuple[ir.Value, ...]:
    """An `if` whose condition is not known, in its simplest form."""
    then, otherwise = op.then.ops, op.otherwise.ops
    if op.results and len(then) == len(otherwise) == 1:
        pairs = zip(_yielded(then[0]), _yielded(otherwise[0]), strict=True)
        chosen = [ir.Select(op.condition, a, b, hint=op.hint) for a, b in pairs]
        return tuple(builder.emit(each).result for each in chosen)
    if not op.results and not otherwise and len(then) == 1 and isinstance(then[0], ir.If):
        inner = then[0]
        if not inner.results and not inner.otherwise.ops:
            both = builder.emit(ir.Binary("and", op.condition, inner.condition)).result
            builder.emit(ir.If(both, inner.then, ir.Block(), span=op.span))
            return ()
    if not op.results and not then and not otherwise:
        return ()
    return builder.emit(op).results


def _yielded(op: ir.OpBase) -> list[ir.Value]:
    assert isinstance(op, ir.Yield)
    return op.values
