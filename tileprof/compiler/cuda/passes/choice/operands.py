"""Operands of matrix products brought to where instructions take them from.

    gemm %a, %b, %c : bfloat16    →   copy %c, %c_sum
                                      gemm %a, %b, %c_sum : float32, in a fragment
                                      copy %c_sum, %c

Sums of narrow types are kept in float32 or int32 and rounded once at the end; accumulators lie in
fragments.  Operands come from shared memory or fragments, those of scalar code from shared memory.
In: one `gemm`.  Out: it with its `lowering`, and the copies around it.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Fma
from tileprof.ir.memory import base
from tileprof.ir.tile import Policy

from .gemms import adds_up_in, choose_gemm


def emit_product(
    op: ir.Gemm,
    threads: int,
    lowering: Lowering,
    builder: ir.Builder,
    *,
    chained: bool = False,
) -> None:
    """Append the product with its instruction, and copies of operands where it needs them.

    `chained`: a product of the launch has its A in registers, which comes from another one as a
    rule.  If warps then divide rows alone, it need not be exchanged between them.
    """
    policy: Policy = "full_row" if chained and op.policy == "square" else op.policy
    sums = adds_up_in(op.c.dtype)
    total = op.c
    if sums != op.c.dtype or base(op.c).buffer.space != "fragment":
        total = _temporary(op.c, "fragment", sums, "sum", builder)
        if not op.clear:
            builder.emit(ir.Copy(op.c, total))
    a, b = (
        value if base(value).buffer.space in ("shared", "fragment") else _in_shared(value, builder)
        for value in (op.a, op.b)
    )
    chosen = choose_gemm(
        replace(op, a=a, b=b, c=total, policy=policy, lowering=None), threads, lowering
    )
    if isinstance(chosen.lowering, Fma):
        a, b = (
            value if base(value).buffer.space == "shared" else _in_shared(value, builder)
            for value in (a, b)
        )
        chosen = replace(chosen, a=a, b=b)
    builder.emit(chosen)
    if total is not op.c:
        builder.emit(ir.Copy(total, op.c))


def _in_shared(value: ir.Value, builder: ir.Builder) -> ir.Value:
    held = _temporary(value, "shared", value.dtype, "shared", builder)
    builder.emit(ir.Copy(value, held))
    return held


def _temporary(
    like: ir.Value, space: ir.Space, dtype: ir.DType, suffix: str, builder: ir.Builder
) -> ir.Value:
    name = f"{buffer_name(like)}_{suffix}"
    return builder.emit(ir.Alloc(space, like.buffer.static_shape, dtype, hint=name)).result
