"""The values from outside that the function of a launch takes along."""

from __future__ import annotations

from tileprof import ir


def captured(op: ir.Launch, *through: type[ir.OpBase], grid: bool) -> list[ir.Value]:
    """Return what the body of a launch, and its `grid`, use from outside, in order of first use; of
    what ops of the classes `through` give, their operands."""
    inner = {v for o in ir.walk(op.body) for v in o.results} | set(op.body.args)
    for each in ir.walk(op.body):
        inner |= {a for b in each.blocks() for a in b.args}
    used: dict[ir.Value, None] = {}

    def use(value: ir.Value) -> None:
        if value in inner or isinstance(value.owner, ir.Constant):
            return
        if isinstance(value.owner, through):
            for part in value.owner.operand_values():
                use(part)
        else:
            used[value] = None

    for value in op.grid if grid else ():
        use(value)
    for each in ir.walk(op.body):
        for value in each.operand_values():
            use(value)
    return list(used)
