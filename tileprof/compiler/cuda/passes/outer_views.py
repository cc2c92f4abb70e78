"""Views of tensors that are made before a launch, as views inside of it.

    %flat = reinterpret %y {shape = [64]}           launch [%c4] body(%bx) {
    launch [%c4] body(%bx) {                  ⇒       %flat = reinterpret %y {shape = [64]}
      store %v, %flat, [%bx]                          store %v, %flat, [%bx]
    }                                               }

A launch is a function of its own, to which the host passes tensors and numbers but no views.
In: a kernel.  Out: the same, each launch with its own copies of the views that it uses.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewriter import clone, clone_block


def move_views_inside(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel without views outside of its launches."""
    views = [op for op in kernel.body.ops if isinstance(op, ir.View | ir.Reinterpret)]
    if not views:
        return kernel
    ops: list[ir.OpBase] = []
    for op in kernel.body.ops:
        if isinstance(op, ir.Launch):
            ops.append(_with_views(op, views))
        elif op not in views:
            ops.append(op)
    return kernel.with_body(ir.Block(kernel.body.args, ops))


def _with_views(launch: ir.Launch, views: list[ir.View | ir.Reinterpret]) -> ir.Launch:
    used = {v for op in ir.walk(launch.body) for v in op.operand_values()}
    needed: list[ir.View | ir.Reinterpret] = []
    for view in reversed(views):
        if view.result in used:
            needed.insert(0, view)
            used.update(view.operand_values())
    if not needed:
        return launch
    mapping: dict[ir.Value, ir.Value] = {}
    own: list[ir.OpBase] = []
    for view in needed:
        made = clone(view, mapping, {})
        mapping.update(zip(view.results, made.results, strict=True))
        own.append(made)
    body = clone_block(launch.body, mapping)
    return launch.with_body(ir.Block(body.args, [*own, *body.ops]))
