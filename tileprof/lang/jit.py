"""`tileprof.jit` and `tileprof.compile`: functions that are compiled when they are called.

Eager: `@tileprof.jit def f(A, B, block=64)` whose body annotates its tensors; a call with arrays
compiles (once for each combination of what the kernel depends on) and runs.  Lazy: a function that
returns a `@T.prim_func`; a call gives the kernel, which is then called with arrays.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tileprof import ir
from tileprof.compiler import Program
from tileprof.compiler.remarks import Remark
from tileprof.errors import ArgumentError, Location, UsageError
from tileprof.runtime.arguments import TensorSpec

from .calls import Plan, Variant, given_of, place, spec_of
from .dtypes import dtype, is_dtype
from .functions import Kernelized, PrimFunc, annotations_of
from .spans import here
from .specialize import trace_eager, trace_prim_func
from .static import is_number
from .tensors import TensorType
from .trace import Given, Knowledge, Traced

__all__ = ["JitFunction", "Kernel", "compile", "jit"]

_MAX_PLANS = 4096
_ACCEPTED = frozenset(
    {"target", "target_host", "execution_backend", "pass_configs", "compile_flags", "verbose",
     "debug_root_path", "mode", "workspace_idx"}
)  # fmt: skip
"""Keywords of TileLang's decorators that say nothing to this compiler."""


class Kernel:
    """A compiled kernel: call it with arrays and scalars, in the order of its signature."""

    def __init__(
        self,
        name: str,
        retrace: Callable[[Mapping[str, Given]], Traced],
        plain: Callable[[Mapping[str, Any]], tuple[Any, BaseException | None]],
        *,
        names: tuple[str, ...] | None = None,
        debug: bool = False,
    ) -> None:
        self.__name__ = name
        self._retrace = retrace
        self._plain = plain
        """Runs the function as plain Python on arguments by name; gives its outputs, and the error
        that ended it."""
        self._debug = debug
        self._variants: dict[frozenset[str], Variant] = {}
        self._plans: dict[Any, Plan] = {}
        # Mistakes are told now; but a kernel that runs as plain Python is not traced before.
        if names is None or not (debug or debugging()):
            names = self._variant.traced.params
        self._names = names

    @functools.cached_property
    def _variant(self) -> Variant:
        """The variant for contiguous arguments."""
        return Variant(self._retrace({}))

    @property
    def traced(self) -> ir.Kernel:
        """The program as the frontend wrote it."""
        return self._variant.traced.kernel

    @property
    def location(self) -> Location | None:
        """Where the function stands."""
        return self.traced.location

    ir = traced

    @property
    def program(self) -> Program:
        """The program after all passes."""
        return self._variant.program()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the compiler decided, and why."""
        return self.program.remarks

    def get_kernel_source(self) -> str:
        """The source that is given to the system compiler."""
        return self.program.cpp.text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; gives the outputs, one or a tuple of them, or None."""
        if kwargs or len(args) != len(self._names):
            args = self._bind(args, kwargs)
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
            plan = Plan.make(self._variant_for(specs), self._names, specs, where)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan.run(args)

    def _variant_for(self, specs: Sequence[TensorSpec | None]) -> Variant:
        """The variant for these arguments: those that are not contiguous have strides."""
        held = zip(self._names, specs)
        strided = frozenset(n for n, s in held if s is not None and s.strides is not None)
        if not strided:
            return self._variant
        if strided not in self._variants:
            given = {n: Given(contiguous=n not in strided) for n in self._names}
            self._variants[strided] = Variant(self._retrace(given))
        return self._variants[strided]

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


