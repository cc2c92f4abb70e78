"""An operator: a function of kernels that PyTorch knows.

A call has two ways.  The straight one checks in half a microsecond that nobody but autograd listens
and calls the function; the other one goes through PyTorch's dispatcher, for `torch.compile`, fake
tensors, functorch, modes and profilers.  Both have the same gradients.
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

from .library import define, faked, without_elements
from .saving import Parameter, Saved
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


class Operator(Generic[P, R]):
    """A function under `@tileprof.op`."""

    def __init__(
        self, function: Callable[P, R], name: str, rules: Rules, gradients_of: str = ""
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        """Its full name, `namespace::name`."""
        self.function = function
        """The function itself."""
        # The method by itself: a call of the object would look for it.
        self._function: Callable[..., Any] = getattr(function, "__call__")  # noqa: B004, B009
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
        self.backward: Operator[..., Any] | None = None
        """The operator of its gradients."""
        self._differentiable: frozenset[int] = frozenset()
        self._apply: Callable[..., Any] = self._refuse_gradient
        self._straight: Callable[..., Any] = self.run
        self._transformed: Callable[..., Any] | None = None
        self._linear = 0
        self._fake = faked(self.function) if rules.fake is None else rules.fake
        self._register(rules)
        if gradients_of:
            self._refuse_second_derivatives(gradients_of)

    # -- calls

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it like the function."""
        if _is_compiling():
            return self._dispatched(args, kwargs)
        given: Any = args
        if kwargs or len(given) != self._count:
            tail = None if kwargs else self._tails.get(len(given))
            given = self._bound(args, kwargs) if tail is None else args + tail
        differentiable, recording = False, _recording()
        for at in self._tensors:
            value = given[at]
            kind = type(value)
            if kind is _Tensor or kind is _Leaf:
                if recording and value.requires_grad:
                    differentiable = True
            elif value is not None:
                return self._dispatched(given, {})
        if (
            _modes()
            or _transforms()
            or _function_modes()
            or _profiling()
            or hooks.listener is not None
        ):
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
        wanting = [p.name for p, a in zip(self.parameters, args) if p.is_tensor and _requires(a)]
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

    # -- registration

    def _check_kept(self, keeps: tuple[str, ...]) -> None:
        if keeps and (len(keeps) >= self.results or self._names[-len(keeps) :] != keeps):
            raise UsageError(
                f"`keeps` of `{self.name}` names {', '.join(keeps)}, and its results are "
                f"{', '.join(self._names)}",
                location=self.location,
                hint="Name the last results by their names in the `return`; the caller gets at "
                "least the first.",
            )

    def _register(self, rules: Rules) -> None:
        library, name = self._definition.library, self.name
        library.impl(name.partition("::")[2], self.run, "CompositeExplicitAutograd")
        torch.library.register_fake(name, self._fake, lib=library)
        if rules.backward is None:
            self._register_refusal()
        else:
            self._register_backward(rules.backward, rules)
        if rules.vmap is not None:
            torch.library.register_vmap(name, self._whole_rule(rules.vmap), lib=library)

    def _whole_rule(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Return the author's rule for `vmap` with defaults, which PyTorch leaves out."""

        def whole(info: Any, dims: Any, *args: Any) -> Any:
            rest = self._defaults[len(args) :]
            return rule(info, (*dims, *(None for _ in rest)), *args, *rest)

        return whole

    def _register_refusal(self) -> None:
        overload = self.overload

        def refuse(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if _recording() and any(map(_requires, (*args, *kwargs.values()))):
                self._refuse_gradient(*args)
            with torch._C._AutoDispatchBelowAutograd():
                return overload.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)

        short = self.name.partition("::")[2]
        self._definition.library.impl(short, refuse, "Autograd", with_keyset=True)

    def _refuse_second_derivatives(self, name: str) -> None:
        """Refuse them where one is computed: gradients alone may be recorded, as functorch does."""

        def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
            pass

        def backward(ctx: Any, *_: Any) -> NoReturn:
            raise ArgumentError(
                f"`{name}` has no second derivatives, because its backward is not an operator with "
                f"one",
                location=self.location,
                hint="Pass an operator: `@tileprof.op(backward=gradients)` of `gradients = "
                "tileprof.op(backward=…)(…)`.",
            )

        self._apply = self._transformed = _function(
            f"{self.__name__}_once",  # type: ignore[attr-defined]
            self.overload,
            keep,
            backward,
        ).apply

    def _register_backward(self, backward: Callable[..., Any], rules: Rules) -> None:
        if not isinstance(backward, Operator):
            backward = Operator(backward, f"{self.name}_backward", Rules(), self.name)
        elif backward.backward is not None and rules.keeps:
            raise UsageError(
                f"the backward of `{self.name}` has a backward, and `{rules.keeps[0]}` is kept",
                location=self.location,
                hint="Second derivatives would miss what it depends on: compute it in backward.",
            )
        self.backward = backward
        places = {p.name: at for at, p in enumerate(self.parameters)}
        names = self._names_of_tensors() if rules.gradients is None else rules.gradients
        for each in names:
            if each not in places or not self.parameters[places[each]].is_tensor:
                raise UsageError(
                    f"`gradients` names `{each}`, which is not a tensor that `{self.name}` takes",
                    location=self.location,
                    hint=f"It takes: {', '.join(self._names_of_tensors())}.",
                )
            if places[each] in self._mutated:
                raise UsageError(
                    f"`{self.name}` writes `{each}` and has gradients for it",
                    location=self.location,
                    hint="Return a new tensor, or leave it out of `gradients`.",
                )
        if backward.results != len(names):
            raise UsageError(
                f"the backward of `{self.name}` returns {backward.results} gradients, and "
                f"{len(names)} are expected: {', '.join(names)}",
                location=self.location,
                hint="Name the arguments that they belong to, `@tileprof.op(…, gradients=…)`: "
                f"{', '.join(self._names_of_tensors())}.",
            )
        targets = tuple(places[n] for n in names)
        self._differentiable = frozenset(targets)
        visible = self.results - self._kept
        saved = Saved.plan(
            self.parameters, self._names, backward.parameters, visible, self.name, self.location
        )
        # Gradients without elements give zeros: kernels of no blocks would write none.
        backward._linear = saved.gradients
        rule = None if rules.vmap is None else self._whole_rule(rules.vmap)
        self._connect(saved, targets, rule)

    def _names_of_tensors(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters if p.is_tensor)

    def _connect(
        self, saved: Saved, targets: tuple[int, ...], vmap: Callable[..., Any] | None
    ) -> None:
        """Make all ways differentiable."""
        count, refused = len(self.parameters), set(self._tensors) - self._differentiable
        others = tuple(sorted(refused))
        gradient = self.backward
        assert gradient is not None

        def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
            for at in others:
                if _requires(inputs[at]):
                    self._refuse_gradient(*inputs)
            results = output if isinstance(output, tuple) else (output,)
            saved.save(ctx, inputs, results)
            if saved.gradients < len(results):
                ctx.mark_non_differentiable(*results[saved.gradients :])

        # The first arguments are those that most often have gradients, and then all is in order.
        in_order, rest = targets == tuple(range(len(targets))), (None,) * (count - len(targets))
        one, arguments = len(targets) == 1, saved.giver()

        def backward(ctx: Any, *found: Any) -> Any:
            gradients = gradient(*arguments(ctx, found))
            if in_order:
                return (gradients, *rest) if one else (*gradients, *rest)
            made: list[Any] = [None] * count
            for at, each in zip(targets, (gradients,) if one else gradients):
                made[at] = each
            return tuple(made)

        torch.library.register_autograd(
            self.name, backward, setup_context=keep, lib=self._definition.library
        )

        node = self._straight_node(saved, others, backward)
        self._transformed = _function(
            f"{self.__name__}_transformed",  # type: ignore[attr-defined]
            self.overload,
            keep,
            backward,
            vmap,
        ).apply
        # The function in C++: the method of Python around it asks for functorch's transforms, which
        # a straight call has done.
        self._apply = torch._C._FunctionBase.__dict__["apply"].__get__(None, node)

    def _straight_node(
        self, saved: Saved, others: tuple[int, ...], backward: Callable[..., Any]
    ) -> type:
        """Return the autograd function of straight calls, whose results are those of the caller."""
        take, values = saved.getters(self._count)
        has_values, of_results = bool(saved.values), min(saved.tensors, default=0) < 0
        visible, one = self.results - self._kept, self.results == 1
        constants = slice(saved.gradients, visible)

        def forward(ctx: Any, *args: Any) -> Any:
            for at in others:
                if _requires(args[at]):
                    self._refuse_gradient(*args)
            try:
                made = self._straight(*args)
            except KernelError:
                made = self._empty_or_raise(args)
            if not of_results:
                ctx.save_for_backward(*take(args))
            elif one:
                ctx.save_for_backward(*take((*args, made)))
            else:
                ctx.save_for_backward(*take((*args, *made)))
            if has_values:
                ctx.kept_values = values(args)
            if one:
                return made
            if constants.start < visible:
                ctx.mark_non_differentiable(*made[constants])
            return made[0] if visible == 1 else made[:visible]

        return type(
            f"{self.__name__}_gradients",  # type: ignore[attr-defined]
            (torch.autograd.Function,),
            {"forward": staticmethod(forward), "backward": staticmethod(backward)},
        )


def _function(
    name: str,
    forward: Callable[..., Any],
    keep: Callable[..., None] | None,
    backward: Callable[..., Any],
    vmap: Callable[..., Any] | None = None,
) -> Any:
    """Return a function of autograd that functorch's transforms can take apart."""
    parts = {"forward": forward, "backward": backward}
    if keep is not None:
        parts["setup_context"] = keep
    if vmap is not None:
        parts["vmap"] = vmap
    return type(name, (torch.autograd.Function,), {n: staticmethod(f) for n, f in parts.items()})


def _is_tensor(kind: Any) -> bool:
    if isinstance(kind, torch.OptionalType):
        return _is_tensor(kind.getElementType())
    return isinstance(kind, torch.TensorType)


def _requires(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
