"""A call of a compiled kernel: arguments are checked, outputs allocated, the kernel launched."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tileprof import ir
from tileprof.compiler import Options, Program, Remark, compile_kernel
from tileprof.errors import ArgumentError, Location
from tileprof.once import Kept
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec, allocate, describe
from tileprof.runtime.device import used_params, written_params
from tileprof.runtime.launch import LoadedKernel, load
from tileprof.runtime.selection import choose

from . import abstract
from .trace import Given, Traced
from .warm import LESSONS, WarmCalls

if TYPE_CHECKING:
    from tileprof.compiler.cuda.pipeline import CudaProgram

_MAX_LOOKED_AT = 1 << 20
"""Elements of an array with unusual strides that are compared one by one, once for each shape."""
_INTERNED: dict[TensorSpec, TensorSpec] = {}


class Located(Protocol):
    """An object with a place in the user's source."""

    @property
    def location(self) -> Location | None:
        """Where."""


def spec_of(
    value: Any, name: str, place: Located | Location | None = None, *, called: bool = True
) -> TensorSpec | None:
    """`describe` with the argument's name in its errors; an equal spec is the same object.
    ArgumentError for a tensor whose gradient a call would lose, unless the kernel is not `called`.
    """
    try:
        spec = describe(value)
    except ArgumentError as error:
        raise ArgumentError(
            f"argument `{name}`: {error.message}",
            location=_location_of(place),
            hint=error.hint,
        ) from None
    if spec is None:
        return None
    if spec.framework == "dlpack":
        return _INTERNED.setdefault(spec, spec)
    if called and spec.framework == "torch" and value.requires_grad:
        _refuse_gradient(name, place)
    return spec


def _refuse_gradient(name: str, place: Located | Location | None) -> None:
    """ArgumentError where PyTorch records gradients: results of kernels would have none."""
    if sys.modules["torch"].is_grad_enabled():
        raise ArgumentError(
            f"argument `{name}` requires gradients, and a kernel's results have none",
            location=_location_of(place),
            hint=f"Pass `{name}.detach()` or call under `torch.no_grad()`; to train through a "
            "kernel, make it an operator: `tileprof.op(backward=…)`.",
        )


def _location_of(place: Located | Location | None) -> Location | None:
    return place if place is None or isinstance(place, Location) else place.location


def given_of(spec: TensorSpec) -> Given:
    """Return what a trace may know of an argument."""
    strides = spec.strides if spec.strides is not None else _row_major(spec.shape)
    return Given(spec.shape, strides, spec.strides is None)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


def place(specs: Sequence[TensorSpec]) -> tuple[str, hooks.Instrument]:
    """Return the device and what is measured, for a call that happens now."""
    listener = hooks.listener
    return choose(specs), "off" if listener is None else listener.instrument