class JitFunction(Kernelized):
    """A function under `@tileprof.jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        out_idx: Sequence[int] | int | None,
        names: Any,
        debug: bool,
    ) -> None:
        super().__init__(function)
        self._debug = debug
        self.out_idx = (out_idx,) if isinstance(out_idx, int) else out_idx
        self._annotations = annotations_of(function, names)
        self._names = list(self.signature.parameters)
        self._defaults = tuple(p.default for p in self.signature.parameters.values())
        self._scalars = {n for n, a in self._annotations.items() if is_dtype(a)}
        self._lazy: bool | None = None
        self._plans: dict[Any, Plan] = {}
        self._variants: dict[Any, Variant] = {}
        self._kernels: dict[Any, Kernel] = {}
        self._depends: tuple[str, ...] | None = None

    # -- lazy: a factory of kernels

    @property
    def lazy(self) -> bool:
        """Whether the function returns a `prim_func`."""
        if self._lazy is None:
            self._lazy = any(
                isinstance(n, ast.FunctionDef) and any(_is_prim_func(d) for d in n.decorator_list)
                for n in ast.walk(self.source.tree)
            )
        return self._lazy

    def _factory(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        bound = self._bound(args, kwargs)
        key = (self._dependencies(), *(_frozen(v) for v in bound))
        if key not in self._kernels:
            made = self.function(*bound)
            if not isinstance(made, PrimFunc):
                raise UsageError(
                    f"`{self.__name__}` returns {made!r:.60}",
                    location=self.location,
                    hint="It has to return the `@T.prim_func` that it defines.",
                )
            self._kernels[key] = compile(made, out_idx=self.out_idx, debug=self._debug)
        return self._kernels[key]

    # -- both

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Eager: run on these arrays.  Lazy: the kernel for these arguments."""
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
            plan = self._plan(args, specs, key)
            if plan is None:
                return self._factory(args, {})
        return plan.run(args)

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

    def _plan(
        self, args: Sequence[Any], specs: Sequence[TensorSpec | None], key: Any
    ) -> Plan | None:
        """Plan a call for the first time; None where the function turns out to be a factory."""
        values = dict(zip(self._names, args))
        tensors = {n: s for n, s in zip(self._names, specs) if s is not None}
        static = {n: v for n, v in values.items() if n not in tensors}
        variant = self._specialize(static, {n: given_of(s) for n, s in tensors.items()})
        if variant is None:
            self._lazy = True
            return None
        kernel = variant.traced.kernel
        for name in tensors:
            if name not in variant.traced.params:
                raise UsageError(
                    f"`{name}` is an array, and `{self.__name__}` does not say of which type",
                    location=self.location,
                    hint=f"Annotate it in the body: `{name}: T.Tensor((M, N), dtype)`.",
                )
        scalars = _scalars_of(kernel)
        if not scalars <= self._scalars:
            # Known from now on: their values are not part of the key.
            self._scalars |= scalars
            _, key = self._key(args)
        plan = Plan.make(variant, self._names, specs, place(list(tensors.values())))
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _specialize(self, static: Mapping[str, Any], given: Mapping[str, Given]) -> Variant | None:
        """The variant for these arguments; one that differs in run-time extents only is shared."""
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
        return self._variants.setdefault(key, Variant(traced))

    def _trace(
        self, values: Mapping[str, Any], given: Mapping[str, Given], knowledge: Knowledge
    ) -> Traced | None:
        traced = trace_eager(self, values, self._annotations, given, knowledge)
        return traced if isinstance(traced, Traced) else None

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel for given extents and arguments: `f.compile(M=1024, N=512, block_M=64)`.

        Tensors may be given as arrays or as `T.Tensor(shape, dtype)`; `T.const` names, and
        `T.dynamic` ones to fix them, as keywords.
        """
        extents = {n: v for n, v in kwargs.items() if n not in self._names}
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
            _all_named(extents, knowledge, self)
            return traced

        def plain(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
            from .debug import run_eager

            return run_eager(self, self._annotations, {**values, **arguments}, extents)

        return Kernel(self.__name__, retrace, plain, debug=self._debug)

    def _compile_factory(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], extents: Mapping[str, int]
    ) -> Kernel:
        own = {n: v for n, v in kwargs.items() if n in self._names}
        if not extents:
            return self._factory(args, own)
        return compile(
            self.function(*self._bound(args, own)),
            out_idx=self.out_idx,
            extents=extents,
            debug=self._debug,
        )

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
        if not kwargs and inspect.Parameter.empty not in rest:
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
        """The plain globals that the function reads: another value, another kernel."""
        scope = self.function.__globals__
        if self._depends is None:
            names = self.function.__code__.co_names
            self._depends = tuple(n for n in names if _plain(scope.get(n)))
        return tuple(scope.get(n) for n in self._depends)


def debugging() -> bool:
    """Whether kernels that are called now run as plain Python, by `TILEPROF_DEBUG`."""
    return os.environ.get("TILEPROF_DEBUG", "") not in ("", "0")


def _scalars_of(kernel: ir.Kernel) -> set[str]:
    return {p.name for p in kernel.params if not isinstance(p.type, ir.BufferType)}


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


_SIMPLE = frozenset({bool, int, float, str, dtype, type(None)})


def _frozen(value: Any) -> Any:
    """A compile-time value as part of a key; 1, 1.0 and True are different values."""
    if type(value) in _SIMPLE:
        return type(value), value
    match value:
        case list() | tuple():
            return type(value), tuple(_frozen(v) for v in value)
        case dict():
            return dict, tuple((k, _frozen(v)) for k, v in value.items())
        case set():
            return frozenset(value)
        case _:
            return type(value), value


def _given(value: Any, name: str) -> Given | None:
    if isinstance(value, TensorType):
        if all(isinstance(d, int) for d in value.shape):
            return Given(value.shape)
        return Given()
    spec = None if is_number(value) else spec_of(value, name)
    return None if spec is None else given_of(spec)


def _is_prim_func(decorator: ast.expr) -> bool:
    held = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(held, "attr", getattr(held, "id", "")) == "prim_func"


def _all_named(extents: Mapping[str, int], knowledge: Knowledge, function: Kernelized) -> None:
    for name in extents:
        if name not in knowledge.named:
            known = ", ".join([*function.signature.parameters, *sorted(knowledge.named)])
            raise UsageError(
                f"`{function.__name__}` has no argument and no extent `{name}`",
                location=function.location,
                hint=f"It has: {known}.",
            )


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in _ACCEPTED:
            raise UsageError(
                f"`tileprof.jit` has no option `{name}`",
                location=here(),
                hint=f"It has `out_idx`, and accepts TileLang's {', '.join(sorted(_ACCEPTED))}.",
            )


def jit(
    function: Callable[..., Any] | None = None,
    *,
    out_idx: Sequence[int] | int | None = None,
    debug: bool = False,
    **options: Any,
) -> Any:
    """Compile a function of tiles when it is called; as `@tileprof.jit` or with `out_idx=[-1]`, the
    parameters of a `prim_func` that each call allocates and returns.

    With `debug`, or under `TILEPROF_DEBUG=1`, a call runs the function itself as plain Python over
    NumPy arrays: `print`, `breakpoint()` and `pdb` work on its lines.
    """
    _check_options(options)
    names = dict(inspect.currentframe().f_back.f_locals)  # type: ignore[union-attr]

    def wrap(held: Callable[..., Any]) -> JitFunction:
        if not inspect.isfunction(held):
            raise UsageError(
                f"`tileprof.jit` of {held!r:.60}",
                location=here(),
                hint="It takes a function: put `@tileprof.jit` above its `def`.",
            )
        return JitFunction(held, out_idx, names, debug)

    return wrap if function is None else wrap(function)


def compile(
    function: PrimFunc,
    out_idx: Sequence[int] | int | None = None,
    *,
    extents: Mapping[str, int] | None = None,
    debug: bool = False,
    **options: Any,
) -> Kernel:
    """The kernel of a `@T.prim_func`; `extents` fixes symbols at compile time.  With `debug` it
    runs as plain Python (see `jit`)."""
    _check_options(options)
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
        _all_named(extents or {}, knowledge, function)
        return traced

    names = tuple(function.signature.parameters)
    outs = _outputs(names, held)

    def plain(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
        from .debug import run_prim_func

        return run_prim_func(function, arguments, outs, extents or {})

    return Kernel(
        function.__name__,
        retrace,
        plain,
        names=tuple(n for n in names if n not in outs) if _is_complete(function, held) else None,
        debug=debug,
    )


def _outputs(names: Sequence[str], out_idx: Sequence[int] | None) -> list[str]:
    """The parameters that a call allocates."""
    return [names[at] for at in out_idx or () if -len(names) <= at < len(names)]


def _is_complete(function: PrimFunc, out_idx: Sequence[int] | None) -> bool:
    """Whether the signature can be used as it stands; a trace says what is wrong with it."""
    names = list(function.signature.parameters)
    outs = _outputs(names, out_idx)
    return (
        all(n in function.annotations for n in names)
        and len(outs) == len(out_idx or ())
        and all(isinstance(function.annotations[n], TensorType) for n in outs)
    )
