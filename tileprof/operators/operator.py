"""An operator: a function of kernels that PyTorch knows, with its gradients.

In: a function and its author's rules.  Out: an `Operator`, registered for fake tensors, autograd
and `vmap`.  Both ways of a call (`calling`) have the same gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from tileprof.errors import ArgumentError, KernelError, UsageError

from .calling import CallableOperator, P, R, Rules, requires
from .saving import Saved

_recording = torch.is_grad_enabled


class Operator(CallableOperator[P, R]):
    """A function under `@tileprof.op`."""

    def __init__(
        self, function: Callable[P, R], name: str, rules: Rules, gradients_of: str = ""
    ) -> None:
        super().__init__(function, name, rules)
        self._register(rules)
        if gradients_of:
            self._refuse_second_derivatives(gradients_of)

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
            if _recording() and any(map(requires, (*args, *kwargs.values()))):
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
                if requires(inputs[at]):
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
                if requires(args[at]):
                    self._refuse_gradient(*args)
            try:
                made = self._straight(*args)
            except KernelError:
                made = self._empty_or_raise(args)
            # All that `save_for_backward` does, without a call of Python.
            if not of_results:
                ctx.to_save = take(args)
            elif one:
                ctx.to_save = take((*args, made))
            else:
                ctx.to_save = take((*args, *made))
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
            {**_INHERITED, "forward": staticmethod(forward), "backward": staticmethod(backward)},
        )


_ASKED = ("setup_context", "clear_saved_tensors_on_access", "boxed_grads_call")
_INHERITED = {
    name: found
    for name in _ASKED
    if (found := inspect.getattr_static(torch.autograd.Function, name, None)) is not None
}
"""What PyTorch asks of a class in each call, by names that Python's cache of attributes does not
know: found in the class itself, they need no search through all of its bases."""


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
