"""A kernel as a function of JAX arrays: what JAX traces, differentiates and batches.

Numbers among the arguments are constants of the traced program.  For each set of them there is one
function of arrays alone, with the kernel's rules: its derivative is a `jax.custom_vjp`, its rule
for batches a `jax.custom_batching.custom_vmap`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tileprof import ir
from tileprof.errors import ArgumentError, DTypeError, Location, UsageError
from tileprof.lang.abstract import AbstractTensor, abstract
from tileprof.lang.jit_function import JitFunction
from tileprof.lang.rewrite.shaping import annotated_tensors, returned_names
from tileprof.lang.tensors import TensorType
from tileprof.once import Kept
from tileprof.operators.saving import Parameter, Saved
from tileprof.runtime.device import written_params

from .handler import ATTRIBUTE, TARGET, Array, Call, known, register

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """An author's words about a kernel; see `tileprof.jax_call`."""

    backward: Callable[..., Any] | None = None
    gradients: tuple[str, ...] | None = None
    keeps: tuple[str, ...] = ()
    vmap: Any = None


class JaxFunction(Generic[P, R]):
    """A kernel under `tileprof.jax_call`."""

    def __init__(self, kernel: Callable[P, R], rules: Rules) -> None:
        if not isinstance(kernel, JitFunction):
            raise UsageError(
                f"`{getattr(kernel, '__name__', kernel)}` is no `@tileprof.jit` function",
                hint="A function that calls several kernels is plain Python for JAX: call "
                "`tileprof.jax_call(kernel)` in it for each.",
            )
        if rules.vmap is not None and rules.vmap != "sequential" and not callable(rules.vmap):
            raise UsageError(
                f"`vmap` of `{kernel.__name__}` is {rules.vmap!r:.60}",
                location=kernel.location,
                hint='Pass "sequential", or a rule `(axis_size, in_batched, *arrays)`.',
            )
        if kernel.lazy:
            raise UsageError(
                f"`{kernel.__name__}` makes kernels and is none itself",
                location=kernel.location,
                hint="Pass a `@tileprof.jit` function with its kernel in its body.",
            )
        functools.update_wrapper(self, kernel)
        self.kernel: JitFunction = kernel
        """The kernel itself."""
        self.name = kernel.__name__
        self._rules = rules
        self._results = returned_names(kernel.source)
        in_body = annotated_tensors(kernel.source)
        self._tensors = frozenset(
            n
            for n in kernel.signature.parameters
            if n in in_body or isinstance(kernel.annotation(n), TensorType)
        )
        self._visible = len(self._results) - len(rules.keeps)
        self._check_results()
        self.backward: Callable[..., Any] | None = rules.backward
        """The function of its gradients."""
        if isinstance(rules.backward, JitFunction):
            self.backward = JaxFunction(rules.backward, Rules(vmap=self._sequential()))
        self._made: Kept[Any, Callable[..., Any]] = Kept()
        register()

    @property
    def location(self) -> Location | None:
        """Place of the kernel."""
        return self.kernel.location

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it like the kernel, with arrays of JAX or NumPy."""
        given = self.kernel.bound(*args, **kwargs)
        arrays = {n: jnp.asarray(v) for n, v in given.items() if _is_array(v)}
        self._check_tensors(arrays)
        static = {n: v for n, v in given.items() if n not in arrays}
        key = tuple(arrays), tuple((n, type(v), v) for n, v in static.items())
        made = self._made.get(key) or self._made.made(
            key, lambda: self._with_gradients(tuple(arrays), static)
        )
        result: R = made(*arrays.values())
        return result

    # -- the call itself

    def _raw(self, names: tuple[str, ...], static: dict[str, Any]) -> Callable[..., Any]:
        """Return a function from arrays to all results, as a tuple."""
        sequential = "sequential" if self._rules.vmap == "sequential" else None

        def call(*arrays: Any) -> tuple[Any, ...]:
            given = static | dict(zip(names, map(self._type_of, names, arrays)))
            types = self._types(given)
            if all(math.prod(each.shape) == 0 for each in types):
                return tuple(each.zeros() for each in types)
            held = Call(self.kernel, [given[n] for n in self.kernel.signature.parameters])
            plan = held.plan(_default_device())
            self._check_writes(plan.variant.traced.kernel)
            made = [
                jax.ShapeDtypeStruct(shape, kind.to_numpy())
                for shape, kind in plan.results(held.arguments)
            ]
            run = jax.ffi.ffi_call(TARGET, made, vmap_method=sequential)
            found = run(*arrays, **{ATTRIBUTE: known(held, plan)})
            places = {at: number for number, (at, _) in enumerate(plan.outputs)}
            return tuple(found[places[at]] for at in plan.returned)

        return call if sequential else self._batched(call, static)

    def _batched(self, call: Callable[..., Any], static: dict[str, Any]) -> Callable[..., Any]:
        """Return the function with the author's rule for batches, or one that refuses them."""
        made: Any = jax.custom_batching.custom_vmap(call)
        rule = self._rules.vmap

        def batch(size: int, batched: Sequence[bool], *arrays: Any) -> Any:
            if rule is None:
                raise ArgumentError(
                    f"`{self.name}` has no rule for `vmap`",
                    location=self.location,
                    hint='Name one: `tileprof.jax_call(kernel, vmap=…)`, or "sequential" for a '
                    "launch for each.",
                )
            results, out = rule(size, batched, *arrays, **static)
            return (results, out) if isinstance(results, tuple) else ((results,), (out,))

        made.def_vmap(batch)
        return made  # type: ignore[no-any-return]

    def _type_of(self, name: str, array: Any) -> Array:
        try:
            return Array(tuple(map(int, array.shape)), ir.dtype(array.dtype.name))
        except DTypeError:
            raise ArgumentError(
                f"argument `{name}` of `{self.name}` has elements of {array.dtype}, and no kernel "
                "has",
                location=self.location,
                hint=f"Convert it: `{name}.astype(…)`.",
            ) from None

    def _types(self, given: dict[str, Any]) -> list[Array]:
        """Return the types of all results that the kernel returns."""
        with abstract(_Calls()):
            made = self.kernel(**given)
        return list(made) if isinstance(made, tuple) else [made]

    def _check_results(self) -> None:
        if not self._results:
            raise UsageError(
                f"`{self.name}` returns nothing, and arrays of JAX cannot be written",
                location=self.location,
                hint="Return what it makes: `Y = T.empty(shape, dtype)` … `return Y`.",
            )
        keeps = self._rules.keeps
        if keeps and (self._visible < 1 or self._results[-len(keeps) :] != keeps):
            raise UsageError(
                f"`keeps` of `{self.name}` names {', '.join(keeps)}, and its results are "
                f"{', '.join(self._results)}",
                location=self.location,
                hint="Name the last results by their names in the `return`; the caller gets at "
                "least the first.",
            )

    def _check_tensors(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._tensors:
                raise ArgumentError(
                    f"argument `{name}` of `{self.name}` is an array, and the kernel takes a "
                    "number",
                    location=self.location,
                    hint=f"Pass a number of Python's; under `jit`, make it a constant: "
                    f'`jax.jit(f, static_argnames="{name}")`.',
                )

    def _check_writes(self, kernel: ir.Kernel) -> None:
        for at in written_params(kernel):
            if kernel.params[at].role == "in":
                raise UsageError(
                    f"`{self.name}` writes `{kernel.params[at].name}`, and arrays of JAX cannot be "
                    "written",
                    location=self.location,
                    hint="Write into a tensor from `T.empty` and return it.",
                )

    # -- gradients

    def _with_gradients(self, names: tuple[str, ...], static: dict[str, Any]) -> Callable[..., Any]:
        """Return the function from arrays to the results of the caller."""
        raw = self._raw(names, static)

        def visible(results: tuple[Any, ...]) -> Any:
            return results[0] if self._visible == 1 else results[: self._visible]

        def primal(*arrays: Any) -> Any:
            return visible(raw(*arrays))

        made: Callable[..., Any] = jax.custom_vjp(primal)
        again = self._again(raw, made)
        wanted = self._wanted(names)
        saved = None if self.backward is None else self._saved(names)

        def forward(*primals: Any) -> Any:
            for name, each in zip(names, primals):
                if each.perturbed and name not in wanted:
                    self._refuse_gradient(name)
            arrays = [each.value for each in primals]
            results = again(*arrays)
            assert saved is not None, "a kernel without backward wants no gradient"
            given = dict(zip(names, arrays))
            kept = [given[order[at]] if at >= 0 else results[~at] for at in saved.tensors]
            types = _Types(tuple(map(self._type_of, names, arrays)))
            return visible(results), (kept, types)

        def backward(keep: tuple[list[Any], _Types], slopes: Any) -> tuple[Any, ...]:
            assert saved is not None
            kept, types = keep
            slopes = slopes if isinstance(slopes, (tuple, list)) else (slopes,)
            slopes = [_filled(each) for each in slopes[: saved.gradients]]
            if all(each.size == 0 for each in slopes):
                # Kernels of no blocks would write none.
                zeros = {n: t.zeros() for n, t in zip(names, types.held)}
                return tuple(zeros[n] if n in wanted else None for n in names)
            held = [*kept, *(static[order[at]] for at in saved.values)]
            made = self._slopes(wanted, [*slopes, *(held[at] for at in saved.order)])
            return tuple(made.get(n) for n in names)

        order = list(self.kernel.signature.parameters)
        made.defvjp(forward, backward, symbolic_zeros=True)  # type: ignore[attr-defined]
        return made

    def _again(self, raw: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function of all results with which a derivative begins; it can be
        differentiated itself, unless results are kept."""
        if not self._rules.keeps:
            return made if self._visible > 1 else lambda *arrays: (made(*arrays),)

        def refuse(*_: Any) -> NoReturn:
            raise ArgumentError(
                f"`{self.name}` has no second derivatives, because `{self._rules.keeps[0]}` is "
                "kept for its backward",
                location=self.location,
                hint="Return what backward needs, or let it compute it anew.",
            )

        once: Callable[..., Any] = jax.custom_vjp(raw)
        once.defvjp(refuse, refuse)  # type: ignore[attr-defined]
        return once

    def _wanted(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the arrays that `backward` has gradients of."""
        if self.backward is None:
            return ()
        wanted = names if self._rules.gradients is None else self._rules.gradients
        if missing := [n for n in wanted if n not in names]:
            raise UsageError(
                f"`gradients` names `{missing[0]}`, which is not an array that `{self.name}` takes",
                location=self.location,
                hint=f"It takes: {', '.join(names)}.",
            )
        return wanted

    def _saved(self, names: tuple[str, ...]) -> Saved:
        """Find what `backward` needs, by the names of its parameters."""
        own = [Parameter(n, n in names, False, None) for n in self.kernel.signature.parameters]
        numbers = {p.name for p in own if not p.is_tensor}
        held = self.backward
        signature = (
            held.kernel.signature if isinstance(held, JaxFunction) else inspect.signature(held)  # type: ignore[arg-type]
        )
        theirs = [
            Parameter(n, n not in numbers, p.default is not p.empty, None)
            for n, p in signature.parameters.items()
        ]
        return Saved.plan(
            own, self._results, theirs, self._visible, self.name, self.kernel.location
        )

    def _slopes(self, wanted: tuple[str, ...], given: list[Any]) -> dict[str, Any]:
        """Return the gradients by name."""
        assert self.backward is not None
        found = self.backward(*given)
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(wanted):
            raise UsageError(
                f"the backward of `{self.name}` returns {len(found)} gradients, and {len(wanted)} "
                f"are expected: {', '.join(wanted)}",
                location=self.location,
                hint="Name the arguments that they belong to: `tileprof.jax_call(…, gradients=…)`.",
            )
        return dict(zip(wanted, found))

    def _refuse_gradient(self, name: str) -> NoReturn:
        why = "has no backward" if self.backward is None else f"gives `{name}` no gradient"
        raise ArgumentError(
            f"argument `{name}` is differentiated, and `{self.name}` {why}",
            location=self.location,
            hint="Name the function of its gradients: `tileprof.jax_call(kernel, backward=…)`; or "
            f"pass `jax.lax.stop_gradient({name})`.",
        )

    def _sequential(self) -> str | None:
        return "sequential" if self._rules.vmap == "sequential" else None


@jax.tree_util.register_static
@dataclass(frozen=True, slots=True)
class _Types:
    """Types of the arrays of a call, kept for its derivative."""

    held: tuple[Array, ...]


class _Calls:
    """Kernels answered with the types of their results."""

    def tensor(self, value: Any) -> AbstractTensor | None:
        """Return what is known of an array."""
        return AbstractTensor(value.shape, value.kind) if isinstance(value, Array) else None

    def number(self, value: Any) -> Any:
        """Return a number, which is known."""
        return value

    def result(self, shape: tuple[Any, ...], kind: ir.DType) -> Array:
        """Return a result's type."""
        return Array(tuple(map(int, shape)), kind)


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


def _filled(slope: Any) -> Any:
    """Return a slope as an array, where JAX knows that it is 0."""
    if isinstance(slope, jax.custom_derivatives.SymbolicZero):
        return jnp.zeros(slope.shape, slope.dtype)
    return slope


def _default_device() -> str:
    """Return the device for which a kernel is compiled when it is traced."""
    chosen = jax.config.jax_default_device
    backend = jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)
    if backend not in ("cpu", "gpu", "cuda"):
        raise UsageError(
            f"JAX runs on `{backend}`, for which there are no kernels",
            hint="Kernels run on `cpu` and `cuda`: set JAX_PLATFORMS=cpu.",
        )
    return "cpu" if backend == "cpu" else "cuda:0"
