"""A buffer seen under another shape or element type."""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import row_major
from tileprof.compiler.cuda.layouts import SharedLayout, fragment_layout
from tileprof.errors import InternalError

from .buffers import Buffer, FragmentBuffer, GlobalBuffer, LocalBuffer, SharedBuffer
from .context import Context


def reinterpreted(ctx: Context, op: ir.Reinterpret) -> Buffer:
    """The memory of `op.base` as `op` wants to see it; the layouts pass keeps such shared buffers
    row-major and fragments in registers that both shapes number."""
    base = ctx.buffer(op.base)
    name = ctx.names.fresh(op.result.name or base.name)
    shape = ctx.extents(op.shape)
    match base:
        case GlobalBuffer():
            kind = replace(base, dtype=op.dtype).type
            ctx.writer.line(f"{kind} *const {name} = ({kind} *){base.pointer};")
            return replace(
                base, pointer=name, dtype=op.dtype, shape=shape, strides=row_major(shape),
                dims=op.shape, steps=None,
            )  # fmt: skip
        case SharedBuffer():
            if base.layout.swizzle or base.layout.pad:
                raise InternalError(f"{base.name} is reinterpreted and swizzled")
            layout = SharedLayout(op.result.buffer.static_shape, op.dtype)
            return SharedBuffer(base.pointer, op.dtype, layout, base.name, op.shape)
        case LocalBuffer():
            fixed = op.result.buffer.static_shape
            kind = replace(base, dtype=op.dtype).type
            ctx.writer.line(f"{kind} *const {name} = ({kind} *)&{base.variable};")
            if not fixed:
                return LocalBuffer(f"(*{name})", op.dtype, fixed, base.name, op.shape)
            return LocalBuffer(name, op.dtype, fixed, base.name, op.shape)
        case FragmentBuffer():
            # The same registers, which other indices number.
            registers = fragment_layout(op.result)
            return FragmentBuffer(base.array, op.dtype, registers, base.name, op.shape)
