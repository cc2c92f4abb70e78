"""`tileprof.jit` and `tileprof.compile`: functions that are compiled when they are called.

Eager: `@tileprof.jit def f(A, B, block=64)` whose body annotates its tensors; a call with arrays
compiles (once for each combination of what the kernel depends on) and runs.  Lazy: a function that
returns a `@T.prim_func`; a call gives the kernel, which is then called with arrays.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

from tileprof import ir
from tileprof.compiler import Options
from tileprof.compiler.cuda.controls import Controls
from tileprof.errors import ArgumentError, UsageError
from tileprof.once import Kept
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec

from . import abstract
from .calls import Plan, Variant, given_of, place, spec_of
from .compiled import (
    MAX_PLANS,
    Kernel,
    check_extents,
    compile,
    debugging,
    extent_of,
    options_of,
)
from .display.kernels import function_text, in_notebook
from .dtypes import dtype, is_dtype
from .functions import Kernelized, PrimFunc, annotations_of
from .spans import here, hide_internals
from .specialize import trace_eager
from .static import is_number
from .tensors import TensorType
from .trace import Given, Knowledge, Traced
from .warm import WarmCallable, WarmCalls

__all__ = ["JitFunction", "Kernel", "compile", "jit"]


class JitFunction(WarmCallable, Kernelized):
    """A function under `@tileprof.jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        out_idx: Sequence[int] | int | None,
        names: Any,
        debug: bool,
        options: Options,
    ) -> None:
        super().__init__(function)
        self._debug = debug
        self.options = options
        """Options with which its kernels are compiled."""
        self.out_idx = (out_idx,) if isinstance(out_idx, int) else out_idx
        self._annotations = annotations_of(function, names)
        self._names = list(self.signature.parameters)
        self._defaults = tuple(p.default for p in self.signature.parameters.values())
        self._scalars = {n for n, a in self._annotations.items() if is_dtype(a)}
        self._lazy: bool | None = None
        self._plans: Kept[Any, Plan | None] = Kept()
        self._variants: Kept[Any, Variant] = Kept()
        self._kernels: Kept[Any, Kernel] = Kept()
        self._depends: tuple[str, ...] | None = None
        parameters = tuple(zip(self._names, self._defaults))
        scope = function.__globals__
        self._warm = WarmCalls(self, parameters, scope, lambda: self._depends or ())

    def __repr__(self) -> str:
        made = len(self._variants) + len(self._kernels)
        return function_text(self, f"({', '.join(self._names)})", made)

    def _repr_html_(self) -> str:
        """Return the same as a notebook shows it."""
        return in_notebook(repr(self))

    def under(self, controls: Controls) -> JitFunction:
        """Return this function with other lowering controls and without a target that kernels are
        lowered for at once."""
        options = replace(self.options, controls=controls, target="")
        return JitFunction(self.function, self.out_idx, self._annotations, self._debug, options)

    def annotation(self, name: str) -> Any:
        """Return the annotation of a parameter in the signature; None where it has none."""
        return self._annotations.get(name)

    # -- lazy: a factory of kernels

    @property
    def lazy(self) -> bool:
        """Whether the function returns a `prim_func`."""
        if self._lazy is None:
            self._lazy = _names_prim_func(self.function.__code__)
        return self._lazy

    def _factory(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        bound = self._bound(args, kwargs)
        key = (self._dependencies(), *(_frozen(v) for v in bound))
        return self._kernels.made(key, lambda: self._made(bound))

    def _made(self, bound: Sequence[Any]) -> Kernel:
        """Run the factory."""
        return self._compile_made(self.function(*bound))

    def _compile_made(self, made: Any, extents: Mapping[str, int] | None = None) -> Kernel:
        if isinstance(made, Kernel) and self.out_idx is None and not extents:
            # The factory compiled it itself, with options of its own.
            return made
        if not isinstance(made, PrimFunc):
            kind = "a compiled kernel" if isinstance(made, Kernel) else f"{made!r:.60}"
            raise UsageError(
                f"`{self.__name__}` returns {kind}",
                location=self.location,
                hint="It has to return the `@T.prim_func` that it defines.",
            )
        return compile(
            made,
            out_idx=self.out_idx,
            extents=extents,
            debug=self._debug,
            strict=self.options.strict,
            controls=self.options.controls,
            target=self.options.target,
        )

    # -- both

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Eager: run on these arrays.  Lazy: the kernel for these arguments."""
        try:
            given = args
            if abstract.state.calls is not None:
                return self._abstract(args, kwargs, abstract.state.calls)
            if self._lazy or self.lazy:
                return self._factory(args, kwargs)
            if kwargs or len(args) != len(self._names):
                args = self._bound(args, kwargs)
            if self._debug or debugging():
                made, error = self._run_plain(args)
                if error is not None:
                    raise error
                return self._factory(args, {}) if self._lazy else made
            specs, key = self._key(args)
            plan = self._plans.get(key)
            if plan is None:
                plan = self._new_plan(args, specs, key)
                if plan is None:
                    return self._factory(args, {})
            return plan.run(args, self._warm, tuple(args) if kwargs else given)
        except Exception as error:
            hide_internals(error)
            raise

    def _abstract(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], calls: abstract.Calls
    ) -> Any:
        """Return what stands for the results of a call, or the kernel that a factory makes."""
        bound = self._bound(args, kwargs)
        if not self.lazy:
            named = dict(zip(self._names, bound))
            return abstract.results_of(self, named, self._annotations, calls)
        return self._factory(tuple(calls.number(v) for v in bound), {})

    def _run_plain(self, args: Sequence[Any]) -> tuple[Any, BaseException | None]:
        """Run the function as plain Python; gives what it returns and the error that ended it."""
        from .debug import run_eager

        made, error = run_eager(self, self._annotations, dict(zip(self._names, args)), {})
        self._lazy = isinstance(made, PrimFunc)
        return made, error

    def _key(self, args: Sequence[Any]) -> tuple[list[TensorSpec | None], Any]:
        specs: list[TensorSpec | None] = []
        parts: list[Any] = []
        for name, value in zip(self._names, args):
            spec = None if is_number(value) else spec_of(value, name, self)
            specs.append(spec)
            if spec is not None:
                parts.append(id(spec))
            elif name not in self._scalars:
                parts.append(_frozen(value))
        where = place([s for s in specs if s is not None])
        return specs, (where, self._dependencies(), *parts)

    def _new_plan(
        self, args: Sequence[Any], specs: Sequence[TensorSpec | None], key: Any
    ) -> Plan | None:
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        return self._plans.made(key, lambda: self._plan(args, specs, key))

    def _plan(
        self, args: Sequence[Any], specs: Sequence[TensorSpec | None], key: Any
    ) -> Plan | None:
        """Plan a call for the first time; None where the function turns out to be a factory."""
        variant = self._variant(args, specs)
        if variant is None:
            self._lazy = True
            return None
        tensors = [s for s in specs if s is not None]
        scalars = _scalars_of(variant.traced.kernel)
        if not scalars <= self._scalars:
            # Known from now on: their values are not part of the key.
            self._scalars |= scalars
        _, known = self._key(args)

        def make() -> Plan:
            return Plan.make(variant, self._names, specs, place(tensors))

        return make() if known == key else self._plans.made(known, make)

    def planned(
        self,
        args: Sequence[Any],
        specs: Sequence[TensorSpec | None],
        where: tuple[str, hooks.Instrument],
    ) -> Plan:
        """Return the plan of a call on a device; of its arrays, which have specs, no more is
        known."""
        variant = None if self._lazy or self.lazy else self._variant(args, specs)
        if variant is None:
            raise UsageError(
                f"`{self.__name__}` makes kernels and is none itself",
                location=self.location,
                hint="Pass a `@tileprof.jit` function with its kernel in its body.",
            )
        return Plan.make(variant, self._names, specs, where)

    def _variant(self, args: Sequence[Any], specs: Sequence[TensorSpec | None]) -> Variant | None:
        """Return the variant for a call's arguments; UsageError for an array without a type."""
        values = dict(zip(self._names, args))
        tensors = {n: s for n, s in zip(self._names, specs) if s is not None}
        static = {n: v for n, v in values.items() if n not in tensors}
        variant = self._specialize(static, {n: given_of(s) for n, s in tensors.items()})
        if variant is None:
            return None
        for name in tensors:
            if name not in variant.traced.params:
                raise UsageError(
                    f"`{name}` is an array, and `{self.__name__}` does not say of which type",
                    location=self.location,
                    hint=f"Annotate it in the body: `{name}: T.Tensor((M, N), dtype)`.",
                )
        return variant

    def bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return a call's arguments by name, defaults included."""
        return dict(zip(self._names, self._bound(args, kwargs)))

    def _specialize(self, static: Mapping[str, Any], given: Mapping[str, Given]) -> Variant | None:
        """Return the variant for these arguments; one that differs in run-time extents only is
        shared.
        """
        values = {n: None if n in self._scalars else v for n, v in static.items()}
        traced = self._trace(values, given, Knowledge({}))
        if traced is None:
            return None
        # What the kernel became tells whether it is one that is already compiled.
        scalars = _scalars_of(traced.kernel)
        key = (
            self._dependencies(),
            tuple((n, _frozen(v)) for n, v in values.items() if n not in scalars),
            ir.print_kernel(traced.kernel),
        )
        return self._variants.made(key, lambda: Variant(traced, self.options))

    def _trace(
        self, values: Mapping[str, Any], given: Mapping[str, Given], knowledge: Knowledge
    ) -> Traced | None:
        traced = trace_eager(self, values, self._annotations, given, knowledge)
        return traced if isinstance(traced, Traced) else None

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """Return the kernel for given extents and arguments: `f.compile(M=1024, N=512,
        block_M=64)`. Tensors may be given as arrays or as `T.Tensor(shape, dtype)`; `T.const`
        names, and `T.dynamic` ones to fix them, as keywords.
        """
        try:
            return self._compile(args, kwargs)
        except Exception as error:
            hide_internals(error)
            raise

    def _compile(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        extents = {n: extent_of(n, v, self) for n, v in kwargs.items() if n not in self._names}
        if self.lazy:
            return self._compile_factory(args, kwargs, extents)
        values = {
            n: d for n, d in zip(self._names, self._defaults) if d is not inspect.Parameter.empty
        }
        values |= dict(zip(self._names, args))
        values |= {n: v for n, v in kwargs.items() if n in self._names}
        given = {}
        for name, value in list(values.items()):
            found = _given(value, name)
            if found is not None:
                given[name] = found
                del values[name]
        for name in self._names:
            if name not in values and name not in given:
                self._need_annotation(name)
                given[name] = Given()
        return self._compiled(values, given, extents)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """Return the source of the kernel for these arguments (see `compile`)."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def _compiled(
        self, values: Mapping[str, Any], given: Mapping[str, Given], extents: Mapping[str, int]
    ) -> Kernel:
        knowledge = Knowledge(dict(extents))

        def retrace(strides: Mapping[str, Given]) -> Traced:
            held = {n: strides.get(n, g) if g.shape is None else g for n, g in given.items()}
            traced = self._trace(values, held, knowledge)
            if traced is None:
                raise UsageError(
                    f"`{self.__name__}` returns a `prim_func`",
                    location=self.location,
                    hint="Define it inside of the function, so that this is known.",
                )
            check_extents(extents, knowledge, self)
            return traced

        def plain(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
            from .debug import run_eager

            return run_eager(self, self._annotations, {**values, **arguments}, extents)

        return Kernel(self.__name__, retrace, plain, debug=self._debug, options=self.options)

    def _compile_factory(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], extents: Mapping[str, int]
    ) -> Kernel:
        own = {n: v for n, v in kwargs.items() if n in self._names}
        if not extents:
            return self._factory(args, own)
        return self._compile_made(self.function(*self._bound(args, own)), extents)

    def _need_annotation(self, name: str) -> None:
        """A parameter without a value must be a tensor or a scalar of the launch."""
        annotated = name in self._annotations and (
            isinstance(self._annotations[name], TensorType) or is_dtype(self._annotations[name])
        )
        in_body = any(
            isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == name
            for n in ast.walk(self.source.tree)
        )
        if not annotated and not in_body:
            raise ArgumentError(
                f"`{self.__name__}` needs a value for `{name}`",
                location=self.location,
                hint=f"Pass it: `{self.__name__}.compile({name}=…)`.",
            )

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        rest = self._defaults[len(args) :]
        if not kwargs and len(args) <= len(self._names) and inspect.Parameter.empty not in rest:
            return (*args, *rest)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"`{self.__name__}`: {error}",
                location=self.location,
                hint=f"It is defined as `{self.__name__}{self._shown()}`.",
            ) from None
        bound.apply_defaults()
        return tuple(bound.arguments[n] for n in self._names)

    def _shown(self) -> str:
        return f"({', '.join(self._names)})"

    def _dependencies(self) -> tuple[Any, ...]:
        """Return the plain globals that the function reads: another value, another kernel."""
        scope = self.function.__globals__
        if self._depends is None:
            names = self.function.__code__.co_names
            self._depends = tuple(n for n in names if _plain(scope.get(n)))
        return tuple(scope.get(n) for n in self._depends)


def _names_prim_func(code: CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return "prim_func" in (*code.co_names, *code.co_freevars) or any(map(_names_prim_func, inner))


def _scalars_of(kernel: ir.Kernel) -> set[str]:
    return {p.name for p in kernel.params if not isinstance(p.type, ir.BufferType)}


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


_SIMPLE = frozenset({bool, int, float, str, dtype, type(None)})


def _frozen(value: Any) -> Any:
    """Return a compile-time value as part of a key; 1, 1.0 and True are different values."""
    if type(value) in _SIMPLE:
        return type(value), value
    match value:
        case list() | tuple():
            return type(value), tuple(_frozen(v) for v in value)
        case dict():
            return dict, tuple((k, _frozen(v)) for k, v in value.items())
        case set():
            return frozenset(value)
        case _ if type(value).__hash__ is None:
            raise ArgumentError(
                f"{value!r:.60} cannot be an argument that is known at compile time",
                location=here(),
                hint="It has no hash: pass numbers, strings, tuples, or a frozen dataclass.",
            )
        case _:
            return type(value), value


def _given(value: Any, name: str) -> Given | None:
    if isinstance(value, TensorType):
        if all(isinstance(d, int) for d in value.shape):
            return Given(value.shape)
        return Given()
    spec = None if is_number(value) else spec_of(value, name, called=False)
    return None if spec is None else given_of(spec)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    out_idx: Sequence[int] | int | None = None,
    debug: bool = False,
    strict: bool = False,
    controls: Controls | Mapping[str, Any] | None = None,
    target: object = "",
    **options: Any,
) -> Any:
    """Compile a function of tiles into kernels: a decorator, with or without arguments.

    The function is either a kernel whose body annotates its tensors, or it returns a
    `@T.prim_func`. A call compiles a kernel for the extents and types of its arguments (NumPy
    arrays, PyTorch tensors, anything with DLPack), keeps it for later calls, runs it on the device
    of the arguments, and returns the results.

    - `out_idx`: numbers of the `prim_func` parameters that each call allocates and returns.
    - `debug`: run the function itself as plain Python over NumPy arrays, so that `print`,
      `breakpoint()` and `pdb` work on its lines; `TILEPROF_DEBUG=1` does the same.
    - `strict`: raise KernelError, with all reasons, if an operation misses its fastest form.
    - `controls`: what the GPU compiler may do, as `tileprof.Controls(tma=False)` or a dict.
    - `target`: "sm_90a" or "sm_80": compile for that GPU, also on a machine without one; raise
      immediately if it cannot run the kernel. `remarks` and the source then describe that target.

        @tileprof.jit
        def double(X, block: int = 64):
            N = T.const("N")
            X: T.Tensor((N,), T.float32)
            Y = T.empty((N,), T.float32)
            with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
                for i in T.Parallel(block):
                    Y[bx * block + i] = X[bx * block + i] * 2
            return Y

        y = double(x)
    """
    made = options_of(strict, controls, target, options)
    names = dict(inspect.currentframe().f_back.f_locals)  # type: ignore[union-attr]

    def wrap(held: Callable[..., Any]) -> JitFunction:
        if not inspect.isfunction(held):
            raise UsageError(
                f"`tileprof.jit` of {held!r:.60}",
                location=here(),
                hint="Leave `@tileprof.jit` out, and compile what `@T.prim_func` gives: "
                "`kernel = tileprof.compile(main, out_idx=[-1])`."
                if isinstance(held, PrimFunc)
                else "It takes a function: put `@tileprof.jit` above its `def`.",
            )
        return JitFunction(held, out_idx, names, debug, made)

    return wrap if function is None else wrap(function)
