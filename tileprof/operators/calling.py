"""Calls of an operator: straight to its kernels, or through PyTorch's dispatcher.

A call has two ways.  The straight one checks in half a microsecond that nobody but autograd listens
and calls the function; the other one goes through PyTorch's dispatcher, for `torch.compile`, fake
tensors, functorch, modes and profilers.  What both do with gradients is registered by `operator`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

import torch

from tileprof.errors import ArgumentError, KernelError, UsageError
from tileprof.lang.abstract import watched
from tileprof.lang.jit_function import JitFunction
from tileprof.runtime import hooks
from tileprof.runtime.cuda.native_gate import gate

from .library import define, faked, without_elements
from .saving import Parameter
from .signature import location_of, result_names, schema_of

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_CHECKED_CALLS = 3
"""First calls of an operator in which its kernels are watched for writes that it did not declare.
Each kernel is then looked at once; later calls would find the same."""

_is_compiling = torch.compiler.is_dynamo_compiling
_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transforms = torch._C._are_functorch_transforms_active
_profiling = torch._C._autograd._profiler_enabled
_recording = torch.is_grad_enabled
_below_autograd = torch._C._AutoDispatchBelowADInplaceOrView
_Tensor, _Leaf = torch.Tensor, torch.nn.Parameter


@dataclass(frozen=True, slots=True)
class Rules:
    """An author's words about an operator beside its function; see `tileprof.op`."""

    backward: Callable[..., Any] | None = None
    gradients: tuple[str, ...] | None = None
    keeps: tuple[str, ...] = ()
    mutates: tuple[str, ...] = ()
    fake: Callable[..., Any] | None = None
    vmap: Callable[..., Any] | None = None


