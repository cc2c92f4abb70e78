"""Exponentials by one instruction, where what it leaves out does not show or is not wanted.

    exp2 x : float32       ⇒      exp2 x {fast = true}
    exp x : float32        ⇒      exp2 (mul x, log2 e) {fast = true}      with `fast_math` only

`ex2.approx.ftz` gives 0 in place of a denormal number, and three more instructions around it give
that number.  A float16 has no place for it: where an exponential is rounded to one, the result is
the same.  Elsewhere the author has to ask for it (`fast_math`).
In: any kernel.  Out: the same, with fast exponentials in its launches; the host's stay exact.
"""

from __future__ import annotations

import math

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewriter import per_launch, with_originals


def speed_exponentials(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Take the fast exponential where it may be taken."""
    asked = lowering.controls.fast_math
    kept = set() if asked else _rounded_later(kernel)

    def rule(old: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Unary) or op.kind not in ("exp", "exp2") or op.fast:
            return None
        name = op.operand.dtype.name
        if name == "float16" or (name == "float32" and (asked or old in kept)):
            return _fast(op, builder, asked=asked)
        return None

    return per_launch(kernel, lambda launch: with_originals(launch, rule))


def _fast(op: ir.Unary, builder: ir.Builder, *, asked: bool) -> list[ir.Value] | None:
    value = op.operand
    if op.kind == "exp":
        # The product is rounded, which the exact function does not allow.
        if not asked or value.dtype.name != "float32":
            return None
        log2e = builder.constant(math.log2(math.e), value.dtype)
        value = builder.emit(ir.Binary("mul", value, log2e)).result
    return [builder.emit(ir.Unary("exp2", value, True)).result]


def _rounded_later(kernel: ir.Kernel) -> set[ir.OpBase]:
    """Exponentials of which nothing but a float16 is left."""
    uses = ir.users(kernel.ops())
    return {
        op
        for op in kernel.ops()
        if isinstance(op, ir.Unary) and op.kind == "exp2" and (users := uses.get(op.result))
        if all(isinstance(u, ir.Cast) and u.dtype.name == "float16" for u in users)
    }
