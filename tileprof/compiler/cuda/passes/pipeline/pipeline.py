"""Loads that run ahead of their use.

Warp roles (`warp_roles` in the launch's schedule): every load by TMA goes to a producer warp group,
which fills the slots of a ring; the consumers wait for a slot before its first use and free it
after its last.  Ring positions live outside of all loops, so the scheme needs no prologue and no
drain, and a persistent block goes from tile to tile without a pause.

    for k (pipelined 4)                   producer                consumer
      copy A[…] → A_s (tma)               for k                   for k
      gemm A_s …              ⇒             s = acquire ring        s = wait ring
                                            A[…] → A_s[s] (async)   gemm A_s[s] …
                                            commit ring             release ring

cp.async: all threads start the load of iteration k + stages − 1 before they work on iteration k.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import registers_available
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import ROLE_REGISTERS
from tileprof.ir.rewriter import per_launch, with_rule
from tileprof.remarks.launches import ProducerLoads

from .gathers import Tensors
from .grouped_copies import group_copies
from .split import split_roles


def pipeline(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Roles and rings, or groups of cp.async, for every launch that has asynchronous loads."""
    tensors = Tensors.of(kernel, lowering.unaligned)
    return per_launch(
        kernel, lambda launch: _pipelined(with_rule(launch, _no_wish), tensors, lowering)
    )


def _no_wish(op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
    """Wishes have had their answer; those about buffers would keep the ones that rings replace."""
    return [] if isinstance(op, ir.Annotate) else None


def _pipelined(launch: ir.Launch, tensors: Tensors, lowering: Lowering) -> ir.Launch:
    if not launch.schedule.warp_roles:
        return group_copies(launch, tensors, lowering)
    body = split_roles(launch, lowering)
    groups = launch.block_threads // WARP_GROUP
    roles = next(o for o in body.ops if isinstance(o, ir.Roles))
    producer, consumer = _registers(groups, lowering)
    body.ops[body.ops.index(roles)] = replace(
        roles, producer_registers=producer, consumer_registers=consumer
    )
    loads = ProducerLoads(groups, "warp group" if producer else "warp")
    lowering.remarks.add("launch", "", launch.span, loads)
    return launch.scheduled(replace(launch.schedule, warp_roles=False), body)


def _registers(groups: int, lowering: Lowering) -> tuple[int, int]:
    """Return what each role asks for: with more than the block starts with it would wait for ever.

    A limit of registers that leaves less is kept by both roles.
    """
    producer, consumer = ROLE_REGISTERS.get(groups, (0, 0))
    each = registers_available((groups + 1) * WARP_GROUP, lowering.target)
    each = min(each, lowering.controls.registers or each)
    fits = producer + groups * consumer <= (groups + 1) * each
    return (producer, consumer) if fits else (0, 0)