class CallableOperator(Generic[P, R]):
    """A function of kernels with the schema that PyTorch knows it by."""

    def __init__(self, function: Callable[P, R], name: str, rules: Rules) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        """Its full name, `namespace::name`."""
        self.function = function
        """The function itself."""
        self._function: Callable[..., Any] = function
        self.location = location_of(function)
        schema = schema_of(function, rules.mutates)
        origin = function.__module__, getattr(function, "__qualname__", function.__name__)
        self._definition = define(name, schema, origin, self.location)
        self.overload = self._definition.overload
        """The operator of PyTorch, `torch.ops.namespace.name.default`."""
        found = self.overload._schema
        self.parameters = tuple(
            Parameter(a.name, _is_tensor(a.type), a.has_default_value(), a.default_value)
            for a in found.arguments
        )
        """Its parameters, in order."""
        self.results = len(found.returns)
        """Number of results that the function has, kept ones included."""
        self._count = len(self.parameters)
        self._defaults = tuple(a.default_value for a in found.arguments)
        required = sum(not p.has_default for p in self.parameters)
        self._tails = {n: self._defaults[n:] for n in range(required, self._count)}
        """Defaults of the last parameters, by the number of arguments that are given."""
        self._tensors = tuple(at for at, p in enumerate(self.parameters) if p.is_tensor)
        self._mutated = tuple(at for at, p in enumerate(self.parameters) if p.name in rules.mutates)
        self._unchecked = _CHECKED_CALLS
        self._names = result_names(function)
        if not isinstance(function, JitFunction):
            self._function = self._without_views(function)
        self._kept = len(rules.keeps)
        self._check_kept(rules.keeps)
        self.backward: CallableOperator[..., Any] | None = None
        """The operator of its gradients."""
        self._differentiable: frozenset[int] = frozenset()
        self._apply: Callable[..., Any] = self._refuse_gradient
        self._straight: Callable[..., Any] = self.run
        self._gate: Callable[[tuple[Any, ...]], bool | None] = _no_gate
        self._transformed: Callable[..., Any] | None = None
        self._linear = 0
        self._fake = faked(self.function) if rules.fake is None else rules.fake

    # -- calls

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it like the function."""
        if _is_compiling():
            return self._dispatched(args, kwargs)
        given: Any = args
        if kwargs or len(given) != self._count:
            tail = None if kwargs else self._tails.get(len(given))
            given = self._bound(args, kwargs) if tail is None else args + tail
        differentiable = self._gate(given)
        if differentiable is None and (differentiable := self._look_at(given)) is None:
            return self._listened(given)
        if differentiable:
            applied: R = self._apply(*given)
            return applied
        try:
            made = self._straight(*given)
        except KernelError:
            made = self._empty_or_raise(given)
        found: R = self._visible(made) if self._kept else made
        return found

    def _look_at(self, given: tuple[Any, ...]) -> bool | None:
        """Return whether gradients are recorded; None where others than autograd hear of a call."""
        if self._gate is _no_gate and not self._unchecked:
            self._gate = gate(self._tensors, self._count) or _no_gate
        differentiable, recording = False, _recording()
        for at in self._tensors:
            value = given[at]
            kind = type(value)
            if kind is _Tensor or kind is _Leaf:
                if recording and value.requires_grad:
                    differentiable = True
            elif value is not None:
                return None
        if (
            _modes()
            or _transforms()
            or _function_modes()
            or _profiling()
            or hooks.listener is not None
        ):
            return None
        return differentiable

    def _listened(self, given: tuple[Any, ...]) -> R:
        """Make a call of which somebody hears."""
        if self._transformed is None or not _transforms() or _modes():
            return self._dispatched(given, {})
        made: R = self._transformed(*given)
        return self._visible(made) if self._kept else made

    def _dispatched(self, args: Any, kwargs: Any) -> R:
        made: R = self.overload(*args, **kwargs)
        return self._visible(made) if self._kept else made

    def _visible(self, made: Any) -> R:
        """Return the results that the caller gets."""
        count = self.results - self._kept
        found: R = made[0] if count == 1 else made[:count]
        return found

    def run(self, *args: Any) -> Any:
        """Run the function on tensors with data; gradients are somebody else's."""
        if self._linear and without_elements(args[: self._linear]):
            return self._filled(args, zeros=True)
        try:
            made = self._watched(args) if self._unchecked else self._function(*args)
        except KernelError:
            made = self._empty_or_raise(args)
        for at in self._mutated:
            if not args[at].is_inference():
                torch.autograd.graph.increment_version(args[at])
        return made

    def _bound(self, args: Sequence[Any], kwargs: Any) -> tuple[Any, ...]:
        """Return one argument for each parameter."""
        count = len(args)
        if count <= self._count:
            held = [*args, *self._defaults[count:]]
            missing = {p.name for p in self.parameters[count:] if not p.has_default}
            names = {p.name: at for at, p in enumerate(self.parameters) if at >= count}
            if kwargs.keys() <= names.keys() and missing <= kwargs.keys():
                for name, value in kwargs.items():
                    held[names[name]] = value
                return tuple(held)
        given = [*(f"{a!r:.20}" for a in args), *(f"{n}=…" for n in kwargs)]
        raise ArgumentError(
            f"`{self.name}` cannot be called with ({', '.join(given)})",
            location=self.location,
            hint=f"It is defined as `{self.overload._schema}`.",
        )

    def _without_views(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of PyTorch's and kernels' calls whose results are no views.

        PyTorch would refuse to change views in place: it takes their gradients for those of the
        tensor that they are taken from.  Below autograd a view is a tensor like any other.
        """

        def below(*args: Any) -> Any:
            with _below_autograd():
                return function(*args)

        def as_new(made: Any) -> Any:
            # Later calls make views too, most likely: to look takes less time than to go below.
            if self._straight is self._function:
                self._straight = below
            self._function = below
            with _below_autograd():
                return tuple(r.view_as(r) for r in made) if many else made.view_as(made)

        def look_at_one(*args: Any) -> Any:
            made = function(*args)
            return as_new(made) if made._is_view() else made

        def look_at_many(*args: Any) -> Any:
            made = function(*args)
            for each in made:
                if each._is_view():
                    return as_new(made)
            return made

        many = self.results > 1
        return look_at_many if many else look_at_one if self.results else function

    # -- what a call may not do

    def _watched(self, args: tuple[Any, ...]) -> Any:
        """Run the function; ArgumentError where a kernel writes an undeclared argument."""

        def check(kernel: str, written: Sequence[Any]) -> None:
            for at in self._tensors:
                if at not in self._mutated and any(args[at] is w for w in written):
                    name = self.parameters[at].name
                    raise ArgumentError(
                        f"`{kernel}` writes `{name}`, which `{self.name}` does not declare",
                        location=self.location,
                        hint=f'Declare it: `@tileprof.op(…, mutates=("{name}",))`; PyTorch would '
                        "else reorder its uses.",
                    )

        with watched(check):
            made = self._function(*args)
        self._unchecked -= 1
        if not self._unchecked and not self._mutated and not self._linear:
            self._straight = self._function
        return made

    def _refuse_gradient(self, *args: Any) -> NoReturn:
        wanting = [p.name for p, a in zip(self.parameters, args) if p.is_tensor and requires(a)]
        name = next((n for n in wanting if n not in self._given_gradients()), wanting[0])
        why = "has no backward" if self.backward is None else f"gives `{name}` no gradient"
        raise ArgumentError(
            f"argument `{name}` requires gradients, and `{self.name}` {why}",
            location=self.location,
            hint=f"Name the function of its gradients: `@tileprof.op(backward=…)`; or pass "
            f"`{name}.detach()`, or call under `torch.no_grad()`.",
        )

    def _given_gradients(self) -> set[str]:
        return {self.parameters[at].name for at in self._differentiable}

    def _empty_or_raise(self, args: tuple[Any, ...]) -> Any:
        """Return results without elements where no kernel can be compiled for empty arguments; else
        raise the error that is being handled."""
        tensors = [args[at] for at in self._tensors if args[at] is not None]
        if self.results and not all(t.numel() for t in tensors):
            made = self._filled(args)
            if without_elements(made):
                return made
        raise

    def _filled(self, args: tuple[Any, ...], *, zeros: bool = False) -> Any:
        """Return results of the right shapes that no kernel has written."""
        made = self._fake(*args)
        if not zeros:
            return made
        if isinstance(made, torch.Tensor):
            return made.zero_()
        return tuple(each.zero_() for each in made)

    def _check_kept(self, keeps: tuple[str, ...]) -> None:
        if keeps and (len(keeps) >= self.results or self._names[-len(keeps) :] != keeps):
            raise UsageError(
                f"`keeps` of `{self.name}` names {', '.join(keeps)}, and its results are "
                f"{', '.join(self._names)}",
                location=self.location,
                hint="Name the last results by their names in the `return`; the caller gets at "
                "least the first.",
            )


def _no_gate(args: tuple[Any, ...]) -> None:
    """Ask nothing: calls are looked at in Python while no kernel is launched natively."""


def _is_tensor(kind: Any) -> bool:
    if isinstance(kind, torch.OptionalType):
        return _is_tensor(kind.getElementType())
    return isinstance(kind, torch.TensorType)


def requires(value: Any) -> bool:
    """Return whether a value is a tensor that requires gradients."""
    return isinstance(value, torch.Tensor) and value.requires_grad
