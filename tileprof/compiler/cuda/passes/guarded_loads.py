"""Elements of a gathered tile that a condition leaves out, as elements outside of their tensor.

    parallel [64, 32] body(%i, %j) {                parallel [64, 32] body(%i, %j) {
      %v = if %inside {                               %a = select %inside, %y, %height
        %x = load %image, [%y, %j]                    %v = load %image, [%a, %j]
        yield [%x]                                    store %v, %tile, [%i, %j]
      } otherwise {                           ⇒     }
        yield [0]
      }
      store %v, %tile, [%i, %j]
    }

What lies beyond the end of a tensor reads as 0, so both are the same.  Where the condition keeps
the last index from being negative, it is the last one that is chosen.  The second is a load of each
point, which cp.async makes ahead of its use and in chunks of several elements, where the condition
is that of a row (`pipeline/gathers.py`).
In: loops over elements that only fill a shared tile.  Out: the same, without the branch.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.codegen.ranges import Interval, interval
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.passes.identities import number_of
from tileprof.ir.rewriter import per_launch, with_originals

from .masks import known_bounds


def unguard(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such loads without branches."""
    zeroed = {
        value
        for value, param in zip(kernel.param_values(), kernel.params, strict=True)
        if isinstance(param.type, ir.BufferType) and param.safe_value == 0
    }
    symbols = kernel.symbol_values()

    def changed(launch: ir.Launch) -> ir.Launch:
        loads = {
            found[0]: found[1]
            for op in ir.walk(launch.body)
            if isinstance(op, ir.Parallel) and (found := _guarded(op, zeroed)) is not None
        }
        if not loads:
            return launch
        known, found_bounds = known_bounds(launch), dict[ir.Value, Interval]()
        below = {
            load: {
                at
                for at, index in enumerate(load.indices)
                if (least := interval(index, known, found_bounds)[0]) is None or least < 0
            }
            for load in loads.values()
        }
        """Which indices may be less than 0 without the condition: those would be errors."""

        def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
            if not isinstance(old, ir.If) or old not in loads:
                return None
            assert isinstance(new, ir.If)
            at = old.then.ops.index(loads[old])
            for op in new.then.ops[:at]:
                builder.emit(op)
            load = new.then.ops[at]
            assert isinstance(load, ir.Load)
            low = below[loads[old]]
            may_be_below = len(load.indices) - 1 in low
            extents = [
                builder.constant(e) if isinstance(e, int) else symbols[e]
                for e in load.buffer.buffer.shape
            ]
            # One index outside is enough; the last one stays what it is where it can.
            chosen = list(load.indices)
            for at, (index, end) in enumerate(zip(load.indices, extents, strict=True)):
                if may_be_below:
                    chosen[at] = index if at not in low else _not_below(index, builder)
                if (at == len(extents) - 1) == may_be_below:
                    chosen[at] = builder.emit(ir.Select(new.condition, chosen[at], end)).result
            made = replace(load, indices=chosen, in_bounds=False)
            return list(builder.emit(made).results)

        return with_originals(launch, rule)

    return per_launch(kernel, changed)


def _not_below(index: ir.Value, builder: ir.Builder) -> ir.Value:
    """Return the index, 0 where it is negative; the condition does not hold there."""
    return builder.emit(ir.Binary("max", index, builder.constant(0))).result


def _guarded(op: ir.Parallel, zeroed: set[ir.Value]) -> tuple[ir.If, ir.Load] | None:
    """The branch of a loop's only store to shared memory that loads what is stored, or gives 0."""
    if op.origin:
        return None
    stores = [each for each in op.body.ops if isinstance(each, ir.Store)]
    branches = [each for each in op.body.ops if isinstance(each, ir.If)]
    if len(stores) != 1 or len(branches) != 1 or stores[0].buffer.buffer.space != "shared":
        return None
    (branch,) = branches
    if stores[0].value.owner is not branch or len(branch.results) != 1:
        return None
    *others, given = branch.otherwise.ops
    if len(branch.then.ops) < 2:
        return None
    *ahead, load, yielded = branch.then.ops
    if not isinstance(load, ir.Load) or load.buffer not in zeroed or len(load.indices) < 2:
        return None
    assert isinstance(given, ir.Yield)
    assert isinstance(yielded, ir.Yield)
    if not all(isinstance(each, ir.Constant) for each in others):
        return None
    if number_of(given.values[0]) != 0 or yielded.values[0] is not load.result:
        return None
    return (branch, load) if all(map(is_pure, ahead)) else None