class Variant:
    """One traced kernel, compiled for each device and kind of measurement when it is wanted."""

    __slots__ = ("_loaded", "_programs", "lowered", "options", "traced")

    def __init__(self, traced: Traced, options: Options | None = None) -> None:
        self.traced = traced
        self.options = options or Options()
        self._programs: Kept[str, Program] = Kept()
        self._loaded: Kept[tuple[str, str], LoadedKernel] = Kept()
        self.lowered: CudaProgram | None = None
        """Program for the target that the author named; its errors are raised at once."""
        if self.options.target:
            self.lowered = self.program().lowered(self.options.target)

    def program(self, instrument: hooks.Instrument = "off") -> Program:
        """Return the kernel after all passes."""
        options = replace(self.options, instrument=instrument)
        return self._programs.made(instrument, lambda: compile_kernel(self.traced.kernel, options))

    def loaded(self, device: str, instrument: hooks.Instrument) -> LoadedKernel:
        """Return the kernel ready on a device."""
        if device.startswith("cuda") and instrument == "scopes" and not self._has_scopes():
            instrument = "off"  # the same binary, which is not to be loaded twice
        key = (device, instrument)
        return self._loaded.made(key, lambda: load(self.program(instrument), device))

    def adopt(self, device: str, build: Callable[[Any], Any]) -> None:
        """Make the kernel ready on a GPU with machine code that was made elsewhere: `build` gives
        it for a need, None where it has none."""
        key = (device, "off")
        self._loaded.made(key, lambda: load(self.program(), device, build))

    @property
    def devices(self) -> list[str]:
        """Devices for which it was loaded."""
        return [device for device, _ in self._loaded]

    def _has_scopes(self) -> bool:
        return any(isinstance(op, ir.Scope) for op in self.traced.kernel.ops())

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Decisions of the compiler: for the author's target, else for the device that it was
        loaded for last, else for the cpu."""
        if self.lowered is not None:
            return self.lowered.known_remarks
        loaded = list(self._loaded.values())
        return loaded[-1].remarks if loaded else self.program().remarks

    @property
    def source(self) -> str:
        """The text that is compiled; for what, as `remarks`."""
        if self.lowered is not None:
            return self.lowered.source.text
        texts = [each.source for each in self._loaded.values()]
        return texts[-1] if texts and texts[-1] else self.program().cpp.text


@dataclass(slots=True)
class Plan:
    """Everything about a call that follows from the types and shapes of its arguments."""

    variant: Variant
    specs: tuple[TensorSpec | None, ...]
    """One for each argument; kept, for their identity stands in the key of the plan."""
    symbols: dict[str, int]
    sources: tuple[int, ...]
    """Position of the argument of each parameter, or -1 for an output."""
    scalars: tuple[tuple[int, ir.Param], ...]
    outputs: tuple[tuple[int, ir.Param], ...]
    returned: tuple[int, ...]
    first: TensorSpec | None
    """The first array: outputs are of its kind."""
    loaded: LoadedKernel
    location: Location | None
    ready: tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None
    """Values of the symbols and shapes of the outputs, where no scalar argument changes them."""
    lessons: int = 0
    """Calls that may still be shown to the native launcher."""
    absent: tuple[tuple[int, Any], ...] = ()
    """Positions of arguments that are None, tensors that the kernel does not use, and what is
    passed in their place."""

    @classmethod
    def make(
        cls,
        variant: Variant,
        names: Sequence[str],
        specs: Sequence[TensorSpec | None],
        where: tuple[str, hooks.Instrument],
    ) -> Plan:
        """Check the arguments `names` with `specs` (None for scalars) and plan their call."""
        kernel = variant.traced.kernel
        positions = {n: at for at, n in enumerate(names)}
        symbols: dict[str, int] = {}
        tensors = [(at, p, p.type) for at, p in enumerate(kernel.params)
                   if isinstance(p.type, ir.BufferType) and p.role == "in"]  # fmt: skip
        unused = {at for at, _, _ in tensors if specs[positions[kernel.params[at].name]] is None}
        unused -= used_params(kernel) if unused else set()
        for at, param, kind in tensors:
            if at not in unused:
                check_tensor(param, kind, specs[positions[param.name]], kernel, symbols)
        first = next((s for s in specs if s is not None), None)
        absent = tuple(
            (positions[p.name], allocate(first, (1,) * kind.rank, kind.dtype))
            for at, p, kind in tensors if at in unused
        )  # fmt: skip
        if absent:
            _settle_unused(kernel, symbols, set(variant.traced.derived))
        for at in written_params(kernel):
            param = kernel.params[at]
            if param.role == "in":
                _check_elements(param.name, specs[positions[param.name]], kernel)
        plan = cls(
            variant,
            tuple(specs),
            symbols,
            tuple(positions.get(p.name, -1) if p.role == "in" else -1 for p in kernel.params),
            tuple(
                (positions[p.name], p)
                for p in kernel.params
                if not isinstance(p.type, ir.BufferType)
            ),
            tuple((at, p) for at, p in enumerate(kernel.params) if p.role == "out"),
            variant.traced.returned,
            first,
            variant.loaded(*where),
            kernel.location,
            None,
            absent=absent,
        )
        if not (plan.scalars and variant.traced.derived):
            plan.ready = plan._settle(())
            # The first call is none of them: a kernel that runs once needs no launcher.
            learns = plan.loaded.device.startswith("cuda") and not absent
            plan.lessons = 1 + LESSONS if learns else 0
        return plan

    def run(
        self,
        args: Sequence[Any],
        warm: WarmCalls | None = None,
        given: tuple[Any, ...] = (),
    ) -> Any:
        """Launch on these arguments; gives the outputs.  `warm` may learn from the call, whose
        arguments were `given`."""
        if self.scalars or self.absent:
            args = self._converted(args)
        values = [args[at] if at >= 0 else None for at in self.sources]
        if abstract.state.written is not None:
            kernel = self.variant.traced.kernel
            abstract.state.written(kernel.name, [values[at] for at in written_params(kernel)])
        symbols, shapes = self.ready or self._settle(values)
        for (at, param), shape in zip(self.outputs, shapes):
            values[at] = allocate(self.first, shape, param.type.dtype)  # type: ignore[union-attr]
        self.loaded.launch(values, symbols)
        if self.lessons and warm is not None:
            self.lessons -= 1
            if self.lessons < LESSONS and not warm.learn(
                self.loaded, given, self.sources, values, symbols, self.returned
            ):
                self.lessons = 0
        if len(self.returned) == 1:
            return values[self.returned[0]]
        return tuple(values[at] for at in self.returned) or None

    def results(self, args: Sequence[Any]) -> list[tuple[tuple[int, ...], ir.DType]]:
        """Return shape and type of each tensor that a call makes, also of those that it does not
        return; of arrays among the arguments nothing is read."""
        _, shapes = self.ready or self._settle(self._given(args))
        return [
            (shape, param.type.dtype if isinstance(param.type, ir.BufferType) else param.type)
            for (_, param), shape in zip(self.outputs, shapes)
        ]

    def launch_into(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Launch on these arguments and write into tensors as `results` describes them."""
        values = self._given(args)
        symbols, _ = self.ready or self._settle(values)
        for (at, _), result in zip(self.outputs, results, strict=True):
            values[at] = result
        self.loaded.launch(values, symbols)

    def _given(self, args: Sequence[Any]) -> list[Any]:
        if self.scalars or self.absent:
            args = self._converted(args)
        return [args[at] if at >= 0 else None for at in self.sources]

    def _converted(self, args: Sequence[Any]) -> list[Any]:
        made = list(args)
        for at, param in self.scalars:
            made[at] = to_scalar(made[at], param, self.location)
        for at, instead in self.absent:
            if made[at] is not None:
                raise ArgumentError(
                    f"an argument is {made[at]!r:.60}, and a tensor or None is expected",
                    location=self.location,
                    hint="Pass an array, or None where the kernel does not use it.",
                )
            made[at] = instead
        return made

    def _settle(self, values: Sequence[Any]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Return the values of all symbols and the shapes of the outputs."""
        traced = self.variant.traced
        known = dict(self.symbols)
        for name, compute in traced.derived.items():
            found = compute(values, known)
            if known.setdefault(name, found) != found:
                raise ArgumentError(
                    f"extent `{name}` is {known[name]} and should be {found}",
                    location=self.location,
                    hint="It is computed from other extents in the signature.",
                )
        shapes = []
        for _, param in self.outputs:
            assert isinstance(param.type, ir.BufferType)
            shapes.append(tuple(known[d] if isinstance(d, str) else d for d in param.type.shape))
        return tuple(known[s] for s in traced.kernel.symbols), tuple(shapes)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A launch whose arguments are checked and whose outputs are allocated, to be made many times.

    Nobody who listens to launches hears of it, and nothing inside is measured: it is for timing.
    """

    loaded: LoadedKernel
    values: tuple[Any, ...]
    """One for each parameter of the kernel, outputs included."""
    symbols: tuple[int, ...]

    def __call__(self) -> None:
        """Launch."""
        self.loaded.executable.run(self.values, self.symbols)

    @classmethod
    def of(cls, plan: Plan, args: Sequence[Any], outputs: dict[Any, Any]) -> BoundCall:
        """Return the call of a plan on these arguments.  Arrays among `outputs` are written to
        where they fit, and new ones are added to it."""
        if plan.scalars or plan.absent:
            args = plan._converted(args)
        values = [args[at] if at >= 0 else None for at in plan.sources]
        symbols, shapes = plan.ready or plan._settle(values)
        for (at, param), shape in zip(plan.outputs, shapes):
            assert isinstance(param.type, ir.BufferType)
            key = at, shape, param.type.dtype
            if key not in outputs:
                outputs[key] = allocate(plan.first, shape, param.type.dtype)
            values[at] = outputs[key]
        return cls(plan.loaded, tuple(values), symbols)


def check_tensor(
    param: ir.Param,
    expected: ir.BufferType,
    spec: TensorSpec | None,
    kernel: ir.Kernel,
    symbols: dict[str, int],
) -> None:
    """ArgumentError where an argument is not of the expected type; binds its symbols."""

    def fail(found: str, hint: str) -> None:
        raise ArgumentError(
            f"argument `{param.name}` of `{kernel.name}` {found}",
            location=kernel.location,
            hint=hint,
        )

    shown = f"{expected.dtype}[{', '.join(map(str, expected.shape))}]"
    if spec is None:
        fail(
            "is not an array",
            f"Expected is a tensor {shown}; None is one that the kernel does not use.",
        )
        return
    if spec.dtype != expected.dtype:
        fail(
            f"has elements of type {spec.dtype}, and {expected.dtype} is expected",
            f"Convert it, or annotate it with the other type: expected is {shown}.",
        )
    if len(spec.shape) != expected.rank:
        fail(
            f"has {len(spec.shape)} dimensions, and {expected.rank} are expected",
            f"Its shape is {spec.shape}, and {shown} is expected.",
        )
    strides = given_of(spec).strides or ()
    if expected.strides is None and spec.strides is not None:
        fail("is not contiguous", "Pass a contiguous array.")
    wanted = [*zip(expected.shape, spec.shape, strict=True)]
    wanted += zip(expected.strides or (), strides)
    for at, (dim, actual) in enumerate(wanted):
        what = f"dimension {at}" if at < expected.rank else f"stride {at - expected.rank}"
        if isinstance(dim, int):
            if dim != actual:
                fail(
                    f"has {actual} in {what}, and {dim} is expected",
                    f"Its shape is {spec.shape}, and {shown} is expected.",
                )
        elif symbols.setdefault(dim, actual) != actual:
            fail(
                f"has {actual} in {what}, and `{dim}` is {symbols[dim]} in an argument before it",
                f"Its shape is {spec.shape}, and {shown} is expected.",
            )


def _settle_unused(kernel: ir.Kernel, symbols: dict[str, int], derived: set[str]) -> None:
    """Give extents of tensors that are not passed a number; ArgumentError where it matters."""
    values = kernel.symbol_values()
    used = {v for op in kernel.ops() for v in op.operand_values()}
    for name in kernel.symbols:
        if name in symbols or name in derived:
            continue
        if values[name] in used:
            raise ArgumentError(
                f"no argument of `{kernel.name}` gives the extent `{name}`: the tensors that have "
                "it are None",
                location=kernel.location,
                hint="Pass one of them.",
            )
        symbols[name] = 1


def _check_elements(name: str, spec: TensorSpec | None, kernel: ir.Kernel) -> None:
    """ArgumentError for an array that is written and holds elements twice: which of the values
    stays would follow from the order of blocks and threads."""
    if spec is None or spec.strides is None or not _holds_elements_twice(spec):
        return
    raise ArgumentError(
        f"argument `{name}` of `{kernel.name}` is written, and several of its elements are one "
        f"place in memory: its shape is {spec.shape} and its strides are {spec.strides}",
        location=kernel.location,
        hint="Pass a copy, which `broadcast_to`, `expand` and `as_strided` do not make: "
        "`x.copy()`, `x.contiguous()`.",
    )


def _holds_elements_twice(spec: TensorSpec) -> bool:
    """Return whether two indices of an array may be one place; rows that interleave without meeting
    are taken for such, where there are too many elements to look.
    """
    assert spec.strides is not None
    axes = sorted((abs(s), n) for n, s in zip(spec.shape, spec.strides) if n != 1)
    if 0 in spec.shape:
        return False
    reach = 0
    for stride, extent in axes:
        if stride <= reach:
            break
        reach += stride * (extent - 1)
    else:
        return False
    if axes[0][0] == 0 or math.prod(spec.shape) > _MAX_LOOKED_AT:
        return True
    places = sum(np.ix_(*[np.arange(n) * s for s, n in axes]), start=np.zeros((), np.int64))
    return len(np.unique(places)) < places.size


def to_scalar(value: Any, param: ir.Param, location: Location | None) -> Any:
    """Return a number of the parameter's type; ArgumentError where the argument is none."""
    kind = param.type.dtype if isinstance(param.type, ir.BufferType) else param.type
    try:
        made: Any = float(value) if kind.is_float else int(value)
        if not kind.is_float and made != value:
            raise ValueError
    except (TypeError, ValueError):
        raise ArgumentError(
            f"argument `{param.name}` is {value!r:.60}, and a number of type {kind} is expected",
            location=location,
            hint=f"It is annotated with `T.{kind}`.",
        ) from None
    return bool(made) if kind.kind == "bool" else made
