"""A kernel as plain records, for profiles: what outlives this version of the IR.

In: a kernel, after any pass.  Out: `kernel_ir.TileKernel`, whose values have the names of the text
form.  Measured places and their states are left out: a profile keeps those by themselves.
"""

from __future__ import annotations

import math
from typing import Any

from tileprof import kernel_ir

from .core import Block, OpBase
from .kernel import Kernel
from .names import ValueNames, said
from .types import BufferType, DType, Type


def plain_kernel(kernel: Kernel) -> kernel_ir.TileKernel:
    """Return a kernel as plain records."""
    names = ValueNames()
    parameters = {
        names.of(value): kernel_ir.Parameter(_type(param.type), param.role == "out")
        for param, value in zip(kernel.params, kernel.param_values(), strict=True)
    }
    for value in kernel.symbol_values().values():
        names.of(value)  # as in the text: the next of the same name gets a number
    # The arguments of the body are the parameters.
    ops = tuple(_op(each, names) for each in kernel.body.ops)
    return kernel_ir.TileKernel(parameters, kernel_ir.Block(ops=ops))


def _block(name: str, block: Block, names: ValueNames) -> kernel_ir.Block:
    arguments = tuple(map(names.of, block.args))
    return kernel_ir.Block(name, arguments, tuple(_op(each, names) for each in block.ops))


def _op(op: OpBase, names: ValueNames) -> kernel_ir.Op:
    held = names.operands(op)
    results = tuple(map(names.of, op.results))
    return kernel_ir.Op(
        op.mnemonic,
        results,
        tuple(_attribute(getattr(op, name)) for name in op.SPEC.positional),
        tuple(each for each in held if isinstance(each, str)),
        tuple(each for each in held if not isinstance(each, str)),
        {name: _attribute(value) for name, value in said(op)},
        tuple(_type(each.type) for each in op.results),
        tuple(_block(name, getattr(op, name), names) for name in op.SPEC.regions),
        max(op.span.line, 0) if op.span else 0,
    )


def _attribute(held: Any) -> kernel_ir.Attribute:
    match held:
        case DType():
            return held.name
        case tuple() | list():
            return tuple(map(_attribute, held))
        case float() if not math.isfinite(held):
            return repr(held)
        case None | bool() | int() | float() | str():
            return held
        case _:
            raise TypeError(f"an attribute cannot hold {held!r}")


def _type(type: Type) -> kernel_ir.Type:
    if isinstance(type, BufferType):
        return kernel_ir.Type(type.dtype.name, type.space, type.shape)
    return kernel_ir.Type(type.name)
