"""Values that the host computes before a launch: extents of grids, and values that kernels are
given.

In: a kernel and the values that its launches name.  Out: a `HostProgram`, which is itself a kernel
(parameters, scalar ops, a `yield`), so that it has a text form; run on the scalars and symbols of a
call it gives plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from tileprof import ir
from tileprof.errors import ExecutionError, InternalError
from tileprof.runtime.interpreter import arithmetic
from tileprof.runtime.interpreter.convert import bitcast, cast, constant

_MAX_KNOWN = 4096
_HOST_OPS_MOST = 2000


class HostProgram:
    """Scalars as a function of a call's scalars and symbols."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        """Kernel whose body ends with the `yield` of the results."""
        self._scalars = [
            (at, v) for at, v in enumerate(kernel.param_values()) if isinstance(v.type, ir.DType)
        ]
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    @classmethod
    def of(cls, kernel: ir.Kernel, results: Sequence[ir.Value]) -> HostProgram:
        """Return the ops that compute `results` from the parameters and symbols of a kernel."""
        mapping: dict[ir.Value, ir.Value] = {}
        needed = _needed(results)
        used = {v for op in needed for v in op.operand_values()}
        if strange := {v for v in used if v.owner is None} - set(kernel.body.args):
            raise InternalError(f"{kernel.name}: values of another kernel: {strange}")
        whole = ir.Block(kernel.body.args, needed)
        body = ir.clone_block(whole, mapping)
        for value in results:
            if value not in mapping:
                raise InternalError(f"{kernel.name}: the host cannot compute {value!r}")
        body.ops.append(ir.Yield([mapping[v] for v in results]))
        return cls(kernel.with_body(body, ()))

    def reads(self, at: int) -> bool:
        """Return whether the results depend on parameter `at`."""
        value = self.kernel.body.args[at]
        return any(value in op.operand_values() for op in self.kernel.ops())

    def run(self, values: Sequence[Any], symbols: Sequence[int]) -> tuple[Any, ...]:
        """Return the results for the arguments of a call, as Python numbers. ExecutionError where
        an integer is divided by 0."""
        key = (*symbols, *[values[at] for at, _ in self._scalars])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = self._compute(values, symbols)
        return found

    def _compute(self, values: Sequence[Any], symbols: Sequence[int]) -> tuple[Any, ...]:
        env: dict[ir.Value, Any] = {v: constant(values[at], v.dtype) for at, v in self._scalars}
        env |= zip(self.kernel.symbol_values().values(), map(int, symbols))
        made = _run(self.kernel.body, env)
        return tuple(v.item() if hasattr(v, "item") else v for v in made)


def check_host(program: ir.Kernel, kernel: ir.Kernel) -> None:
    """ValueError where a program that was read is none that the host runs before a launch of
    `kernel`."""
    ops = program.ops()
    allowed = (*get_args(ir.ScalarOp), ir.If, ir.Yield)
    other = [op for op in ops if not isinstance(op, allowed)]
    last = program.body.ops[-1] if program.body.ops else None
    if other or not isinstance(last, ir.Yield) or len(ops) > _HOST_OPS_MOST:
        raise ValueError("the program of the host is not a list of scalars that ends in `yield`")
    if program.symbols != kernel.symbols or [p.type for p in program.params] != [
        p.type for p in kernel.params
    ]:
        raise ValueError("the program of the host takes other arguments than the kernel")
    # The last `yield` ends no block: it is looked at as if it ended one of a branch.
    for sentence in ir.problems(
        program.with_body(ir.Block(program.body.args, program.body.ops[:-1]))
    ):
        raise ValueError(f"the program of the host is not valid: {sentence}")
    known = {*program.body.args, *(v for op in program.body.ops for v in op.results)}
    if not known.issuperset(last.values):
        raise ValueError("the program of the host gives what it does not compute")


def _needed(results: Sequence[ir.Value]) -> list[ir.OpBase]:
    """Return the ops that values follow from, in an order in which they can run."""
    found: dict[ir.OpBase, None] = {}

    def visit(value: ir.Value) -> None:
        owner = value.owner
        if owner is None or owner in found:
            return
        inner = [*owner.inner_ops()]
        for each in owner.all_operand_values():
            if each.owner not in inner:
                visit(each)
        found[owner] = None

    for value in results:
        visit(value)
    return list(found)


def _run(block: ir.Block, env: dict[ir.Value, Any]) -> list[Any]:
    """Run the ops of a block; gives what its `yield` holds."""
    for op in block.ops:
        if isinstance(op, ir.Yield):
            return [env[v] for v in op.values]
        if isinstance(op, ir.If):
            chosen = op.then if env[op.condition] else op.otherwise
            env.update(zip(op.results, _run(chosen, env)))
        else:
            env[op.result] = _scalar(op, [env[v] for v in op.operand_values()])
    return []


def _scalar(op: ir.OpBase, held: list[Any]) -> Any:
    match op:
        case ir.Constant(value=value, dtype=dtype):
            return constant(value, dtype)
        case ir.Binary(kind=kind, left=left):
            if kind in arithmetic.DIVISIONS and not left.dtype.is_float and held[1] == 0:
                raise ExecutionError(
                    "division by 0 while a launch is prepared",
                    location=op.span,
                    hint="An extent of the grid follows from it: guard it with `T.max(…, 1)`.",
                )
            return arithmetic.binary(kind, held[0], held[1], left.dtype)
        case ir.Unary(kind=kind, operand=operand):
            return arithmetic.unary(kind, held[0], operand.dtype)
        case ir.Compare(kind=kind, left=left):
            return arithmetic.compare(kind, held[0], held[1], left.dtype)
        case ir.Fma(a=a):
            return arithmetic.fma(held[0], held[1], held[2], a.dtype)
        case ir.Select():
            return held[1] if held[0] else held[2]
        case ir.Cast(operand=operand, dtype=dtype):
            return cast(held[0], operand.dtype, dtype)
        case ir.Bitcast(dtype=dtype):
            return bitcast(held[0], dtype)
        case _:
            raise InternalError(f"the host cannot run {op!r}")
