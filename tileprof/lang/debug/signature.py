"""Arguments, extents and outputs of a call that runs as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

from tileprof import ir
from tileprof.errors import KernelError, Location
from tileprof.ir.types import index
from tileprof.lang.calls import check_tensor, to_scalar
from tileprof.lang.tensors import TensorType
from tileprof.lang.trace import Given, Knowledge, Retrace
from tileprof.lang.trace.signature import scalar_type
from tileprof.lang.values import Deferred, Expr, Placeholder, Symbol
from tileprof.runtime.arguments import TensorSpec, allocate
from tileprof.runtime.interpreter.buffers import Buffer, Memory
from tileprof.runtime.interpreter.convert import constant

from .context import Live
from .host import Host
from .known import Known
from .values import LiveBuffer, LiveScalar


class Call(Live):
    """The context of one call.  `values` are the arguments by name, `specs` those of arrays;
    `outs` names parameters that the call allocates."""

    def __init__(
        self,
        root: CodeType,
        rewritten: Callable[[Any], FunctionType],
        strict: bool,
        name: str,
        location: Location,
        values: Mapping[str, Any],
        specs: Mapping[str, TensorSpec],
        given: Mapping[str, Given],
        knowledge: Knowledge,
        outs: Sequence[str] = (),
    ) -> None:
        super().__init__(root, rewritten, strict, given, knowledge)
        self._kernel = ir.Kernel(name, (), (), ir.Block(), location=location)
        self._values = values
        self._specs = specs
        self._outs = outs
        self._symbols: dict[str, int] = {}
        self.arrays: dict[ir.Value, Any] = {}
        """Arrays that the call allocated, by buffer."""
        self._hosts: list[Host] = []
        self._too_early = False
        """Whether an argument was annotated before the extents that it names were known."""

    # -- extents

    def extent(self, value: Placeholder) -> Any:
        """Return the value of a `T.const`, or itself where no argument has given it yet."""
        return self.knowledge.extents.get(value.name, value)

    def symbol(self, name: str) -> LiveScalar:
        """Return the value of a symbol."""
        if name not in self.knowledge.extents:
            self.fail(
                KernelError,
                f"no argument gives the value of `{name}`",
                f"Use it as an extent of an argument: `A: T.Tensor(({name}, …), dtype)`.",
            )
        return self.scalar(index, name, self.knowledge.extents[name], self.top)

    def _signature_dim(self, extent: Any, name: str) -> ir.Dim:
        if isinstance(extent, (Symbol, Deferred, Expr)):
            return self.number(extent)
        return super()._signature_dim(extent, name)

    def bind(self, name: str, annotation: TensorType) -> None:
        """Take the values of extents from an argument."""
        given = self.given[name]
        sides = ((annotation.shape, given.shape), (annotation.strides or (), given.strides))
        for dims, actual in sides:
            for extent, number in zip(dims, actual or ()):
                if isinstance(extent, (Placeholder, Symbol)) and extent.name:
                    self.knowledge.extents.setdefault(extent.name, number)
                    self._open.pop(extent.name, None)
        if self._too_early and not self._open:
            raise Retrace

    def _settled(self, dims: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.extent(d) if isinstance(d, Placeholder) else d for d in dims)

    # -- parameters

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """Return a parameter: see `Tracer.argument`."""
        kind = scalar_type(annotation)
        if kind is not None:
            param = ir.Param(name, kind)
            number = to_scalar(self._values[name], param, self._kernel.location)
            return self.scalar(kind, name, constant(number, kind), self.top)
        if not isinstance(annotation, TensorType):
            return value
        if name in self.given:
            self.bind(name, annotation)
            for at, stride in enumerate(self.given[name].strides or ()):
                self.knowledge.extents[f"{name}_stride{at}"] = stride
        shape = self._settled(annotation.shape)
        strides = None if annotation.strides is None else self._settled(annotation.strides)
        settled = replace(annotation, shape=shape, strides=strides)
        made = super().argument(name, value, settled)
        assert isinstance(made, LiveBuffer)
        if any(isinstance(d, Placeholder) for d in (*shape, *(strides or ()))):
            # `K // 2` before an argument gave K: once it is known the function starts again.
            self._too_early = True
            return made
        if name in self._outs:
            self._allocate(made)
        else:
            self._attach(made, name, settled)
        return made

    def _attach(self, made: LiveBuffer, name: str, annotation: TensorType) -> None:
        spec = self._specs.get(name)
        dims = tuple(d.name if isinstance(d, Symbol) else d for d in made.type.shape)
        named = [s.name if isinstance(s, Symbol) else d for s, d in zip(annotation.shape, dims)]
        expected = replace(made.type, shape=tuple(named))
        check_tensor(ir.Param(name, expected), expected, spec, self._kernel, self._symbols)
        host = Host.of(self._values[name])
        self._hosts.append(host)
        self._hold(made, host.array, out=False)

    def _hold(self, made: LiveBuffer, array: Any, *, out: bool) -> None:
        assert isinstance(made.value, Known)
        safe = constant(0, made.type.dtype)
        memory = Memory(array, blank=out, by_bits=True)
        made.value.held = Buffer(made.name, made.type, array.shape, memory, 0, safe, out)

    def buffer(self, value: ir.Value, shape: Sequence[Any] | None = None) -> LiveBuffer:
        """Return the author's handle of a buffer value."""
        if not isinstance(value, Known):
            value = Known(value.type, value.name)
        return super().buffer(value, shape)

    def safe_value(self, buffer: Any, value: Any) -> None:
        """Set the value of guarded reads outside a global tensor."""
        super().safe_value(buffer, value)
        buffer.memory.safe = constant(self.safe[buffer.value], buffer.type.dtype)

    # -- outputs

    def empty(self, shape: Sequence[Any], kind: ir.DType) -> LiveBuffer:
        """Return a tensor that the call allocates, of the kind of the first array argument."""
        made = super().empty(shape, kind)
        assert isinstance(made, LiveBuffer)
        name = next(reversed(self.outputs))
        self.outputs[name] = self.outputs[name][0], made.value
        self._allocate(made)
        return made

    def _allocate(self, made: LiveBuffer) -> None:
        first = next(iter(self._specs.values()), None)
        array = allocate(first, made.type.static_shape, made.type.dtype)
        host = Host.of(array)
        self._hosts.append(host)
        self.arrays[made.value] = array
        self._hold(made, host.array, out=True)

    def write_back(self) -> None:
        """Copy what arrays of another device hold now back to them."""
        for host in self._hosts:
            host.write_back()

    def returned(self, held: Any) -> Any:
        """Return the arrays for what an eager function gave back."""
        if not self.machine.grids:
            self.may_launch_nothing(self._kernel.name, self._kernel.location)
        outputs = [value for _, value in self.outputs.values()]
        assert self._kernel.location is not None
        chosen = [outputs[at] for at in self._returned(held, outputs, self._kernel.location)]
        arrays = tuple(self.arrays[value] for value in chosen)
        return arrays[0] if len(arrays) == 1 else arrays or None
