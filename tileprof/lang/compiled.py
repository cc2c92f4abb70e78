"""`tileprof.compile`, and the kernel that it gives, which is called with arrays."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.compiler import Options, Program
from tileprof.compiler.cuda.controls import Controls, controls_of
from tileprof.compiler.cuda.target import TARGETS
from tileprof.errors import ArgumentError, Location, UsageError
from tileprof.once import Guard, Kept
from tileprof.remarks import Remark
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec

from . import abstract
from .calls import BoundCall, Plan, Variant, place, spec_of
from .display.kernels import in_notebook, kernel_text
from .functions import Kernelized, PrimFunc
from .spans import here, hide_internals
from .specialize import trace_prim_func
from .static import as_number, is_number
from .tensors import TensorType
from .trace import Given, Knowledge, Traced
from .warm import WarmCallable, WarmCalls

MAX_PLANS = 4096
"""Calls with different shapes that are remembered."""
_ACCEPTED = frozenset(
    {"target_host", "execution_backend", "pass_configs", "compile_flags", "verbose",
     "debug_root_path", "mode", "workspace_idx"}
)  # fmt: skip
"""Keywords of TileLang's decorators that say nothing to this compiler, but for fast math in
`pass_configs`."""


class Kernel(WarmCallable):
    """A compiled kernel: call it with arrays and scalars, in the order of its signature."""

    def __init__(
        self,
        name: str,
        retrace: Callable[[Mapping[str, Given]], Traced],
        plain: Callable[[Mapping[str, Any]], tuple[Any, BaseException | None]],
        *,
        names: tuple[str, ...] | None = None,
        debug: bool = False,
        options: Options | None = None,
    ) -> None:
        self.__name__ = name
        self.options = options or Options()
        """Options of compilation."""
        self._retrace = retrace
        self._plain = plain
        """Runs the function as plain Python on arguments by name; gives its outputs, and the error
        that ended it."""
        self._debug = debug
        self._variants: Kept[frozenset[str], Variant] = Kept()
        self._tracing = Guard()
        self._plans: Kept[Any, Plan] = Kept()
        # Mistakes are told now; but a kernel that runs as plain Python is not traced before.
        if names is None or not (debug or debugging()):
            names = self.variant.traced.params
        self._names = names
        parameters = tuple((name, inspect.Parameter.empty) for name in names)
        self._warm = WarmCalls(self, parameters, {})

    def __repr__(self) -> str:
        return kernel_text(self, list(self._variants.values()))

    def _repr_html_(self) -> str:
        """Return the same as a notebook shows it."""
        return in_notebook(repr(self))

    @property
    def variant(self) -> Variant:
        """The variant for contiguous arguments."""
        return self._variant(frozenset())

    def _variant(self, strided: frozenset[str]) -> Variant:
        """Return the variant for arguments of which these are not contiguous."""

        def make() -> Variant:
            given = {n: Given(contiguous=n not in strided) for n in self._names} if strided else {}
            # Traces of one kernel learn from each other and run one after the other.
            with self._tracing:
                return Variant(self._retrace(given), self.options)

        return self._variants.made(strided, make)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of a call's arguments, in order."""
        return self._names

    @property
    def traced(self) -> ir.Kernel:
        """The program as the frontend wrote it."""
        return self.variant.traced.kernel

    @property
    def location(self) -> Location | None:
        """Location of the function."""
        return self.traced.location

    ir = traced

    @property
    def program(self) -> Program:
        """The program after all passes."""
        return self.variant.program()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Decisions of the compiler and their reasons: for the `target` that was given, else for
        the device that it was loaded for last, else for the cpu."""
        return self.variant.remarks

    @property
    def controls(self) -> Controls:
        """Lowering controls for a GPU."""
        return self.options.controls

    def get_kernel_source(self) -> str:
        """Return the source that is given to the compiler of the device; for which, as
        `remarks`."""
        return self.variant.source

    def save(self, path: str | Path, targets: Sequence[str] = ()) -> None:
        """Write the kernel, compiled for GPUs, to a file that `tileprof.load_kernel` reads; see
        `saved.save`."""
        from .saved import save

        save(self, path, targets)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; gives the outputs, one or a tuple of them, or None."""
        try:
            if kwargs or len(args) != len(self._names):
                args = self._bind(args, kwargs)
            if abstract.state.calls is not None:
                return self._abstract(args, abstract.state.calls)
            if self._debug or debugging():
                made, error = self._plain(dict(zip(self._names, args)))
                if error is not None:
                    raise error
                return made
            specs = [spec_of(a, n, self) for a, n in zip(args, self._names)]
            where = place([s for s in specs if s is not None])
            key = (*map(id, specs), where)
            plan = self._plans.get(key)
            if plan is None:
                plan = self._new_plan(specs, where, key)
            return plan.run(args, self._warm, args)
        except Exception as error:
            hide_internals(error)
            raise

    def bound(self, *args: Any, device: str, outputs: dict[Any, Any] | None = None) -> BoundCall:
        """Return a launch of these arguments on a device, checked once, to be timed: it writes the
        same outputs again each time, and is not recorded.  Calls that share `outputs` write to the
        same ones."""
        given = self._bind(args, {})
        specs = [spec_of(a, n, self) for a, n in zip(given, self._names)]
        plan = Plan.make(self._variant_for(specs), self._names, specs, (device, "off"))
        return BoundCall.of(plan, given, {} if outputs is None else outputs)

    def _abstract(self, args: Sequence[Any], calls: abstract.Calls) -> Any:
        """Return what stands for the results of a call."""
        traced = self.variant.traced
        return abstract.kernel_results(
            traced.kernel, traced.derived, traced.returned, args, calls, self.location
        )

    def _new_plan(
        self,
        specs: Sequence[TensorSpec | None],
        where: tuple[str, hooks.Instrument],
        key: Any,
    ) -> Plan:
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        return self._plans.made(
            key, lambda: Plan.make(self._variant_for(specs), self._names, specs, where)
        )

    def _variant_for(self, specs: Sequence[TensorSpec | None]) -> Variant:
        """Return the variant for these arguments: those that are not contiguous have strides."""
        held = zip(self._names, specs)
        strided = frozenset(n for n, s in held if s is not None and s.strides is not None)
        return self._variant(strided)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        held = dict(zip(self._names, args))
        repeated = held.keys() & kwargs.keys()
        held |= kwargs
        if len(args) > len(self._names) or repeated or held.keys() != set(self._names):
            raise ArgumentError(
                f"`{self.__name__}` takes {len(self._names)} arguments "
                f"({', '.join(self._names)}), and {len(args) + len(kwargs)} were given",
                location=self.traced.location,
                hint="Outputs are allocated by the call and not given to it.",
            )
        return tuple(held[n] for n in self._names)


