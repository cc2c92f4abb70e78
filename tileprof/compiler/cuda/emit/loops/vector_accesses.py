"""One access of several elements of a thread: its array, and the calls that fill or store it.

TpBfloat x_in[8];
tp_get_global<8>(x_in, x + …);
float x_values[8];
tp_widen_vector<8>(x_values, x_in);          // elements that are computed with
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.buffers import plus, times
from tileprof.compiler.codegen.types import is_narrow, literal, storage, stored, value_type
from tileprof.compiler.cuda.emit.access import converts, manner
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.target import WORD

from .points import Held
from .vector_loops import VectorLoops
from .vectors import VectorAccess


@dataclass(kw_only=True)
class VectorAccesses(VectorLoops):
    """Accesses that stand in front of a vector's points, or behind them."""

    def _array(self, access: VectorAccess, count: int, way: str) -> str:
        """Declare the array of a moved access."""
        buffer = access.buffer
        name = self.ctx.names.fresh(f"{buffer.name}_{way}")
        values = way == "out" and converts(access.op)
        kind = value_type(buffer.dtype) if values else storage(buffer.dtype)
        self.ctx.writer.line(f"{kind} {name}[{count}];")
        return name

    def _widen(self, access: VectorAccess) -> None:
        """Elements that are computed with are converted together."""
        width = self.planner.width * access.step
        if not is_narrow(access.buffer.dtype) or width == 1:
            return
        users = [u for op in access.ops for v in op.results for u in self.ctx.uses.get(v, [])]
        if all(isinstance(u, ir.Store) for u in users):
            return
        held = self.frame.early[access.op]
        name = self.ctx.names.fresh(f"{access.buffer.name}_values")
        at = plus(held.name, held.base)
        self.ctx.headers.add("elementwise.cuh")
        self.ctx.writer.line(f"float {name}[{width}];")
        self.ctx.writer.line(f"tp_widen_vector<{width}>({name}, {at});")
        for op in access.ops:
            self.frame.early[op] = replace(self.frame.early[op], values=name)

    def _load(self, access: VectorAccess) -> None:
        buffer, held = access.buffer, self.frame.early[access.op]
        assert isinstance(buffer, GlobalBuffer | SharedBuffer)
        if self._may_be_left_out(access):
            self._load_where(access, held)
            return
        with self._piece(access) as (address, guard, count):
            at = plus(held.base, times(self.frame.position, access.step))
            to = plus(held.name, at)
            safe = _element(buffer.safe if isinstance(buffer, GlobalBuffer) else 0, buffer.dtype)
            if count == 1:
                text = f"*({address})"
                text = f"{guard} ? {text} : {safe}" if guard else text
                if access.repeats > 1:
                    self.ctx.headers.add("elementwise.cuh")
                    kind = f"{access.repeats}, {storage(buffer.dtype)}"
                    self.ctx.writer.line(f"tp_fill_vector<{kind}>({to}, {text});")
                    return
                self.ctx.writer.line(f"{held.name}[{at}] = {text};")
                return
            self.ctx.headers.add("elementwise.cuh")
            get = f"tp_get_{_space(buffer)}<{count}>({to}, {address});"
            if not guard:
                self.ctx.writer.line(get)
                return
            self.ctx.writer.line(f"if ({guard}) {get}")
            self.ctx.writer.line(f"else tp_fill_vector<{count}>({to}, {safe});")

    def _may_be_left_out(self, access: VectorAccess) -> bool:
        """Whether a whole vector of narrow elements of global memory is read under a condition."""
        buffer, width = access.buffer, self._elements(access)
        inside = all(op.in_bounds or op in self.ctx.inside for op in access.ops)
        narrow = buffer.dtype.bytes < WORD and width * buffer.dtype.bytes % WORD == 0
        conditional = bool(access.guards) or not inside
        whole = width == self.planner.width * access.step
        return isinstance(buffer, GlobalBuffer) and narrow and conditional and whole

    def _load_where(self, access: VectorAccess, held: Held) -> None:
        """A load whose address is null where its conditions do not hold."""
        buffer, line = access.buffer, self.ctx.writer.line
        assert isinstance(buffer, GlobalBuffer)
        name = self.ctx.names.fresh(f"{buffer.name}_from")
        line(f"const {storage(buffer.dtype)} *{name} = nullptr;")
        with self._piece(access) as (address, guard, count):
            to = plus(held.name, plus(held.base, times(self.frame.position, access.step)))
            line(f"{f'if ({guard}) ' if guard else ''}{name} = {address};")
        self.ctx.headers.add("elementwise.cuh")
        safe = _element(buffer.safe, buffer.dtype)
        # Guards have lines of their own.
        with self.ctx.writer.at(access.op.span):
            line(f"tp_get_global_where<{count}>({to}, {name}, {safe});")

    def _store(self, access: VectorAccess) -> None:
        buffer, held = access.buffer, self.frame.late[access.op]
        alone = "" if isinstance(buffer, FragmentBuffer) else self.frame.leader
        self.ctx.headers.add("elementwise.cuh")
        with self._piece(access) as (address, guard, count):
            source = plus(held.name, times(self.frame.position, access.step))
            if isinstance(access.op, ir.Atomic):
                self.ctx.headers.add("atomics.cuh")
                text = f"tp_atomic_add_vector<{count}>({address}, {source});"
            elif isinstance(buffer, FragmentBuffer):
                how = manner(access.op) or "vector"
                text = f"tp_narrow_{how}<{count}>({address}, {source});"
            elif held.values and is_narrow(buffer.dtype):
                how = manner(access.op) or "values"
                text = f"tp_put_{how}_{_space(buffer)}<{count}>({address}, {source});"
            else:
                text = f"tp_put_{_space(buffer)}<{count}>({address}, {source});"
            when = " && ".join(p for p in (alone, guard) if p)
            self.ctx.writer.line(f"if ({when}) {text}" if when else text)


def _element(number: float | int, dtype: ir.DType) -> str:
    """A number as an element in memory."""
    if not is_narrow(dtype):
        return stored(literal(number, dtype), dtype)
    with np.errstate(over="ignore"):
        made = np.asarray(number, np.float64).astype(dtype.to_numpy())
    return f"{storage(dtype)}{{{int(made.view(f'uint{dtype.bits}'))}}}"


def _space(buffer: GlobalBuffer | SharedBuffer) -> str:
    return "global" if isinstance(buffer, GlobalBuffer) else "shared"
