"""Products of float8 with few rows, as products of the transposed tiles.

    gemm %a, %b, %c        32×128              gemm %b, %a, %t        128×32
    parallel [32, 128] (i, j)           ⇒      parallel [32, 128] (i, j)
      … load %c, [i, j] …                        … load %t, [j, i] …

A warp group's instruction has 64 rows, and as few columns as 8.  What has fewer rows would be
multiplied by warps; of float8 Hopper has no such instruction, and the assembler converts operands
to float16: with four more instructions for every two products, and half of the rate.

In: a launch as the author wrote it.  Out: the same, with such sums transposed where nothing but
products and loops over elements uses them: the layouts that follow are worked out from both.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.ir.tile import Policy
from tileprof.remarks.products import Turned

from .choice.gemms import FLOAT8, is_for_warp_groups

_POLICIES: dict[Policy, Policy] = {"full_row": "full_col", "full_col": "full_row"}


def turn_products(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such products turned, where warp groups then multiply them."""
    return per_launch(kernel, lambda launch: _turned(launch, lowering))


def _turned(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    products: dict[ir.Value, list[ir.Gemm]] = {}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Gemm):
            products.setdefault(base(op.c), []).append(op)
    threads = launch.block_threads
    found = {
        sums
        for sums, ops in products.items()
        if all(_gains(op, threads, lowering) for op in ops) and _is_used_by_element(sums, launch)
    }
    if not found:
        return launch
    for sums in found:
        for op in products[sums]:
            m, n, _ = op.mnk
            lowering.remarks.add("gemm", "", op.span, Turned(buffer_name(sums), m, n))

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        match old, new:
            case ir.Alloc(), ir.Alloc() if old.result in found:
                made: ir.OpBase = replace(new, shape=new.shape[::-1])
            case ir.Gemm(), ir.Gemm() if base(old.c) in found:
                made = _other_way(new)
            case ir.Load(), ir.Load() if old.buffer in found:
                made = replace(new, indices=new.indices[::-1])
            case ir.Store(), ir.Store() if old.buffer in found:
                made = replace(new, indices=new.indices[::-1])
            case _:
                return None
        for result, before in zip(made.results, old.results):
            result.name = result.name or before.name
        return list(builder.emit(made).results)

    return with_originals(launch, rule)


def _gains(op: ir.Gemm, threads: int, lowering: Lowering) -> bool:
    """Whether warp groups multiply the transposed tiles, and not these."""
    if not {op.a.dtype.name, op.b.dtype.name} <= set(FLOAT8) or op.c is not base(op.c):
        return False
    if {base(v).buffer.space for v in (op.a, op.b)} != {"shared"} or op.c.buffer.rank != 2:
        return False
    if is_for_warp_groups(op, threads, lowering):
        return False
    c = ir.Alloc(op.c.buffer.space, op.c.buffer.static_shape[::-1], op.c.dtype)
    return is_for_warp_groups(_other_way(replace(op, c=c.result)), threads, lowering)


def _other_way(op: ir.Gemm) -> ir.Gemm:
    return replace(
        op,
        a=op.b,
        b=op.a,
        transpose_a=not op.transpose_b,
        transpose_b=not op.transpose_a,
        policy=_POLICIES.get(op.policy, op.policy),
    )


def _is_used_by_element(sums: ir.Value, launch: ir.Launch) -> bool:
    """Whether sums are a fragment that only products, fills and accesses of elements use."""
    if not isinstance(sums.owner, ir.Alloc) or sums.owner.space != "fragment":
        return False
    for op in ir.walk(launch.body):
        used = [v for v in op.operand_values() if v is sums]
        match op:
            case ir.Load() | ir.Store() | ir.Fill():
                pass
            case ir.Gemm() if op.c is sums and len(used) == 1:
                pass
            case _ if used:
                return False
    return True
