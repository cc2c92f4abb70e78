"""Requests that a kernel's warps make on a GPU, all of them, and what they take.

In: a kernel in the form that the compiler gave its loops, with layouts, and the arguments of a
call.  Out: for each place that accesses memory the number of requests, sectors or wavefronts, and
bytes.  No GPU is needed: the interpreter runs that form, which has the addresses of every point,
and the layouts say which thread and register hold a point.

Not counted are accesses that the layouts do not describe: operands of matrix instructions, scans of
lines that several warps share, and what shared memory takes of cp.async that fills one of its rows
from several lines.  `Traffic.uncounted` names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.tilecopy import squeezed
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.expand import as_parallel
from tileprof.compiler.cuda.passes.fuse_copies import fuse_copies
from tileprof.compiler.cuda.passes.sums.late_sums import delay_sums
from tileprof.compiler.cuda.target import Target, find_target
from tileprof.errors import Location, TileprofError
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import rebuilt
from tileprof.runtime.arguments import as_array
from tileprof.runtime.events.access import listening
from tileprof.runtime.interpreter import InterpreterExecutable

from .exchanges import Exchange, exchange_of
from .forms import Forms
from .gathers import address_loads, gathers
from .launch_facts import LaunchFacts
from .machine import Machine
from .moved import Traffic
from .operands import fragment_copy
from .requests import Requests
from .roles import scalar_loads
from .settled import settled


def traffic_of(
    machine: Machine,
    values: Sequence[Any],
    symbols: Sequence[int],
    controls: Controls | None = None,
    machine_code: bool = True,
) -> list[Traffic]:
    """Run a kernel as it was after the pass `layouts` on copies of the arguments; return the
    traffic that each of its launches has on the target.  There is none where the target cannot run
    it, or where that run fails: the author's program, which runs next, then says why.  With
    `machine_code` the numbers are those of the machine code where it can be run."""
    kernel, target = machine.laid_out, find_target(machine.target)
    if kernel is None:
        return []
    controls = controls or Controls()
    lowering = Lowering(target, controls)
    program = delay_sums(kernel, lowering)
    converted = {base(op.source) for op in program.ops() if isinstance(op, ir.ConvertLayout)}
    rule = partial(_without_layouts, target, converted)
    program = program.with_body(rebuilt(program.body, {}, rule))
    program = fuse_copies(program, lowering)
    late: dict[ir.OpBase, Exchange | None] = {}
    program = ir.rewrite(program, partial(_without_late_sums, late))
    facts = LaunchFacts.of(kernel, values, symbols, machine.unaligned)
    # The program then has loops twice that the machine code has twice.
    listener = Requests(Forms(program, target, controls, facts, machine.lowered))
    listener.exchanges |= late
    listener.gathers = gathers(program, machine.lowered)
    listener.ahead = address_loads(program, machine.lowered, listener.gathers)
    try:
        if machine.lowered is not None:
            listener.scalars = scalar_loads(machine.lowered, values, symbols)
            listener.multicast = set(_multicast(machine.lowered))
        with listening(listener):
            results = _copies(kernel, values)
            InterpreterExecutable(program).run(results, symbols)
    except TileprofError:
        return []
    if not machine_code or machine.program is None:
        return listener.found
    return settled(listener.found, machine.program, values, symbols, results)


def _multicast(lowered: ir.Kernel) -> Iterator[tuple[Location | None, str | None]]:
    """Yield place and tensor of each copy that blocks of a cluster make together."""
    for op in lowered.ops():
        if isinstance(op, ir.AsyncCopy) and op.multicast > 1:
            yield op.span, base(op.source).name


def _without_layouts(
    target: Target, converted: set[ir.Value], op: ir.OpBase, new: ir.OpBase, builder: ir.Builder
) -> Sequence[ir.Value] | None:
    """Write a conversion between layouts, and a store that adds, as what they are to the
    interpreter; a copy that threads make element by element as their loop.  Fragments that are
    `converted` begin as zeros: a conversion passes on what nobody has written yet, too."""
    copied = fragment_copy(new, target)
    if isinstance(new, ir.Copy) and copied is not None and copied.matrices is None:
        as_parallel(new, builder, layout=str(squeezed(copied.held, new.target)))
        return ()
    match new:
        case ir.ConvertLayout():
            builder.emit(ir.Copy(new.source, new.target, span=new.span))
        case ir.Copy(lowering=Tma(reduce="add" | "max" | "min" as kind)):
            builder.emit(ir.TileAtomic(kind, new.source, new.target, span=new.span))
        case ir.Alloc() if op.results[0] in converted:
            builder.emit(new)
            zero = builder.constant(0, new.dtype)
            builder.emit(ir.Fill(new.result, zero, span=new.span))
            return new.results
        case _:
            return None
    return ()


def _without_late_sums(
    found: dict[ir.OpBase, Exchange | None], op: ir.OpBase, builder: ir.Builder
) -> Sequence[ir.Value] | None:
    """Write sums over threads that come after a loop as copies of what the interpreter has summed
    in it, and note how they exchange values."""
    if not isinstance(op, ir.AllReduce):
        return None
    copied = ir.Copy(op.target, op.target, span=op.span)
    builder.emit(copied)
    found[copied] = exchange_of(op, 0)
    return ()


def _copies(kernel: ir.Kernel, values: Sequence[Any]) -> list[Any]:
    """Return the arguments with arrays copied; one that is passed twice stays one."""
    made: dict[int, Any] = {}
    return [
        made.setdefault(id(value), as_array(value).copy(order="K"))
        if isinstance(param.type, ir.BufferType)
        else value
        for param, value in zip(kernel.params, values, strict=True)
    ]