def compile(
    function: PrimFunc,
    out_idx: Sequence[int] | int | None = None,
    *,
    extents: Mapping[str, int] | None = None,
    debug: bool = False,
    strict: bool = False,
    controls: Controls | Mapping[str, Any] | None = None,
    target: object = "",
    **options: Any,
) -> Kernel:
    """Compile a `@T.prim_func` and return the kernel, which is called with arrays.

    `out_idx` numbers the parameters that a call allocates and returns. `extents` fixes symbols at
    compile time, such as {"N": 4096}. `debug`, `strict`, `controls` and `target` mean the same as
    in `tileprof.jit`. UsageError if `function` is not a `prim_func`; KernelError, with its line,
    for a mistake in it.
    """
    made = options_of(strict, controls, target, options)
    if not isinstance(function, PrimFunc):
        raise UsageError(
            f"`tileprof.compile` of {function!r:.60}",
            location=here(),
            hint="It takes a `@T.prim_func`; a `@tileprof.jit` function has `.compile(…)`.",
        )
    held = (out_idx,) if isinstance(out_idx, int) else out_idx
    knowledge = Knowledge(dict(extents or {}))

    def retrace(given: Mapping[str, Given]) -> Traced:
        traced = trace_prim_func(function, given, held, knowledge)
        check_extents(extents or {}, knowledge, function)
        return traced

    names = tuple(function.signature.parameters)
    outs = _outputs(names, held)

    def plain(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
        from .debug import run_prim_func

        return run_prim_func(function, arguments, outs, extents or {})

    try:
        return Kernel(
            function.kernel_name,
            retrace,
            plain,
            names=tuple(n for n in names if n not in outs)
            if _is_complete(function, held)
            else None,
            debug=debug,
            options=made,
        )
    except Exception as error:
        hide_internals(error)
        raise


def _outputs(names: Sequence[str], out_idx: Sequence[int] | None) -> list[str]:
    """Return the parameters that a call allocates."""
    return [names[at] for at in out_idx or () if -len(names) <= at < len(names)]


def _is_complete(function: PrimFunc, out_idx: Sequence[int] | None) -> bool:
    """Return whether the signature can be used as it stands; a trace says what is wrong with it."""
    names = list(function.signature.parameters)
    outs = _outputs(names, out_idx)
    return (
        all(n in function.annotations for n in names)
        and len(outs) == len(out_idx or ())
        and all(isinstance(function.annotations[n], TensorType) for n in outs)
    )


def check_extents(extents: Mapping[str, int], knowledge: Knowledge, function: Kernelized) -> None:
    """UsageError for a name that is no extent of the kernel."""
    for name in extents:
        if name not in knowledge.named:
            known = ", ".join([*function.signature.parameters, *sorted(knowledge.named)])
            raise UsageError(
                f"`{function.__name__}` has no argument and no extent `{name}`",
                location=function.location,
                hint=f"It has: {known}.",
            )


def extent_of(name: str, value: Any, function: Kernelized) -> int:
    """Return the value of an extent that `compile` was given; UsageError where it is none."""
    number = as_number(value) if is_number(value) else None
    if not isinstance(number, int) or number < 0:
        raise UsageError(
            f"`{name}={value!r:.60}` of `{function.__name__}` is not a valid extent",
            location=function.location,
            hint="Extents are whole numbers, 0 or greater.",
        )
    return number


def options_of(
    strict: bool,
    controls: Controls | Mapping[str, Any] | None,
    target: object,
    others: Mapping[str, Any],
) -> Options:
    """Return the options that a decorator was given; UsageError for an option that neither tileprof
    nor TileLang has, or a control that does not exist.

    A target is what names one of ours, as `sm_90a` or TileLang's `cuda -arch=sm_90a`; `auto`,
    `cuda` and others say nothing.
    """
    for name in others:
        if name not in _ACCEPTED:
            raise UsageError(
                f"`tileprof.jit` has no option `{name}`",
                location=here(),
                hint="It has `out_idx`, `debug`, `strict`, `controls` and `target`, and accepts "
                f"TileLang's {', '.join(sorted(_ACCEPTED))}.",
            )
    named = next((t for t in TARGETS if re.search(rf"\b{t}\b", str(target))), "")
    try:
        asked = controls_of(controls)
        if _wants_fast_math(others.get("pass_configs")):
            asked = replace(asked, fast_math=True)
        return Options(controls=asked, strict=strict, target=named)
    except UsageError as error:
        raise UsageError(error.message, location=here(), hint=error.hint) from None


def _wants_fast_math(configs: object) -> bool:
    """Whether TileLang's configuration of passes allows fast exponentials."""
    if not isinstance(configs, Mapping):
        return False
    return any(str(k).lower().endswith("enable_fast_math") and bool(v) for k, v in configs.items())


def debugging() -> bool:
    """Return whether kernels that are called now run as plain Python, by `TILEPROF_DEBUG`."""
    return os.environ.get("TILEPROF_DEBUG", "") not in ("", "0")
